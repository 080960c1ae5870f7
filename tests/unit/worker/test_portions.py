"""On a machine that has fallen behind, transactions become so small that they get through."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pytest

from holdfast.schemas.plans import OperatorPlan
from holdfast.schemas.topics import ClusterTopics, Partition, TopicSpec
from holdfast.services.hosting.blocking_calls import Inline
from holdfast.services.kernel.dataflow.unit import SinkRows
from holdfast.services.kernel.errors import Fenced
from holdfast.services.kernel.plans.layout import TaskLayout
from holdfast.services.log.memory import MemoryLog, MemoryTransactor
from holdfast.services.log.protocol import Rows
from holdfast.services.worker.core.spent import Spent
from holdfast.services.worker.sinks.delivery import Delivery, History
from holdfast.services.worker.sinks.meter import Meter
from holdfast.services.worker.sinks.portions import MAX_BATCHES_A_TRANSACTION, MAX_TRANSACTION_BYTES, Batch, Portion
from holdfast.services.worker.sinks.position import Positions
from holdfast.services.worker.sinks.unit_sinks import UnitSinks

LIFE_MS = 5_000.0
"""Of a transaction at the broker."""
TOPICS = ClusterTopics().job("job", "0-abcdef")
SINK = OperatorPlan("all", "sink", 1, ("s",), {"query": "all", "topic": "out", "partitions": 1}, {"t": "string"})
TASK = TaskLayout("all-0", 0, SINK, (), (), (), None)
BATCHES = 60


class SlowLog(MemoryLog):
    """Each row takes row_ms; a transaction that lives too long is aborted, and its writer fenced."""

    def __init__(self, row_ms: float) -> None:
        super().__init__(lambda: 0)
        self.row_ms, self.now_ms, self.aborted = row_ms, 0.0, 0
        self.create([TopicSpec("out", 1), TopicSpec(TOPICS.dead_letters), TopicSpec(TOPICS.delivered)])

    def transactor(self, transactional_id: str, batch_bytes: int | None = None) -> MemoryTransactor:
        log = self

        class Slow(MemoryTransactor):
            def commit(self, rows: Sequence[Rows]) -> None:
                took_ms = log.row_ms * sum(len(one.values) for one in rows)
                log.now_ms += took_ms
                if took_ms > LIFE_MS:
                    log.aborted += 1
                    raise Fenced("the broker ended the transaction")
                super().commit(rows)

        return Slow(self, transactional_id)


def deliveries(log: SlowLog, portion: Portion, interval_ms: int) -> int:
    """Of all batches; after a fence the next delivery begins with what is left, as a copy does. How many it takes."""
    positions = Positions(
        log, "u", Partition(TOPICS.delivered, 0), Partition(TOPICS.cuts, 0), (), lambda: BATCHES, lambda *_: None
    )
    rows = [SinkRows(TASK, pl.DataFrame({"t": ["x"] * 9}), 0)]
    left = [Batch(number + 1, rows, []) for number in range(BATCHES)]
    for count in range(1, 100):
        failed: list[Exception] = []
        meter, beside = Meter(Spent(), lambda: log.now_ms, lambda: 0.0), Inline()
        delivery = Delivery(
            log, beside, UnitSinks(TOPICS, "u", interval_ms=interval_ms), positions,
            failed=failed.append, meter=meter, history=History(portion=portion),
        )  # fmt: skip
        delivery.open(lambda _: None)
        beside.poll()
        delivery.deliver(*left)
        delivery.hurry()
        while beside.poll():
            pass
        left = delivery.leftovers()
        if not failed:
            return count
    raise AssertionError("it never gets through")


@pytest.mark.parametrize("interval_ms", [0, 10_000], ids=["at once", "gathered"])
@pytest.mark.parametrize("row_ms", [1.0, 40.0, 400.0])
def test_everything_gets_through_however_slow_the_broker_is(
    row_ms: float, interval_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten rows of a batch and its position take 4 s at worst; sixteen batches at once would always be aborted."""
    size = Batch(1, [SinkRows(TASK, pl.DataFrame({"t": ["x"] * 9}), 0)], []).size
    limit = "holdfast.services.worker.sinks.portions.MAX_TRANSACTION_BYTES"
    monkeypatch.setattr(limit, size * MAX_BATCHES_A_TRANSACTION)
    log = SlowLog(row_ms)
    assert deliveries(log, Portion(), interval_ms) == 1 + log.aborted
    assert len(list(log.scan(Partition("out", 0)))) == 9 * BATCHES, "once each"
    assert log.aborted == (9 * MAX_BATCHES_A_TRANSACTION * row_ms > LIFE_MS), "one failure is enough"


def test_a_quick_machine_gets_the_largest_transactions_back() -> None:
    portion = Portion()
    portion.failed()
    assert portion.batches == 1
    assert portion.bytes == MAX_TRANSACTION_BYTES // MAX_BATCHES_A_TRANSACTION
    for _ in range(10):
        portion.through(10.0)
    assert portion.batches == MAX_BATCHES_A_TRANSACTION
    assert portion.bytes == MAX_TRANSACTION_BYTES


def test_between_quick_and_slow_it_stays_and_a_slow_transaction_makes_the_next_smaller() -> None:
    portion = Portion()
    portion.through(1_000.0)
    assert portion.batches == MAX_BATCHES_A_TRANSACTION
    for _ in range(10):
        portion.through(2_000.0)
    assert portion.batches == 1
