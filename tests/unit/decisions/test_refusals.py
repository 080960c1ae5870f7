"""What a reader refuses is counted, and reported, but not so often that nobody can read anything else."""

from __future__ import annotations

from holdfast.schemas.events import Event
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.refusals import KIND, QUIET_MS, Refusals

DATA, CUTS = Partition("t.job.0-abcdef.data.s.0", 3), Partition("t.job.0-abcdef.cuts", 0)


class Told:
    def __init__(self) -> None:
        self.now_ms = 0.0
        self.events: list[Event] = []
        self.refusals = Refusals(self.events.append, lambda: self.now_ms, lambda: 7)


def test_the_first_of_a_topic_is_reported_with_topic_offset_and_cause() -> None:
    told = Told()
    told.refusals.refuse(DATA, 5, ValueError("no frame"), "job")
    (event,) = told.events
    assert (event.kind, event.job, event.topic, event.partition, event.offset) == (KIND, "job", DATA.topic, 3, 5)
    assert event.detail == f"{DATA} offset 5: no frame"


def test_many_of_a_topic_are_counted_and_reported_once_in_a_while() -> None:
    told = Told()
    for offset in range(100):
        told.refusals.refuse(DATA, offset, "no frame")
    told.refusals.refuse(CUTS, 1, "no cut")
    assert [event.offset for event in told.events] == [0, 1]
    told.now_ms += QUIET_MS
    told.refusals.refuse(DATA, 100, "no frame")
    assert told.events[-1].detail.endswith("(and 99 before it)")
    assert told.refusals.counts == {DATA.topic: 101, CUTS.topic: 1}


def test_a_cause_is_cut_short() -> None:
    told = Told()
    told.refusals.refuse(DATA, 0, "x" * 100_000)
    assert len(told.events[0].detail) < 500
