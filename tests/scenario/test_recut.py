"""What Spark commits comes into the job's batches once, whatever happens to workers and drivers; no Spark is needed.

PROTOCOL 12: the test stands in for drivers, and writes what they would write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas import assignments
from holdfast.schemas.assignments import Assignment, Flags, GlobalCheckpoint
from holdfast.schemas.commits import Commit, Fence, Named, encode
from holdfast.schemas.cuts import NO_WATERMARK
from holdfast.schemas.decided import Id
from holdfast.schemas.progress import decode as decode_progress
from holdfast.schemas.topics import Partition, generation_number
from holdfast.services.audit.replay import replay
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.decisions.commits import CommitLog, CommitReader
from holdfast.services.decisions.global_checkpoints import newest
from holdfast.services.decisions.policies import in_force
from holdfast.services.decisions.sums import furthest, summed
from holdfast.services.kernel.codecs.fields import TIME, stream_schema
from holdfast.services.kernel.codecs.frames import FrameCodec, Sender
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.operators.catalogue import Stream
from tests.support.examples import examples
from tests.support.memory_cluster import GENERATION, MemoryCluster

JOB = """
name: recut
sources:
  s: {topic: in, fields: {x: int, at: timestamp}, event_time: at}
operators:
  heavy: {spark: {sql: "SELECT * FROM input"}, input: s}
  sums: {aggregate: {n: "count()", total: "sum(x)"}, key: [name], input: heavy, window: {size_s: 10}}
queries:
  plain: {input: heavy, sink: {topic: plain}}
  sums: {input: sums, sink: {topic: sums}}
fault_tolerance: {default: {scheme: none}, checkpoint: {interval_ms: 50}}
keep_cuts: true
"""
FIELDS = {"name": "string", "x": "int", "at": "timestamp"}
SCHEMA = stream_schema(FIELDS)
SECOND_US = 1_000_000
HOT = Flags(state="synced", process=False, send=False, commit=False, checkpoint_target=True)


def describe(kind: str, params: Mapping[str, Any], inputs: Sequence[Stream]) -> Stream:
    return Stream(FIELDS) if kind == "spark" else catalogue.describe(kind, params, inputs)


def new_cluster() -> MemoryCluster:
    return MemoryCluster(JOB, describe=describe)


class StandIn:
    """A driver of one epoch. Row x is of second x; the watermark follows the newest row."""

    def __init__(self, cluster: MemoryCluster, epoch: int) -> None:
        self._log, self._epoch, self._counter = cluster.log, epoch, 0
        self._first = cluster.plan.spark[0].first_positions
        fold, check = CommitLog(self._first), FrameCodec(SCHEMA).check
        self._reader = CommitReader(fold, check, lambda offset, cause: None, holds=False)
        self._partition = Partition(cluster.topics.commits("heavy"), 0)
        self._appender = cluster.log.appender(f"driver-{epoch}")
        self._append(encode(Fence(epoch, Id(f"d{epoch}", 0))))
        self.known = self._read()

    def _append(self, value: bytes) -> int:
        self._appender.append(self._partition, value)
        return self._log.offsets([self._partition], "end")[self._partition] - 1

    def _read(self) -> CommitLog:
        for message in self._log.scan(self._partition):
            if isinstance(self._reader.read(message.offset(), message.value() or b""), Commit):
                self._reader.forget()
        return copy(self._reader.log)

    def stop(self, newest: int) -> dict[str, dict[int, int]]:
        """Where it has read to."""
        return {"in": {0: newest + 1}}

    def write(self, first: int, count: int) -> Named:
        """The frame of one task."""
        values = range(first, first + count)
        times = pl.Series([x * SECOND_US for x in values], dtype=pl.Int64)
        rows = pl.DataFrame(
            {"name": [f"n{x % 3}" for x in values], "x": list(values), "at": times.cast(SCHEMA["at"]), TIME: times},
            schema=SCHEMA,
        )
        sender = Sender(0, generation_number(GENERATION), self._epoch)
        (frame,) = FrameCodec(SCHEMA).encode(rows, sender, self.known.k + 1, NO_WATERMARK)
        return Named(self._append(frame), count)

    def commit(self, frames: Sequence[Named], newest: int, *, final: bool = False) -> bool:
        """Whether it counts; the driver knows what it knew when it started, and its own commits."""
        known, self._counter = self.known, self._counter + 1
        stop = self.stop(newest)
        record = Commit(
            epoch=self._epoch,
            k=known.k + 1,
            attempt=1,
            start=known.stop,
            stop=stop,
            frames=tuple(frames),
            watermark=newest * SECOND_US,
            records=sum(one.rows for one in frames) * 10,
            id=Id(f"d{self._epoch}", self._counter),
            prev=known.prev,
            final=final,
        )
        self._append(encode(record))
        valid = self._read().prev == record.id
        if valid:
            self.known = self._read()
        return valid

    def batch(self, first: int, count: int) -> bool:
        """A micro-batch of two tasks, the first of which was tried twice."""
        self.write(first, count)
        half = count // 2
        frames = [self.write(first, half), self.write(first + half, count - half)]
        return self.commit(frames, first + count - 1)


def check(cluster: MemoryCluster, count: int) -> None:
    assert Counter(row["x"] for row in cluster.rows("plain")) == Counter(range(count))
    expected: dict[tuple[int, str], list[int]] = {}
    for x in range(count):
        expected.setdefault((x // 10, f"n{x % 3}"), []).append(x)
    found = Counter((row["name"], row["n"], row["total"]) for row in cluster.rows("sums"))
    assert found == Counter((name, len(xs), sum(xs)) for (_, name), xs in expected.items())


def to_the_end(cluster: MemoryCluster, driver: StandIn, count: int) -> None:
    cluster.control("drain")
    assert driver.commit((), count - 1, final=True)
    cluster.until(cluster.ended)
    check(cluster, count)


def test_rows_come_out_once_and_windows_close_by_the_watermark_that_commits_carry() -> None:
    cluster = new_cluster()
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    driver = StandIn(cluster, 1)
    assert driver.batch(0, 25)
    cluster.until(lambda: len(cluster.rows("plain")) == 25)
    cluster.until(lambda: len(cluster.rows("sums")) == 6)
    assert driver.batch(25, 15)
    to_the_end(cluster, driver, 40)
    known = [decode_progress(m.value() or b"") for m in cluster.log.scan(Partition(cluster.topics.progress, 0))]
    taken_in = summed(furthest(known).values()).records
    assert taken_in == 400, "records that Spark has read, not the rows that came of them"


def test_a_commit_without_rows_moves_the_watermark() -> None:
    cluster = new_cluster()
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    driver = StandIn(cluster, 1)
    driver.batch(0, 10)
    cluster.until(lambda: len(cluster.rows("plain")) == 10)
    assert cluster.rows("sums") == []
    driver.commit((), 20)
    cluster.until(lambda: len(cluster.rows("sums")) == 3)


def test_a_zombie_driver_neither_doubles_nor_mixes() -> None:
    cluster = new_cluster()
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    zombie = StandIn(cluster, 1)
    assert zombie.batch(0, 10)
    left = [zombie.write(10, 10)]
    successor = StandIn(cluster, 2)
    assert not zombie.commit(left, 19)
    assert successor.batch(10, 20)
    assert not zombie.batch(10, 10)
    to_the_end(cluster, successor, 30)


def test_units_behind_spark_go_back_to_a_global_checkpoint_and_read_its_commits_again() -> None:
    cluster = MemoryCluster(JOB.replace("{interval_ms: 50}", "{policy: aligned, every_batches: 3}"), describe=describe)
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    driver, count = StandIn(cluster, 1), 0
    progress = Partition(cluster.topics.progress, 0)

    def complete(line: int, above: int) -> int | None:
        known = furthest(decode_progress(message.value() or b"") for message in cluster.log.scan(progress))
        return newest(known, dict.fromkeys(cluster.units, line), in_force(cluster.plan, Assigned()).since, above)

    def take(batches: int) -> None:
        nonlocal count
        for _ in range(batches):
            assert driver.batch(count, 12)
            count += 12
            cluster.turn(200)

    take(6)
    back = complete(0, 0)
    assert back
    stated = GlobalCheckpoint(cluster.plan.job, cluster.plan.generation, back, in_force(cluster.plan, Assigned()).since)
    record = Assignment("controller", cluster.now_ms, (), checkpoints=(stated,))
    cluster._append(Partition(cluster.cluster.assignments, 0), assignments.encode(record))
    take(4)
    cluster.begin_line(cluster.units, 1, back)
    cluster.place({unit: [worker] for unit in cluster.units})
    take(4)
    cluster.until(lambda: complete(1, back) is not None)
    to_the_end(cluster, driver, count)


@examples(each_run=12, with_long=60)
@given(
    st.lists(st.tuples(st.integers(1, 120), st.sampled_from(["worker", "driver", "both"])), max_size=4),
    st.integers(0, 60),
)
def test_workers_and_drivers_may_die_at_any_time(faults: list[tuple[int, str]], turns: int) -> None:
    cluster = new_cluster()
    first, second = cluster.start("w1"), cluster.start("w2")
    cluster.place({unit: [first, (second, HOT)] for unit in cluster.units})
    driver, epoch, count = StandIn(cluster, 1), 1, 0
    for wait, who in faults:
        assert driver.batch(count, 12)
        count += 12
        cluster.turn(wait)
        if who != "worker":
            driver.write(count, 5)  # and dies before it commits
            epoch += 1
            driver = StandIn(cluster, epoch)
        if who != "driver":
            name = first.identity.worker
            cluster.kill(name)
            first, second = second, cluster.start(name)
            cluster.place({unit: [first, (second, HOT)] for unit in cluster.units})
    assert driver.batch(count, 7)
    cluster.turn(turns)
    to_the_end(cluster, driver, count + 7)


def test_a_replay_computes_the_same_from_the_commit_log() -> None:
    cluster = new_cluster()
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    driver = StandIn(cluster, 1)
    for first in range(0, 60, 20):
        driver.batch(first, 20)
        cluster.turn(30)
    to_the_end(cluster, driver, 60)
    report = replay(cluster.log, cluster.cluster, "recut")
    assert (report.rows.lost, report.rows.duplicated, report.rows.wrong) == (0, 0, 0)
    assert report.batches > 3


def test_after_a_pause_nothing_is_cut_until_it_is_resumed() -> None:
    cluster = new_cluster()
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    cluster.control("pause")
    cluster.turn(20)
    driver = StandIn(cluster, 1)
    driver.batch(0, 10)
    cluster.turn(600)
    assert cluster.rows("plain") == []
    cluster.control("resume")
    cluster.until(lambda: len(cluster.rows("plain")) == 10)
