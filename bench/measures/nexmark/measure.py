"""Records a second of a core that Nexmark's queries take in, in one thread, without a cluster.

Each query is a job file that is planned as `submit` plans it; its units get rows in batches, from the rows of sources
to those of the sink. Decoding, encoding, Kafka and checkpoints are not in it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping

import polars as pl

from bench.measures.nexmark.events import Events
from bench.measures.nexmark.queries import ARRIVING, NOT_WRITTEN, READS, SIDE, job_file
from bench.rig.cluster import BenchCluster
from bench.rig.figures import Figures
from bench.rig.followed import MeasureFailed
from bench.rig.plans import planned
from bench.rig.saying import say
from bench.rig.scale import Scale
from holdfast.schemas.cuts import END_WATERMARK
from holdfast.schemas.topics import ClusterTopics
from holdfast.services.kernel.codecs.fields import DELETED, TIME, stream_schema
from holdfast.services.kernel.dataflow.fed import Fed
from holdfast.services.kernel.dataflow.unit import Unit
from holdfast.services.kernel.plans.layout import UnitLayout, unit_layouts
from holdfast.services.kernel.state.image import MemoryImage
from holdfast.services.kernel.state.store import StateStore

EVENTS = 500_000
PER_S = 10_000
BATCH = 10_000
SEED = 1
SIDE_ROWS = 10_000
GENERATION = "0-abcdef"
ON_THE_WAY = pl.duration(seconds=3)
"""Time from a bid to its record, in memory."""


def nexmark(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Records that a query reads, by the CPU time of its operators; a query that is not written is named."""
    for query, reason in NOT_WRITTEN.items():
        say(f"q{query} is not written: {reason}")
    events = Events(SEED, min(scale.records, EVENTS), PER_S)
    return {f"q{query}_records_per_s": round(Run(query, events).rate(BATCH)) for query in READS}


class Run:
    """A query over events, in memory."""

    def __init__(self, query: int, events: Events) -> None:
        self._events = events
        self._reads = READS[query]
        self.cpu_s = 0.0
        layout = layout_of(query, events.held_s)
        self._unit = Unit(layout, StateStore(MemoryImage()))
        self._sources = {task.operator.name: task for task in layout.tasks if task.source is not None}

    def rate(self, batch: int) -> float:
        """Records a second of a core."""
        for _ in self.rows(batch):
            pass
        return records(self._events, self._reads) / self.cpu_s

    def rows(self, batch: int) -> Iterator[pl.DataFrame]:
        """The rows of the sink, batch by batch; so many events are a batch. The end closes every window."""
        number = 1
        for newest_us, frames in self._events.batches(batch):
            side = side_rows() if number == 1 else side_rows().clear()
            yield from self._process(number, {**frames, "arriving": arriving(frames["bids"]), "side": side}, newest_us)
            number += 1
        nothing = {name: frame.clear() for name, frame in {**self._events.frames, "side": side_rows()}.items()}
        yield from self._process(number, {**nothing, "arriving": arriving(nothing["bids"])}, END_WATERMARK)

    def _process(self, batch: int, frames: Mapping[str, pl.DataFrame], watermark: int) -> list[pl.DataFrame]:
        fed = {task.name: Fed(frames[name], watermark) for name, task in self._sources.items()}
        began = time.process_time()
        produced = self._unit.process(batch, fed, {})
        self.cpu_s += time.process_time() - began
        if produced.dead or produced.late:
            raise MeasureFailed(f"{len(produced.dead)} dead letters, {produced.late} late rows")
        return [sink.rows for sink in produced.sinks]


def records(events: Events, reads: Iterable[str]) -> int:
    """Number of events that a query reads; the rows of its table are none."""
    return sum(events.frames["bids" if name == "arriving" else name].height for name in reads if name != "side")


def arriving(bids: pl.DataFrame) -> pl.DataFrame:
    """Bids with the time of their records, which is their event time."""
    at = pl.col("at") + ON_THE_WAY
    return bids.with_columns(at.alias("arrived"), at.to_physical().alias(TIME)).select(stream_schema(ARRIVING).names())


def side_rows() -> pl.DataFrame:
    """The table of query 13: a text for each number below SIDE_ROWS."""
    keys = pl.int_range(SIDE_ROWS, eager=True).alias("key")
    frame = pl.DataFrame([keys, ("value-" + keys.cast(pl.String)).alias("value")])
    mark, first = pl.lit(None, pl.Boolean).alias(DELETED), pl.lit(0, pl.Int64).alias(TIME)
    return frame.with_columns(mark, first).select(stream_schema(SIDE | {DELETED: "bool?"}).names())


def layout_of(query: int, held_s: int) -> UnitLayout:
    """The layout of the only unit of a query's job."""
    cluster = ClusterTopics("bench")
    plan = planned(job_file(query, held_s), f"nexmark-{query}.yaml", GENERATION, cluster)
    (layout,) = unit_layouts(plan, cluster.job(plan.job, GENERATION)).values()
    return layout
