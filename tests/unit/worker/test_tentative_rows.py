"""MECHANISMS P14: every row that was published tentatively is closed, and readers end with the final rows alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from holdfast.newest import Newest, Row
from holdfast.schemas.costs import TentativeCounts
from holdfast.schemas.cuts import END_WATERMARK
from holdfast.schemas.delivered import decode
from holdfast.schemas.plans import OperatorPlan
from holdfast.schemas.topics import ClusterTopics, Partition, TopicSpec
from holdfast.services.hosting.blocking_calls import Inline
from holdfast.services.kernel.dataflow.unit import SinkRows
from holdfast.services.kernel.errors import Refused
from holdfast.services.kernel.plans.layout import TaskLayout
from holdfast.services.log.memory import MemoryLog
from holdfast.services.worker.core.spent import Spent
from holdfast.services.worker.sinks.delivery import Delivery, History
from holdfast.services.worker.sinks.meter import Meter
from holdfast.services.worker.sinks.portions import Batch
from holdfast.services.worker.sinks.position import Positions
from holdfast.services.worker.sinks.refusals import Refusals
from holdfast.services.worker.sinks.tentative_rows import MAX_WAITING, Ahead
from holdfast.services.worker.sinks.unit_sinks import UnitSinks
from tests.support.examples import examples

TOPICS = ClusterTopics().job("job", "0-abcdef")
PARAMS = {"query": "q", "topic": "out", "partitions": 2, "tentative": True}
SINK = OperatorPlan("q", "sink", 1, ("s",), PARAMS, {"w": "int", "n": "int"}, ("w",))
TASK = TaskLayout("q-0", 0, SINK, (), (), (), None)
TOTALS = replace(TASK, operator=structs.replace(SINK, params=PARAMS | {"updates": True}))
"""Of running totals: w is their key."""
WINDOWS = range(1, 6)


def rows(counts: dict[int, int], watermark: int, task: TaskLayout = TASK) -> list[SinkRows]:
    """Of windows, by their end."""
    frame = pl.DataFrame({"w": list(counts), "n": list(counts.values())}, {"w": pl.Int64, "n": pl.Int64})
    return [SinkRows(task, frame, watermark)] if counts else []


@dataclass
class Site:
    """A sink's topic, and the delivery of the copy that leads."""

    log: MemoryLog = field(default_factory=lambda: MemoryLog(lambda: 0))
    beside: Inline = field(default_factory=Inline)
    errors: list[Exception] = field(default_factory=list)
    refusals: Refusals = field(default_factory=Refusals)
    events: list[tuple[str, str]] = field(default_factory=list)
    spent: Spent = field(default_factory=Spent)
    task: TaskLayout = TASK

    def __post_init__(self) -> None:
        self.log.create([TopicSpec("out", 2), TopicSpec(TOPICS.dead_letters), TopicSpec(TOPICS.delivered)])
        self.open()

    def open(self) -> None:
        log, position = self.log, Partition(TOPICS.delivered, 0)
        positions = Positions(log, "u", position, Partition(TOPICS.cuts, 0), (), lambda: 100, lambda *_: None)
        meter = Meter(self.spent, lambda: 0.0, lambda: 0.0)
        self.delivery = Delivery(
            log, self.beside, UnitSinks(TOPICS, "u", tentative={"q": self.task.operator}), positions,
            failed=self.errors.append, meter=meter, history=History(self.refusals),
        )  # fmt: skip
        self.delivery.ahead.happened = lambda kind, detail: self.events.append((kind, detail))
        self.delivery.open(lambda _: None)
        self.answer()

    def take_over(self) -> None:
        """Another copy opens the outputs, and continues with what is not known to be committed."""
        left = self.delivery.leftovers()
        self.delivery.close()
        self.open()
        self.delivery.deliver(*left)

    def answer(self) -> None:
        while self.beside.poll():
            pass

    def stable(self, batch: int, counts: dict[int, int], watermark: int) -> None:
        self.delivery.deliver(Batch(batch, rows(counts, watermark, self.task), [], 0, {"q": watermark}))

    def line(self, batch: int, counts: dict[int, int], watermark: int) -> None:
        self.delivery.deliver_tentative(Ahead(batch, rows(counts, watermark, self.task), {"q": 0.75}))

    def read(self) -> tuple[list[Row], int]:
        """All that a reader is told, and how many keys are left tentative."""
        newest, told = Newest(), list[Row]()
        for index in range(2):
            for message in self.log.scan(Partition("out", index)):
                row = newest.read(message.key(), message.value(), message.headers())
                told += [] if row is None else [row]
        return told, newest.open

    def compacted(self) -> dict[bytes | None, bytes]:
        """The last value of each key, as a compacted topic has it."""
        found = {message.key(): message.value() for at in range(2) for message in self.log.scan(Partition("out", at))}
        return {key: value for key, value in found.items() if value is not None}


def known(told: Sequence[Row]) -> dict[bytes | None, tuple[bytes | None, bool]]:
    return {row.key: (row.value, row.final) for row in told}


@examples(each_run=60, with_long=300)
@given(
    st.lists(st.sampled_from(("stable", "line", "leap", "take over", "answer")), max_size=24),
    st.sets(st.sampled_from(WINDOWS)),
    st.sets(st.sampled_from(WINDOWS)),
    st.integers(0, 3),
)
def test_readers_end_with_the_rows_of_the_stable_batches_alone(
    steps: list[str], real: set[int], said: set[int], lag: int
) -> None:
    """Window w ends at w. The line has it in batch w, if not later, the stable batches in batch w + lag. A line forks
    where the stable batches stand, and leaves batches out only while they stand there still.
    """
    site, stable, line, forked = Site(), 0, 0, 0
    for step in steps:
        if step == "stable" and stable < 9:
            stable += 1
            site.stable(stable, {w: 2 for w in real if w + lag == stable}, stable - lag)
        elif step in ("line", "leap") and site.delivery.delivered <= stable:
            if line <= stable:
                line = forked = stable
            gone = line - lag if line == forked else line
            line += 2 if step == "leap" and forked == stable else 1
            site.line(line, {w: 1 for w in said if gone < w <= line}, line)
        elif step == "take over":
            site.take_over()
            line = 0
        elif step == "answer":
            site.answer()
    while stable < 9 + lag:
        stable += 1
        site.stable(stable, {w: 2 for w in real if w + lag == stable}, stable - lag)
        site.answer()
    site.stable(stable + 1, {}, END_WATERMARK)
    site.answer()
    assert not site.errors
    told, open = site.read()
    assert open == 0
    truth = {b"[%d]" % w: b'{"w":%d,"n":2}' % w for w in real}
    assert {key: value for key, (value, _) in known(told).items() if value is not None} == truth
    assert all(final for _, final in known(told).values())
    assert site.compacted() == truth, "also for a reader that looks at no header"


BATCHES = 9
TOUCHED = st.lists(st.sets(st.sampled_from(WINDOWS)), min_size=BATCHES, max_size=BATCHES)
"""By batch, keys."""


@examples(each_run=60, with_long=300)
@given(st.lists(st.sampled_from(("stable", "line", "leap", "take over", "answer")), max_size=24), TOUCHED, TOUCHED)
def test_readers_of_running_totals_end_with_the_newest_final_rows_and_none_is_taken_back(
    steps: list[str], touched: list[set[int]], missing: list[set[int]]
) -> None:
    """A batch of the line touches no key that the stable batch of its number does not."""
    site, stable, line, forked = Site(task=TOTALS), 0, 0, 0

    def do_stable() -> None:
        site.stable(stable, dict.fromkeys(touched[stable - 1], 10 * stable), stable)

    for step in steps:
        if step == "stable" and stable < BATCHES:
            stable += 1
            do_stable()
        elif step in ("line", "leap") and site.delivery.delivered <= stable:
            if line <= stable:
                line = forked = stable
            line += 2 if step == "leap" and forked == stable else 1
            if line <= BATCHES:
                site.line(line, dict.fromkeys(touched[line - 1] - missing[line - 1], 1), line)
        elif step == "take over":
            site.take_over()
            line = 0
        elif step == "answer":
            site.answer()
    while stable < BATCHES:
        stable += 1
        do_stable()
        site.answer()
    site.stable(BATCHES + 1, {}, END_WATERMARK)
    site.answer()
    assert not site.errors
    told, open = site.read()
    last = {w: 10 * number for number, keys in enumerate(touched, 1) for w in keys}
    truth = {b"[%d]" % w: b'{"w":%d,"n":%d}' % (w, n) for w, n in last.items()}
    assert (open, {key: value for key, (value, _) in known(told).items()}) == (0, truth)
    assert site.compacted() == truth
    assert not any(row.value is None for row in told)


def test_a_tentative_row_says_its_fidelity_and_a_record_without_value_takes_it_back() -> None:
    site = Site()
    site.line(4, {1: 7}, 10)
    site.answer()
    assert site.read() == ([Row(b"[1]", b'{"w":1,"n":7}', False, 0.75, 4)], 1)
    site.stable(4, {}, 9)
    site.answer()
    assert site.read()[1] == 1, "the final row may still come"
    site.stable(5, {}, 10)
    site.answer()
    assert site.read()[0][1:] == [Row(b"[1]", None, True, 1.0, 5)]
    assert decode(site.log.last(Partition(TOPICS.delivered, 0)).value()).since == ()  # type: ignore[union-attr, arg-type]


def test_a_batch_is_published_once_whichever_copy_leads() -> None:
    site = Site()
    site.line(4, {1: 7}, 10)
    site.answer()
    site.take_over()
    assert site.delivery.ahead.open == 1, "read back from the topic"
    site.line(4, {1: 8}, 10)
    site.line(5, {2: 8}, 11)
    site.answer()
    assert [row.value for row in sorted(site.read()[0], key=lambda row: row.batch)] == [
        b'{"w":1,"n":7}',
        b'{"w":2,"n":8}',
    ]

    site.take_over()
    assert site.delivery.ahead.open == 2, "all that was published since none was open"


def test_events_say_that_tentative_rows_begin_and_how_all_were_corrected_whichever_copy_leads() -> None:
    site = Site()
    site.stable(1, {1: 2}, 1)
    site.answer()
    assert site.events == [], "final rows alone are no news"
    for batch in (2, 3, 4):
        site.line(batch, {batch: 7}, batch)
        site.answer()
    begins = ("tentative-begins", "q: fidelity 75%")
    assert site.events == [begins], "once, not with each batch"
    site.stable(2, {2: 2}, 2)
    site.answer()
    site.take_over()
    assert site.spent.tentative == {"q": TentativeCounts(3, 1, 0, 2, 0.75)}, "as it reads them back"
    site.line(5, {5: 7}, 5)
    site.stable(3, {}, 3)
    site.answer()
    assert site.events == [begins], "the copy that takes over knows that they have begun, and some are open"
    assert site.spent.tentative == {"q": TentativeCounts(4, 1, 1, 2, 0.75)}
    site.take_over()
    for batch in (4, 5):
        site.stable(batch, {batch: 2}, batch)
        site.answer()
    assert site.events == [begins, ("corrected", "q: 3 replaced, 1 withdrawn")], "those before the takeover, too"

    site.line(6, {6: 7}, 6)
    site.answer()
    site.stable(6, {}, 6)
    site.answer()
    assert site.events[2:] == [begins, ("corrected", "q: 0 replaced, 1 withdrawn")], "counted from zero again"
    assert site.spent.tentative == {"q": TentativeCounts(5, 3, 2, 0, 0.75)}


def test_the_end_of_a_job_closes_what_is_just_being_published() -> None:
    site = Site()
    site.line(4, {1: 7}, 10)
    site.stable(5, {}, END_WATERMARK)
    site.answer()
    assert (site.read()[1], site.compacted()) == (0, {})


def test_final_rows_go_first_and_drop_what_waits() -> None:
    site = Site()
    site.line(4, {1: 7}, 10)
    for batch in range(5, 5 + MAX_WAITING):
        site.line(batch, {batch: 7}, 10)
    assert site.delivery.ahead.full
    site.stable(1, {1: 2}, 1)
    assert not site.delivery.ahead.waits
    assert site.delivery.committed(1) == 0, "of a tentative batch nothing is committed"
    site.answer()
    assert site.delivery.committed(1) == 1
    assert known(site.read()[0]) == {b"[1]": (b'{"w":1,"n":2}', True)}


def test_tentative_rows_that_kafka_refuses_are_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site()
    monkeypatch.setattr(site.log, "too_large", lambda rows: "out" if rows[0].topic == "out" else "")
    monkeypatch.setattr(site.log, "config", lambda topic: {"max.message.bytes": "2000"})
    for batch in (4, 5, 6):
        site.line(batch, {1: 7}, 10)
        site.answer()
        site.take_over()
    first, second = site.errors
    assert not isinstance(first, Refused), "the next producer makes smaller batches"
    assert isinstance(second, Refused)
    assert site.read() == ([], 0)
