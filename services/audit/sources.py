"""The sources of a job that is run again: they give the records that were cut, and notice if these are others now.

Source: PROTOCOL 14.2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from holdfast.schemas.cuts import Cut, Range, TaskCuts
from holdfast.schemas.plans import REAL_TIME, Plan, SparkPlan
from holdfast.services.decisions.recut import Recut
from holdfast.services.kernel.codecs.marked import AT, RowReader, lanes
from holdfast.services.kernel.dataflow.cut_records import Brought, CommitCuts, LaneCuts, Records, TopicCuts
from holdfast.services.kernel.errors import HoldfastError
from holdfast.services.kernel.plans.layout import TaskLayout, spark_plan
from holdfast.services.log.kafka.registry import of_this_process


class OtherRecords(HoldfastError):
    """The user's topic does not hold the records that were cut."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A cut, and the records of each of its ranges, in their order."""

    cut: Cut
    records: Sequence[Records]


class ReplayedSource(ABC):
    """A source task.

    taken: its next cut with the records; None while it is not known.
    """

    def __init__(self, task: TaskLayout) -> None:
        self.task = task
        self.taken: Taken | None = None
        self.ended = False

    def ready(self, batch: int) -> bool:
        return self.ended or self.taken is not None

    def take(self, batch: int) -> Brought:
        taken, self.taken = self.taken, None
        assert taken is not None
        self.ended = taken.cut.final
        return self._bring(taken)

    def passes(self, cut: Cut) -> None:
        """Notes that the following cuts begin behind this one."""
        self.ended = cut.final

    def behind(self, cuts: TaskCuts) -> None:
        """Notes where the first cut begins. In a job with a savepoint only a user's topic can be a source."""
        assert not cuts.final, self.task.name

    @abstractmethod
    def _bring(self, taken: Taken) -> Brought:
        """Decodes the records of a cut. Raises OtherRecords."""


def source_of(task: TaskLayout, plan: Plan) -> ReplayedSource:
    """The source of a task: a user's topic, or what Spark has written."""
    if task.operator.kind == "spark":
        spark = spark_plan(plan, task.operator.name)
        return _Rows(task, spark) if spark.mode == REAL_TIME else _Committed(task, spark.first_positions)
    return ReplayedTopic(task)


class _Committed(ReplayedSource):
    """Commits of Spark, which are not computed again."""

    def __init__(self, task: TaskLayout, first: Mapping[str, Mapping[int, int]]) -> None:
        super().__init__(task)
        self._reading = CommitCuts(task)
        self._recut = Recut(0, first, self._reading.check)

    def _bring(self, taken: Taken) -> Brought:
        cut, (records,) = taken.cut, taken.records
        read = [self._recut.read(o, value or b"") for o, value in zip(records.offsets, records.values, strict=True)]
        found = [one for one in read if one is not None]
        (r,) = cut.ranges
        if r.stop > r.start and (not found or found[-1].offset != r.stop - 1):
            name = self.task.name
            raise OtherRecords(f"{name}: no valid commit at offset {r.stop - 1}, where batch {cut.batch} was cut")
        return self._reading.bring(cut, found)


class _Rows(ReplayedSource):
    """Rows that Spark has written in real-time mode."""

    def __init__(self, task: TaskLayout, spark: SparkPlan) -> None:
        super().__init__(task)
        self._reading = LaneCuts(spark)
        self._readers = {lane: RowReader(spark.output, 0) for lane in lanes(spark.first)}

    def _bring(self, taken: Taken) -> Brought:
        cut, records = taken.cut, dict(zip(taken.cut.ranges, taken.records, strict=True))

        def rows_of(r: Range) -> pl.DataFrame:
            table = self._readers[r.partition].read(records[r].offsets, records[r].values)
            if r.stop > r.start and (not table.height or table.item(-1, AT) != r.stop - 1):
                name = self.task.name
                raise OtherRecords(f"{name}: no row that counts at {r.stop - 1}, where batch {cut.batch} was cut")
            return table

        return self._reading.bring(cut, rows_of, self._readers)


class ReplayedTopic(ReplayedSource):
    """The records of a user's topic."""

    def __init__(self, task: TaskLayout) -> None:
        super().__init__(task)
        self._reading = TopicCuts(task, of_this_process())
        self._newest: dict[int, int | None] = {}

    def passes(self, cut: Cut) -> None:
        self._newest |= {r.partition: r.newest_us for r in cut.ranges}

    def behind(self, cuts: TaskCuts) -> None:
        self._newest |= {r.partition: r.newest_us for r in cuts.ranges}

    def _bring(self, taken: Taken) -> Brought:
        """Decodes the records of a cut, and compares the newest event time of each partition with the cut's: a topic
        that was created again has another one.
        """
        read = self._reading.read(taken.cut.ranges, taken.records, self._newest, taken.cut.unknown)
        for r, found in zip(taken.cut.ranges, read.ranges, strict=True):
            if found.newest_us != r.newest_us and not r.lost:
                raise OtherRecords(self._differs(taken.cut, r, found.newest_us))
            self._newest[r.partition] = r.newest_us
        return self._reading.bring(taken.cut, read)

    def _differs(self, cut: Cut, r: Range, newest: int | None) -> str:
        assert self.task.source is not None
        return (
            f"{self.task.source.topic}[{r.partition}], offsets {r.start} to {r.stop - 1}: these are not the records "
            f"that were cut as batch {cut.batch}: the newest event time is {newest} us, and was {r.newest_us}"
        )
