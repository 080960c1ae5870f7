"""Queries that share a driver: whose turn it is, and the limit of their state's memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from holdfast.schemas.topics import ClusterTopics, TopicSpec
from holdfast.services.log.memory import MemoryLog
from holdfast.services.spark import rehearsal
from holdfast.services.spark.engine import Rehearse
from holdfast.services.spark.local.session import TASKS, local_session
from holdfast.services.spark.session import POOL, own_session
from holdfast.services.spark.settings import SparkSettings
from holdfast.services.spark.spark_engine import SparkEngine, SparkRoom
from tests.integration.in_spark.test_stateful import bare_plan
from tests.support.commands import until

pytestmark = [pytest.mark.spark, pytest.mark.slow]
DEADLINE_S = 60.0
MANY, FREE = 16, 10
"""Tasks of a large query. The last of them, from FREE on, wait for the end of the small query."""


def await_file(path: Path) -> None:
    ends = time.monotonic() + DEADLINE_S
    while not path.exists():
        assert time.monotonic() < ends, f"{path.name} is not there"
        time.sleep(0.01)


def test_a_small_query_gets_the_next_free_task_of_a_driver_on_which_a_large_one_has_many(tmp_path: Path) -> None:
    asked, done, begun = tmp_path / "asked", tmp_path / "done", tmp_path / "begun"
    faults: list[Exception] = []

    def large(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        index = TaskContext.get().partitionId()  # type: ignore[union-attr]
        if index < TASKS:
            begun.touch()
            await_file(asked)
        elif index >= FREE:
            await_file(done)
        yield from batches

    def small(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        done.touch()
        yield from batches

    def play(pool: str, tasks: int, task: Any) -> None:
        session = own_session(local_session(), {}, pool)
        try:
            session.range(0, tasks, 1, tasks).mapInArrow(task, "id long").collect()
        except Exception as error:
            faults.append(error)

    status = local_session().sparkContext.statusTracker()
    first = threading.Thread(target=play, args=("large", MANY, large), daemon=True)
    first.start()
    await_file(begun)
    second = threading.Thread(target=play, args=("small", 1, small), daemon=True)
    second.start()
    until(lambda: len(status.getActiveStageIds()) == 2, "both have tasks", DEADLINE_S)
    asked.touch()
    for one in (first, second):
        one.join(2 * DEADLINE_S)
    assert not faults
    assert done.exists()


def test_the_tasks_of_a_drivers_query_are_in_a_pool_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noted = tmp_path / "pool"

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        noted.write_text(TaskContext.get().getLocalProperty(POOL) or "none")  # type: ignore[union-attr]
        yield from batches

    def stream(spark: SparkSession, *_: object) -> DataFrame:
        return spark.readStream.schema("offset long, rows long").json(str(tmp_path / "input"))

    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "1.json").write_text('{"offset": 1, "rows": 1}')
    monkeypatch.setattr(rehearsal, "stream", stream)
    monkeypatch.setattr(rehearsal, "observe", lambda *_: None)
    monkeypatch.setattr(rehearsal, "FrameTask", lambda **_: task)
    log, plan = MemoryLog(lambda: 0), bare_plan("tests.support.stateful:tallied")
    log.create([TopicSpec(plan.topic, 1)])
    room = SparkRoom(
        log=log,
        bootstrap_servers="",
        incarnation="i",
        checkpoints=tmp_path / "checkpoints",
        in_kafka=False,
        scratch=tmp_path / "scratch",
        allow=None,
        session=local_session,
        wake=lambda: None,
    )
    job: Any = SimpleNamespace(job="job", generation="1-ab")
    engine = SparkEngine(job, plan, ClusterTopics().job("job", "1-ab"), room)
    engine.begin(Rehearse())
    until(engine.poll, "the rehearsal is over", DEADLINE_S)
    engine.close()
    assert noted.read_text() == f"1-ab.{plan.operator}"


def test_the_memory_of_state_is_limited_for_all_queries_of_a_driver_together() -> None:
    conf = own_session(local_session(), {}).conf
    rocks = "spark.sql.streaming.stateStore.rocksdb"
    assert conf.get(f"{rocks}.boundedMemoryUsage") == "true"
    assert conf.get(f"{rocks}.maxMemoryUsageMB") == str(SparkSettings().spark_state_mb)
