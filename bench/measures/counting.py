"""Cost of counting costs: nanoseconds a batch, and the share of the time that a batch takes.

Measured beside each other in one thread: a batch (records decoded, keys counted, state written), and all that is added
to it by counting. The added work is the same whatever the job; the batches are those of the keyed count.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import polars as pl

from bench.rig import jobs
from bench.rig.cluster import BenchCluster
from bench.rig.figures import Figures
from bench.rig.plans import planned
from bench.rig.scale import Scale
from holdfast.schemas.topics import ClusterTopics
from holdfast.services.kernel.dataflow.fed import Fed
from holdfast.services.kernel.dataflow.source_records import SourceDecoder
from holdfast.services.kernel.dataflow.unit import Produced, SinkRows, Unit
from holdfast.services.kernel.dataflow.walk import Walked
from holdfast.services.kernel.plans.layout import UnitLayout, unit_layouts
from holdfast.services.kernel.state.image import MemoryImage
from holdfast.services.kernel.state.keyed import StateTable
from holdfast.services.kernel.state.store import StateStore
from holdfast.services.worker.core.spent import Spent
from holdfast.services.worker.unit.batches.batch_processor import BatchProcessor

SMALL, LARGE = 20, 10_000
"""Records of a batch: at 2,000 a second, and at most."""
KEYS = 1_000
REPEATS = 200
GENERATION = "0-abcdef"


def counting(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Cost of counting, for each batch (added_ns), and its share (share_percent) of a small batch, a large one, and one
    with a key per record.
    """
    added_ns = _best(_edges()) + _best(_clocks)
    figures: Figures = {"added_ns": round(added_ns)}
    for kind, records, keys in (("small", SMALL, KEYS), ("large", LARGE, KEYS), ("keys", LARGE, LARGE)):
        batch_ns = _best(Batches(records, keys).next, REPEATS // 10)
        put_ns = _added_by_keys(min(records, keys))
        share = (added_ns + put_ns) / batch_ns
        figures |= {
            f"{kind}_batch_us": round(batch_ns / 1000, 1),
            f"{kind}_added_us": round((added_ns + put_ns) / 1000, 2),
            f"{kind}_share_percent": round(share * 100, 3),
        }
    return figures


def _best(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Nanoseconds of CPU time of the fastest of many runs, which excludes interruptions."""
    best = float("inf")
    for _ in range(repeats):
        began = time.thread_time_ns()
        work()
        best = min(best, time.thread_time_ns() - began)
    return best


def _clocks() -> None:
    """Around the intake of a chunk, and around a turn."""
    for _ in range(4):
        time.thread_time()


def _edges() -> Callable[[], object]:
    """The counting of a batch with one source, and one sink with rows."""
    (layout,) = _layouts()
    task = next(task for task in layout.tasks if task.operator.kind == "sink")
    produced = Produced(sinks=[SinkRows(task, pl.DataFrame(), 0)])
    walked = Walked(produced, [], True, SMALL, Counter(), {"events": (SMALL, 1_000)})
    processing = BatchProcessor.__new__(BatchProcessor)
    processing._spent = Spent()
    return lambda: processing._count_edges(walked)


def _added_by_keys(count: int) -> float:
    """Nanoseconds of put_many with counting, less those without."""
    keys = [b"key-%08d" % index for index in range(count)]
    values = [(index,) for index in range(count)]
    table = StateStore(MemoryImage()).table("t")
    table.put_many(keys, values)
    return max(0.0, _best(lambda: table.put_many(keys, values)) - _best(lambda: _put_uncounted(table, keys, values)))


def _put_uncounted(table: StateTable, keys: Sequence[bytes], values: Sequence[Any]) -> None:
    table._values.update(zip(keys, values, strict=True))
    table._fresh.update(zip(keys, values, strict=True))


class Batches:
    """The keyed count, on repeated batches of equal records."""

    def __init__(self, records: int, keys: int) -> None:
        (layout,) = _layouts()
        self.store = StateStore(MemoryImage())
        self._unit = Unit(layout, self.store)
        source = next(task for task in layout.tasks if task.source is not None)
        self._source = source.name
        self._batch = 0
        self._decoder = SourceDecoder(source.operator)
        self._values = [
            msgspec.json.encode({"user": f"user-{index % keys}", "amount": index % 100, "at": index})
            for index in range(records)
        ]
        self._stamps = [0] * records

    def next(self) -> None:
        self._batch += 1
        rows = self._decoder.decode(self._values, self._stamps, {}).rows
        self._unit.process(self._batch, {self._source: Fed(rows, self._batch)}, {})


def _layouts() -> list[UnitLayout]:
    cluster = ClusterTopics("bench")
    text = jobs.unprotected(jobs.COUNT.substitute(name="counting", topic="counting", tasks=1))
    plan = planned(text, "counting.yaml", GENERATION, cluster)
    return list(unit_layouts(plan, cluster.job(plan.job, GENERATION)).values())
