"""What a Spark copy reports of its costs: phases, micro-batches, and the state that Spark says it holds."""

from __future__ import annotations

from collections import deque

from holdfast.schemas.assignments import PRIMARY
from holdfast.schemas.commits import Named
from holdfast.schemas.costs import MicroBatches
from holdfast.schemas.plans import REAL_TIME
from holdfast.services.decisions.decided import Author
from holdfast.services.spark.copy import SparkCopy
from holdfast.services.spark.core import lifecycle
from holdfast.services.spark.engine import (
    Answer,
    BatchAsked,
    Committed,
    Deploy,
    EngineEvent,
    Output,
    Reported,
    Run,
    Task,
    Write,
)
from holdfast.services.spark.spent import Spent
from holdfast.services.spark.surroundings import DriverServices
from tests.scenario.test_recut import new_cluster


class Scripted:
    """An engine that does what the test says. Implements Engine."""

    def __init__(self) -> None:
        self.told: deque[EngineEvent] = deque()
        self.task: Task | None = None
        self.answers: list[Answer] = []

    def begin(self, task: Task) -> None:
        self.task = task

    def rest(self) -> None:
        self.task = None

    def poll(self) -> EngineEvent | None:
        return self.told.popleft() if self.told else None

    def answer(self, answer: Answer) -> None:
        self.answers.append(answer)

    def close(self) -> None:
        pass


def test_micro_batches_and_phases_are_counted() -> None:
    cluster, engine = new_cluster(), Scripted()
    (spark,) = cluster.plan.spark
    assert spark.mode != REAL_TIME
    around = DriverServices(
        log=cluster.log,
        appender=cluster.log.appender("test"),
        author=Author("d"),
        clock_ms=lambda: float(cluster.now_ms),
        time_ms=lambda: cluster.day_ms + cluster.now_ms,
        happened=lambda event: None,
        refuse=lambda *_: None,
    )
    copy = SparkCopy(cluster.plan, spark, cluster.topics, around, engine, frozenset())

    def turn(ms: int, *told: EngineEvent) -> None:
        cluster.now_ms += ms
        engine.told.extend(told)
        for _ in range(3):
            copy.step(cluster.now_ms)

    copy.place(1, PRIMARY)
    assert isinstance(engine.task, Deploy)
    assert (copy.costs().deploy_ms, copy.costs().checkpoint_age_ms) == (None, None)
    turn(700, lifecycle.Deployed())
    turn(5)
    assert isinstance(engine.task, Run)
    turn(300, lifecycle.Started())
    assert copy.costs().deploy_ms == 700
    assert (copy.costs().open_ms or 0) >= 300
    turn(10, BatchAsked(0))
    (write,) = engine.answers
    assert isinstance(write, Write)
    stop = {topic: dict(offsets) for topic, offsets in write.log.stop.items()}
    said = Reported(3, state_keys=7, state_bytes=900, late=2, parts_ms={"triggerExecution": 250.0, "addBatch": 200.0})
    turn(250, Output(write.k, write.attempt, stop, (), 0, taken={"in": 20}, reported=said))
    turn(5)
    assert engine.answers[-1] == Committed()
    found = copy.costs()
    assert (found.processed, found.process_ms) == (20, 250)
    assert (found.state_keys, found.state_bytes) == (7, 900)
    assert found.micro_batches == MicroBatches(1, late=2, trigger_ms=250.0, parts_ms={"addBatch": 200.0})
    turn(40)
    assert copy.costs().checkpoint_age_ms in range(40, 50)


def test_rows_are_those_of_all_micro_batches_and_a_report_that_is_told_twice_counts_once() -> None:
    spent = Spent()
    for reported, rows in ((Reported(0, late=2), 6), (Reported(0, late=2), 3), (Reported(1, late=1), 0)):
        spent.batch_written(Output(1, 1, {}, (Named(0, rows), Named(1, rows)), 0, reported=reported), 0.0)
    assert spent.costs("u", 0.0).micro_batches == MicroBatches(3, rows=18, late=3)
