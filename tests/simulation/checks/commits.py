"""Rules for the commit log of an operator on Spark drivers: every record once, from one leader at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import polars as pl

from holdfast.schemas import assignments, cuts
from holdfast.schemas.assignments import unit_key
from holdfast.schemas.commits import Commit, Fence, Positions
from holdfast.schemas.cuts import Control
from holdfast.schemas.frames import Header
from holdfast.schemas.plans import Plan, SparkPlan
from holdfast.schemas.topics import JobTopics, Partition
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.decisions.commits import CommitLog, CommitReader
from holdfast.services.kernel.codecs.fields import stream_schema
from holdfast.services.kernel.codecs.frames import FrameCodec
from tests.simulation.kafka.broker import Broker, Written
from tests.simulation.kafka.names import TOPICS
from tests.simulation.processes.engine import read


def check(broker: Broker, plan: Plan, topics: JobTopics, ended: str | None) -> Iterator[str]:
    """Everything that does not hold, in words."""
    for spark in plan.spark:
        log = _Log(broker, plan, spark, topics)
        yield from log.run()
        yield from log.trims()
        if ended == "drained":
            yield from log.drained()


class _Log:
    """Folds one commit log."""

    def __init__(self, broker: Broker, plan: Plan, spark: SparkPlan, topics: JobTopics) -> None:
        self._broker, self._plan, self._spark, self._topics = broker, plan, spark, topics
        self._partition = Partition(topics.commits(spark.operator), 0)
        self._codec = FrameCodec(stream_schema(spark.output))
        self._fold = CommitLog(spark.first_positions)
        self._reader = CommitReader(self._fold, self._fits, lambda offset, cause: None, holds=True)
        self._named = _leaders(broker.written, unit_key(plan.job, plan.generation, spark.unit))
        self._fenced = ""
        self._starts: list[tuple[int, Positions]] = []

    def _fits(self, header: Header, payload: memoryview) -> None:
        self._codec.check(header, payload)

    def run(self) -> Iterator[str]:
        for seen, one in enumerate(self._broker.written, 1):
            if one.partition != self._partition:
                continue
            stop = self._fold.stop
            record = self._reader.read(one.offset, one.value)
            if isinstance(record, Fence):
                self._fenced = one.author
                leader = self._named.get(record.epoch)
                if leader != one.author:
                    yield f"two leaders: {one.author} fenced epoch {record.epoch}, which {leader} leads"
            if isinstance(record, Commit):
                if one.author != self._fenced:
                    yield f"two leaders: {one.author} committed {record.k} in the epoch of {self._fenced}"
                self._starts.append((seen, record.start))
                yield from self._rows(stop, record)
                self._reader.forget()

    def _rows(self, start: Mapping[str, Mapping[int, int]], commit: Commit) -> Iterator[str]:
        """The frames of a commit hold the records between its positions, each once."""
        wanted = read(self._broker, self._spark, {t: dict(p) for t, p in start.items()}, commit.stop)
        found = [self._reader.frames[frame.offset] for frame in commit.frames]
        rows = self._codec.decode(found) if found else wanted.rows.clear()
        if not _same(rows, wanted.rows):
            counts = f"{rows.height} rows of {wanted.rows.height} records"
            yield f"commits: {commit.k} has {counts} from {start} to {commit.stop}"
        if len(commit.dead) != len(wanted.dead):
            yield f"commits: {commit.k} has {len(commit.dead)} dead letters of {len(wanted.dead)}"

    def trims(self) -> Iterator[str]:
        """The rows that Spark reads are there from where its last micro-batch began that counted then."""
        for trim in self._broker.trims:
            topic, index = trim.partition
            if topic in self._spark.first_positions:
                starts = [start for seen, start in self._starts if seen <= trim.seen]
                needed = starts[-1][topic].get(index, 0) if starts else 0
                if trim.upto > needed:
                    yield f"rows trim: {trim.author} trimmed {trim.partition} to {trim.upto}, Spark needs {needed}"

    def drained(self) -> Iterator[str]:
        """A drained job has committed everything that was there when the drain was asked for, and all rows that its own
        units wrote for Spark.
        """
        if not self._fold.ended:
            yield f"commits: {self._spark.operator} has drained without a last commit"
        there: dict[Partition, int] = {}
        counted = set(self._spark.first_positions)
        for one in self._broker.written:
            if one.partition.topic in counted:
                there[one.partition] = one.offset + 1
            if one.partition.topic == self._topics.cuts and _drains(one):
                counted -= self._spark.of_users
        stop = self._fold.stop
        short = {one: end for one, end in there.items() if stop[one.topic].get(one.index, 0) < end}
        if short:
            yield f"commits: {self._spark.operator} drained at {stop}, short of {short}"


def _drains(one: Written) -> bool:
    try:
        record = cuts.decode(one.value)
    except msgspec.DecodeError:
        return False
    return isinstance(record, Control) and record.kind == "drain"


def _leaders(written: Sequence[Written], unit: str) -> dict[int, str]:
    """The incarnation that holds `commit` of the unit, by epoch."""
    assigned, found = Assigned(), dict[int, str]()
    for one in written:
        if one.partition.topic == TOPICS.assignments:
            for change in assigned.read(assignments.decode(one.value)):
                if change.unit == unit and change.committer is not None:
                    found[change.epoch] = change.committer.incarnation
    return found


def _same(found: pl.DataFrame, wanted: pl.DataFrame) -> bool:
    columns = wanted.columns
    return found.select(columns).sort(columns, nulls_last=True).equals(wanted.sort(columns, nulls_last=True))
