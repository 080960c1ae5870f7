"""What others say is compared with what is known before it is believed: positions, progress, trims."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.schemas import cuts, delivered
from holdfast.schemas.checkpoints import Position
from holdfast.schemas.cuts import Cut, Range
from holdfast.schemas.decided import Id
from holdfast.schemas.delivered import Delivered
from holdfast.schemas.progress import Progress
from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.log.memory import MemoryLog
from holdfast.services.worker.core.cut_rhythm import MAX_LEAD_BATCHES
from holdfast.services.worker.core.trim_limit import acknowledged
from holdfast.services.worker.host.job import TAKEN_BACK_BATCHES, JobView
from holdfast.services.worker.sinks.position import Positions
from tests.support.memory_cluster import MemoryCluster
from tests.support.orders import JOB

CUTS, DELIVERED = Partition("cuts", 0), Partition("delivered", 0)


class Site:
    """A cut log, and the positions of a unit that has done `done` batches."""

    def __init__(self, batches: int, done: int = 0) -> None:
        self.log = MemoryLog(lambda: 0)
        self.log.create([TopicSpec("cuts"), TopicSpec("delivered")])
        self._appender = self.log.appender("a")
        for batch in range(1, batches + 1):
            prev = Id("a", batch - 1) if batch > 1 else None
            self.cut(Cut("s-0", batch, (Range(0, batch, batch + 1),), 0, Id("a", batch), prev))
        self.refused: list[int] = []
        self.positions = Positions(
            self.log, "u", DELIVERED, CUTS, (), lambda: done, lambda at, offset, cause: self.refused.append(offset)
        )

    def cut(self, cut: Cut) -> None:
        self._appender.append(CUTS, cuts.encode(cut))

    def deliver(self, *values: bytes | int) -> Site:
        for value in values:
            one = delivered.encode(Delivered("u", value, 1)) if isinstance(value, int) else value
            self._appender.append(DELIVERED, one)
        return self

    @property
    def last(self) -> int | None:
        found = self.positions.last()
        return None if found is None else found.batch


def test_the_last_position_counts() -> None:
    assert Site(1_000).deliver(5, 300).last == 300
    assert Site(3).last is None


@pytest.mark.parametrize("forged", [1_001, 2**53, b"", b"{}", b"\xff", delivered.encode(Delivered("v", 6, 1))])
def test_an_impossible_position_is_refused_and_the_last_possible_one_counts(forged: int | bytes) -> None:
    site = Site(1_000).deliver(5, 300, forged)
    assert site.last == 300
    assert 2 in site.refused


@pytest.mark.parametrize("between", [0, 200])
def test_a_position_that_is_written_once_more_sets_nobody_back(between: int) -> None:
    """Its seal is true. All rows behind it would be delivered again."""
    site = Site(1_000).deliver(5, 44, 55).deliver(*[44] * (1 + between))
    assert site.last == 55
    assert site.deliver(56).last == 56


def test_a_value_that_is_no_position_is_none() -> None:
    assert Site(10).deliver(2_000, b"?").last is None


def test_a_forged_cut_makes_no_batch_exist() -> None:
    site = Site(1_000).deliver(300, 5_000)
    site.cut(Cut("s-0", 6_000, (), 0, Id("b", 1), Id("b", 0)))
    site.cut(Cut("s-0", 6_000, (), 0, Id("b", 2), None))
    assert site.last == 300


def test_the_newest_cut_is_found_behind_much_that_is_none() -> None:
    site = Site(1_000)
    for _ in range(2_000):
        site.cut(Cut("s-0", 9_000, (), 0, Id("b", 1), Id("c", 0)))
    assert site.deliver(1_000).last == 1_000


def test_a_near_position_is_believed_without_a_look_at_the_cut_log() -> None:
    assert Site(0, done=100).deliver(100 + MAX_LEAD_BATCHES).last == 100 + MAX_LEAD_BATCHES


# -- progress ---------------------------------------------------------------------------------------------------------


def view() -> tuple[JobView, str]:
    cluster = MemoryCluster(JOB)
    job = JobView.of(cluster.plan, cluster.cluster, cluster.start("w")._decisions.assigned)
    return job, cluster.units[0]


def test_progress_that_was_told_is_a_maximum() -> None:
    job, unit = view()
    for processed, acked in ((10, 3), (9, 5), (12, 4)):
        job.read_published(Progress(unit, processed, acked))
    assert (job.progress[unit].processed, job.progress[unit].acked) == (12, 5)


def test_an_implausible_report_gives_way_to_the_next_one() -> None:
    job, unit = view()
    job.read_published(Progress(unit, 10, 3))
    job.read_published(Progress(unit, 2**53, 2**53))
    job.read_published(Progress(unit, 11, 4))
    assert (job.progress[unit].processed, job.progress[unit].acked) == (11, 4)
    job.read_published(Progress(unit, 11 + TAKEN_BACK_BATCHES, 4))
    job.read_published(Progress(unit, 12, 4))
    assert job.progress[unit].processed == 11 + TAKEN_BACK_BATCHES, "a takeover sets nobody back"


@pytest.mark.parametrize("odd", [Progress("nobody-0", 5, 5), Progress("orders-0", 5, 6)])
def test_progress_that_no_unit_can_have_made_is_refused(odd: Progress) -> None:
    job, _ = view()
    with pytest.raises(msgspec.ValidationError):
        job.read_published(odd)
    assert not job.progress


def test_nothing_is_trimmed_for_a_reader_that_is_ahead_of_the_writer() -> None:
    data = Partition("data", 0)
    told = {"r": Progress("r", 9, 9, (Position("data", 0, 40),))}
    assert acknowledged(data, ["r"], told, batch=9) == 40
    assert acknowledged(data, ["r"], told, batch=8) == 0
