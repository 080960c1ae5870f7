"""Rows larger than their topic takes go to the dead letters; the others continue, in one transaction with them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial

import polars as pl
import pytest

from schemas.dead_letters import MAX_RAW_BYTES, DeadLetter, decode
from schemas.plans import OperatorPlan
from schemas.topics import ClusterTopics, Partition, TopicSpec
from services.audit.comparing import Comparison, Counts
from services.audit.computing import Row
from services.hosting.blocking import Inline
from services.kernel.dataflow.unit import SinkRows
from services.kernel.errors import InvalidRecord
from services.kernel.plans.layout import TaskLayout
from services.log.memory import MemoryLog, MemoryTransactor
from services.log.protocol import Rows
from services.worker.core.spent import Spent
from services.worker.sinks.delivery import Delivery
from services.worker.sinks.meter import Meter, size_about
from services.worker.sinks.portions import Batch
from services.worker.sinks.position import Positions
from services.worker.sinks.too_large import ROW_BYTES, split_large, stands_for

LIMIT = 1_000
TOPICS = ClusterTopics().job("job", "0-abcdef")
SINK = OperatorPlan("all", "sink", 1, ("s",), {"query": "all", "topic": "out", "partitions": 1}, {"t": "string"})
TASK = TaskLayout("all-0", 0, SINK, (), (), (), None)


def positions(log: MemoryLog) -> Positions:
    return Positions(
        log, "u", Partition(TOPICS.delivered, 0), Partition(TOPICS.cuts, 0), (), lambda: 100, lambda *_: None
    )


def meter(spent: Spent) -> Meter:
    """Each look at a clock is a millisecond later, and half a millisecond of CPU time."""
    times = [itertools.count(0.0, 1.0), itertools.count(0.0, 0.5)]
    return Meter(spent, *(partial(next, one) for one in times))


class Strict(MemoryTransactor):
    """Refuses what a broker refuses."""

    def commit(self, rows: Sequence[Rows]) -> None:
        if any(len(value or b"") > LIMIT for one in rows if one.topic == "out" for value in one.values):
            raise InvalidRecord("too large")
        super().commit(rows)


class StrictLog(MemoryLog):
    def transactor(self, transactional_id: str) -> Strict:
        return Strict(self, transactional_id)


class Site:
    def __init__(self, dead_letters: bool = True) -> None:
        self.log = StrictLog(lambda: 0)
        config = {"max.message.bytes": str(LIMIT)}
        self.log.create([TopicSpec("out", 1, config), TopicSpec(TOPICS.dead_letters), TopicSpec(TOPICS.delivered)])
        self.errors: list[Exception] = []
        self.spent = Spent()
        self.beside = Inline()
        self.delivery = Delivery(
            self.log,
            self.beside,
            TOPICS,
            "u",
            0,
            positions(self.log),
            self.errors.append,
            meter(self.spent),
            dead_letters,
        )
        self.delivery.open(lambda _: None)
        self.beside.poll()

    def deliver(self, batch: int, *texts: str, dead: Sequence[DeadLetter] = ()) -> None:
        self.delivery.deliver(Batch(batch, [SinkRows(TASK, pl.DataFrame({"t": texts}), 0)], dead))
        self.beside.poll()

    def rows(self) -> list[bytes | None]:
        return [one.value() for one in self.log.scan(Partition("out", 0))]

    def letters(self) -> list[DeadLetter]:
        return [decode(one.value() or b"") for one in self.log.scan(Partition(TOPICS.dead_letters, 0))]


def test_a_row_too_large_is_put_aside_and_the_others_go_on() -> None:
    site = Site()
    refused = DeadLetter("s", "why", 1)
    site.deliver(1, "a", "x" * 2 * LIMIT, "b", dead=[refused])
    site.deliver(2, "c")
    assert site.rows() == [b'{"t":"a"}', b'{"t":"b"}', b'{"t":"c"}']
    first, second = site.letters()
    assert first == refused
    assert second.reason == "a row of 2,008 bytes is more than topic out takes: 1,000 (its max.message.bytes)"
    assert (second.origin, second.batch, second.row[:9]) == ("all", 1, '{"t":"xxx')
    assert site.delivery.delivered == 2
    assert not site.errors


def test_rows_put_aside_are_counted_beside_the_position_and_known_to_the_next_copy() -> None:
    site = Site()
    site.deliver(1, "a", "x" * 2 * LIMIT)
    site.deliver(2, "b")
    site.deliver(3, "x" * 2 * LIMIT, "y" * 2 * LIMIT)
    assert site.delivery.too_large == 3
    successor = Delivery(site.log, site.beside, TOPICS, "u", 0, positions(site.log), site.errors.append, meter(Spent()))
    successor.open(lambda _: None)
    site.beside.poll()
    assert (successor.delivered, successor.too_large) == (3, 3)


@pytest.mark.parametrize("value", [b"x" * 10, b"x" * 2 * ROW_BYTES, b"\xff" * 10, b"\xff" * 2 * MAX_RAW_BYTES])
def test_a_letter_stands_for_its_row_and_for_no_other(value: bytes) -> None:
    _, (letter,) = split_large(Rows("out", [value]), 0, "all", 1)
    assert stands_for(letter, value)
    assert not stands_for(letter, b"y" + value[1:])
    assert not stands_for(letter, value[:5])


def test_a_replay_finds_a_row_that_was_put_aside_neither_lost_nor_twice() -> None:
    comparison = Comparison("all")
    large, small = Row(b"x" * LIMIT), Row(b"y")
    comparison.expect(1, [large, small])
    _, (letter,) = split_large(Rows("out", [large.value]), 0, "all", 1)
    comparison.find(1, small)
    assert comparison.excuse(1, lambda row: stands_for(letter, row.value))
    assert not comparison.excuse(1, lambda row: stands_for(letter, row.value)), "once"
    comparison.finish()
    assert comparison.counts == Counts(results=2)


def test_transactions_are_counted_with_what_they_cost_and_what_they_deliver() -> None:
    site = Site()
    site.deliver(1, "a", "b")
    assert (site.spent.transactions, site.spent.aborted) == (1, 0)
    assert (site.spent.transaction_ms, site.spent.transaction_cpu_ms) == (1.0, 0.5)
    assert site.spent.sink_bytes == {"all": 2 * len('{"t":"a"}')}
    site.deliver(2, "x" * 2 * LIMIT, "c")
    assert (site.spent.transactions, site.spent.aborted) == (2, 1), "made once more, without the row"


def test_a_transaction_that_fails_is_aborted_and_delivers_nothing() -> None:
    site = Site(dead_letters=False)
    site.deliver(1, "x" * 2 * LIMIT)
    assert (site.spent.transactions, site.spent.aborted, site.spent.sink_bytes) == (0, 2, {})
    assert site.spent.transaction_ms == 1.0


def test_bytes_of_many_rows_go_by_the_mean_of_some() -> None:
    assert size_about([]) == 0
    assert size_about([b"abc", None]) == 3
    assert size_about([b"x" * 10] * 100_000) == 1_000_000


def test_where_errors_are_to_stop_the_job_it_stops_with_the_reason() -> None:
    site = Site(dead_letters=False)
    site.deliver(1, "x" * 2 * LIMIT)
    assert "a row of 2,008 bytes" in str(site.errors[0])
    assert not site.rows()
    assert not site.letters()
