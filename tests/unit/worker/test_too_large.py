"""Rows larger than their topic takes go to the dead letters; the others continue, in one transaction with them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import msgspec
import polars as pl
import pytest

from holdfast.schemas.dead_letters import MAX_RAW_BYTES, DeadLetter, decode
from holdfast.schemas.plans import OperatorPlan
from holdfast.schemas.topics import ClusterTopics, Partition, TopicSpec
from holdfast.services.audit.comparison import Comparison, Counts
from holdfast.services.audit.recomputation import Row
from holdfast.services.hosting.blocking_calls import Inline
from holdfast.services.kernel.codecs.arrow_records import halves
from holdfast.services.kernel.dataflow.sink_records import sink_records
from holdfast.services.kernel.dataflow.unit import SinkRows
from holdfast.services.kernel.errors import Indefinite, InvalidRecord, Refused, Retriable
from holdfast.services.kernel.plans.layout import TaskLayout
from holdfast.services.log.memory import MemoryLog, MemoryTransactor
from holdfast.services.log.protocol import Rows
from holdfast.services.log.record_sizes import size_alone
from holdfast.services.worker.core.spent import Spent
from holdfast.services.worker.sinks.delivery import Delivery, History
from holdfast.services.worker.sinks.meter import Meter, size_about
from holdfast.services.worker.sinks.portions import Batch
from holdfast.services.worker.sinks.position import Positions
from holdfast.services.worker.sinks.refusals import LAST_PAUSE_MS, MOST_REFUSALS, SAID_MS, Refusals
from holdfast.services.worker.sinks.too_large import ROW_BYTES, split_large, stands_for
from holdfast.services.worker.sinks.unit_sinks import UnitSinks

LIMIT = 1_000
TOPICS = ClusterTopics().job("job", "0-abcdef")
SINK = OperatorPlan("all", "sink", 1, ("s",), {"query": "all", "topic": "out", "partitions": 1}, {"t": "string"})
TASK = TaskLayout("all-0", 0, SINK, (), (), (), None)
ARROW = replace(TASK, operator=msgspec.structs.replace(SINK, params={**SINK.params, "format": "arrow"}))
ARROW_LIMIT = 4_000
"""An Arrow record of one short row takes some 700 bytes."""


def positions(log: MemoryLog) -> Positions:
    return Positions(
        log, "u", Partition(TOPICS.delivered, 0), Partition(TOPICS.cuts, 0), (), lambda: 100, lambda *_: None
    )


def meter(spent: Spent, clock_ms: Callable[[], float] | None = None) -> Meter:
    """Without a clock each look at it is a millisecond later, and half a millisecond of CPU time."""
    clock, cpu = itertools.count(0.0, 1.0), itertools.count(0.0, 0.5)
    return Meter(spent, clock_ms or partial(next, clock), partial(next, cpu))


class Site:
    def __init__(
        self, dead_letters: bool = True, limit: int = LIMIT, task: TaskLayout = TASK, ticks: bool = False
    ) -> None:
        self.log, self.task, self.ticks = MemoryLog(lambda: 0), task, ticks
        config = {"max.message.bytes": str(limit)}
        self.log.create([TopicSpec("out", 1, config), TopicSpec(TOPICS.dead_letters), TopicSpec(TOPICS.delivered)])
        self.errors: list[Exception] = []
        self.again = True
        self.spent = Spent()
        self.beside = Inline()
        self.refusals, self.dead_letters = Refusals(["out", TOPICS.dead_letters, TOPICS.delivered]), dead_letters
        self.now_ms = 0.0
        self.open()

    def open(self) -> None:
        self.delivery = Delivery(
            self.log,
            self.beside,
            UnitSinks(TOPICS, "u", dead_letters=self.dead_letters),
            positions(self.log),
            failed=self.failed,
            meter=meter(self.spent, None if self.ticks else lambda: self.now_ms),
            history=History(self.refusals),
        )
        self.delivery.open(lambda _: None)
        self.beside.poll()

    def failed(self, error: Exception) -> None:
        """What can be tried again, a copy tries again, with a producer of its own."""
        self.errors.append(error)
        if self.again and isinstance(error, Retriable | Indefinite):
            left = self.delivery.leftovers()
            self.delivery.close()
            self.open()
            self.delivery.deliver(*left)
            self.beside.poll()

    def deliver(self, batch: int, *texts: str, dead: Sequence[DeadLetter] = ()) -> None:
        self.delivery.deliver(Batch(batch, [SinkRows(self.task, pl.DataFrame({"t": texts}), 0)], dead))
        self.beside.poll()

    def rows(self) -> list[bytes | None]:
        return [one.value() for one in self.log.scan(Partition("out", 0))]

    def letters(self) -> list[DeadLetter]:
        return [decode(one.value() or b"") for one in self.log.scan(Partition(TOPICS.dead_letters, 0))]


def test_a_row_too_large_is_dead_lettered_and_the_others_continue() -> None:
    site = Site()
    refused = DeadLetter("s", "why", 1)
    site.deliver(1, "a", "x" * 2 * LIMIT, "b", dead=[refused])
    site.deliver(2, "c")
    assert site.rows() == [b'{"t":"a"}', b'{"t":"b"}', b'{"t":"c"}']
    first, second = site.letters()
    assert first == refused
    assert (
        second.reason
        == "a row of 2,008 bytes is more than topic out takes: 1,000 (its max.message.bytes; MSG_SIZE_TOO_LARGE)"
    )
    assert (second.origin, second.batch, second.row[:9]) == ("all", 1, '{"t":"xxx')
    assert site.delivery.delivered == 2
    assert len(site.errors) == 1, "known once, no row is refused again"


def test_rows_dead_lettered_are_counted_beside_the_position_and_known_to_the_next_copy() -> None:
    site = Site()
    site.deliver(1, "a", "x" * 2 * LIMIT)
    site.deliver(2, "b")
    site.deliver(3, "x" * 2 * LIMIT, "y" * 2 * LIMIT)
    assert site.delivery.too_large == 3
    assert len(site.errors) == 1
    sinks, errors = UnitSinks(TOPICS, "u"), site.errors
    successor = Delivery(site.log, site.beside, sinks, positions(site.log), failed=errors.append, meter=meter(Spent()))
    successor.open(lambda _: None)
    site.beside.poll()
    assert (successor.delivered, successor.too_large) == (3, 3)


@pytest.mark.parametrize("value", [b"x" * 10, b"x" * 2 * ROW_BYTES, b"\xff" * 10, b"\xff" * 2 * MAX_RAW_BYTES])
def test_a_letter_stands_for_its_row_and_for_no_other(value: bytes) -> None:
    _, (letter,) = split_large(Rows("out", [value]), 0, "all", 1)
    assert stands_for(letter, value)
    assert not stands_for(letter, b"y" + value[1:])
    assert not stands_for(letter, value[:5])


def test_a_replay_finds_a_row_that_was_dead_lettered_neither_lost_nor_twice() -> None:
    comparison = Comparison("all")
    large, small = Row(b"x" * LIMIT), Row(b"y")
    comparison.expect(1, [large, small])
    _, (letter,) = split_large(Rows("out", [large.value]), 0, "all", 1)
    comparison.find(1, small)
    assert comparison.excuse(1, lambda row: stands_for(letter, row.value))
    assert not comparison.excuse(1, lambda row: stands_for(letter, row.value)), "once"
    comparison.finish()
    assert comparison.counts == Counts(results=2)


def _stands_for(letter: DeadLetter, row: Row) -> bool:
    return stands_for(letter, row.value)


def test_a_large_row_of_an_arrow_record_costs_none_of_its_neighbours_and_a_replay_finds_each() -> None:
    site = Site(limit=ARROW_LIMIT, task=ARROW)
    large = "x" * 2 * ARROW_LIMIT
    texts = [*"abc", large, *(f"{index:030}" for index in range(300)), *["same" * 9] * 300, large, "z"]
    site.deliver(1, *texts)
    site.deliver(2, "after")
    records = [value or b"" for value in site.rows()]
    found = [text for value in records for text in pl.read_ipc_stream(value)["t"]]
    assert found == [*(text for text in texts if text != large), "after"]
    assert max(map(len, records)) < ARROW_LIMIT
    assert len(records) < 60, "parts are as large as the topic takes"
    letters = site.letters()
    assert [pl.read_ipc_stream(letter.raw)["t"].to_list() for letter in letters] == [[large], [large]]

    comparison = Comparison("all", halves)
    for batch, rows in ((1, texts), (2, ["after"])):
        values = sink_records(ARROW, pl.DataFrame({"t": rows}), batch).values
        comparison.expect(batch, [Row(value or b"") for value in values])
    for value in records[:-1]:
        comparison.find(1, Row(value))
    comparison.find(2, Row(records[-1]))
    for letter in letters:
        assert comparison.excuse(letter.batch, partial(_stands_for, letter))
    comparison.find(1, Row(records[0]))
    comparison.finish()
    assert (comparison.counts.lost, comparison.counts.wrong, comparison.counts.duplicated) == (0, 0, 1)


def test_transactions_are_counted_with_what_they_cost_and_what_they_deliver() -> None:
    site = Site(ticks=True)
    site.deliver(1, "a", "b")
    assert (site.spent.transactions, site.spent.aborted) == (1, 0)
    assert (site.spent.transaction_ms, site.spent.transaction_cpu_ms) == (1.0, 0.5)
    assert site.spent.sink_bytes == {"all": 2 * len('{"t":"a"}')}
    site.deliver(2, "x" * 2 * LIMIT, "c")
    assert (site.spent.transactions, site.spent.aborted) == (2, 1), "made once more, without the row"
    site.deliver(3, "x" * 2 * LIMIT, "d")
    assert (site.spent.transactions, site.spent.aborted) == (3, 1)


def test_a_transaction_that_fails_is_aborted_and_delivers_nothing() -> None:
    site = Site(dead_letters=False, ticks=True)
    site.deliver(1, "x" * 2 * LIMIT)
    assert (site.spent.transactions, site.spent.aborted, site.spent.sink_bytes) == (0, 2, {})
    assert site.spent.transaction_ms == 2.0


def test_bytes_of_many_rows_go_by_the_mean_of_some() -> None:
    assert size_about([]) == 0
    assert size_about([b"abc", None]) == 3
    assert size_about([b"x" * 10] * 100_000) == 1_000_000


def test_a_job_whose_errors_are_to_stop_it_stops_with_the_reason() -> None:
    site = Site(dead_letters=False)
    site.deliver(1, "x" * 2 * LIMIT)
    assert "a row of 2,008 bytes" in str(site.errors[-1])
    assert not site.rows()
    assert not site.letters()


def test_a_topic_that_takes_larger_rows_by_now_gets_them() -> None:
    site = Site()
    site.deliver(1, "x" * 2 * LIMIT)
    site.log.configure([TopicSpec("out", 1, {"max.message.bytes": str(10 * LIMIT)})])
    site.deliver(2, "y" * 2 * LIMIT)
    assert [len(row or b"") for row in site.rows()] == [2 * LIMIT + 8]
    assert len(site.letters()) == 1


@pytest.mark.parametrize("length", range(0, 400, 7))
def test_the_size_of_a_record_counts_to_the_byte(length: int) -> None:
    """Broken down: 61 of the batch, length, attributes, two deltas, key, value, headers. Kafka's test: contract."""
    rows = Rows("t", [b""], headers=[("ä", b"12")])
    body = 1 + 1 + 1 + 1 + (1 if length < 64 else 2) + length + 1 + (1 + 2 + 1 + 2)
    assert size_alone(length, None, rows) == 61 + (1 if body < 64 else 2) + body


class Refusing(MemoryTransactor):
    def commit(self, rows: Sequence[Rows]) -> None:
        raise Refused("the topic is compacted, and the rows have no key")


def test_rows_that_kafka_keeps_refusing_are_said_and_end_the_job_after_bounded_attempts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = Site()
    monkeypatch.setattr(site.log, "transactor", lambda name, size=None: Refusing(site.log, name))
    site.delivery.close()
    site.open()
    site.deliver(1, "a")
    said = []
    while (
        isinstance(site.delivery.leftovers() and site.errors[-1:] != [] and site.errors[-1], Refused) or not site.errors
    ):
        assert site.delivery.again_ms - site.now_ms <= LAST_PAUSE_MS, "the pause is bounded"
        site.now_ms = max(site.now_ms, site.delivery.again_ms)
        site.delivery.look_again(site.now_ms)
        said.append(site.refusals.waits(site.now_ms))
    assert len(site.errors) == MOST_REFUSALS
    last = site.errors[-1]
    assert isinstance(last, InvalidRecord)
    assert "batch 1 cannot be delivered to out" in str(last)
    assert "the topic is compacted" in str(last)
    assert any("attempts: the topic is compacted" in text for text in said)
    assert SAID_MS < site.now_ms < 120_000


def test_rows_that_are_committed_end_the_count_of_refusals() -> None:
    refusals = Refusals()
    for turn in range(3 * MOST_REFUSALS):
        refusals.failed(Refused("no"), turn, 1_000.0 * turn)
        assert refusals.over(1, "out") is None
    refusals.forget()
    assert refusals.waits(1e9) == ""
