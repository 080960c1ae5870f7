"""Spark operators that keep state of every kind continue exactly where a driver died: their queries over files, one a
micro-batch, each taken over as a standby would.

Source: PROTOCOL 12.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession

from holdfast.schemas.analysis import Answer
from holdfast.schemas.plans import SparkPlan
from holdfast.schemas.topics import TopicSpec
from holdfast.services.log.memory import MemoryLog
from holdfast.services.spark import rehearsal
from holdfast.services.spark.analysis import answer
from holdfast.services.spark.checkpoint import Checkpoints, plan_last_batch
from holdfast.services.spark.core.modes import output_mode
from holdfast.services.spark.core.taking_over import Takeover
from holdfast.services.spark.frames import FrameTask
from holdfast.services.spark.local.session import local_session
from holdfast.services.spark.observing import observe
from holdfast.services.spark.operator import output, result_of
from holdfast.services.spark.rehearsal import Rehearsal
from tests.support import stateful
from tests.support.stateful import Flight, Rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]
FIELDS = {"origin": "string", "number": "int", "delay": "int", "time": "timestamp"}
RECORDS = "value string, partition int, offset long, timestamp timestamp"
BEGIN = datetime(2013, 1, 1, tzinfo=UTC)
FILES, OF_ONE = 3, 60


def flight(number: int) -> Flight:
    return Flight(number, ("JFK", "EWR", "LGA")[number % 3], number * 37 % 100, BEGIN + timedelta(seconds=200 * number))


FLIGHTS = [[flight(file * OF_ONE + one) for one in range(OF_ONE)] for file in range(FILES)]
"""What comes with each file; a third of every file but the first came with the one before it, too."""
AGAIN = [FLIGHTS[0], *(before[-OF_ONE // 3 :] + new for before, new in pairwise(FLIGHTS))]
ALL = [one for flights in FLIGHTS for one in flights]


@pytest.fixture
def spark() -> SparkSession:
    return local_session()


class Stream:
    """A query over a folder of files; rows: of each micro-batch, by Spark's number."""

    def __init__(self, spark: SparkSession, plan: SparkPlan, folder: Path) -> None:
        self._spark, self._plan, self._input = spark, plan, folder / "input"
        self._input.mkdir()
        self.checkpoints = Checkpoints(folder / "checkpoints")
        self.rows: dict[int, list[dict[str, Any]]] = {}

    def feed(self, flights: list[Flight]) -> None:
        number = len(list(self._input.iterdir()))
        moment = BEGIN.isoformat()
        lines = [
            json.dumps({"value": msgspec.json.encode(one).decode(), "partition": 0, "offset": at, "timestamp": moment})
            for at, one in enumerate(flights)
        ]
        (self._input / f"{number:03}.json").write_text("\n".join(lines))

    def made(self) -> DataFrame:
        records = self._spark.readStream.schema(RECORDS).option("maxFilesPerTrigger", 1).json(str(self._input))
        return output(self._plan, result_of(self._plan, lambda _: records, None))

    def run(self, directory: Path) -> None:
        """Until all that is there is done."""
        writer = self.made().writeStream.foreachBatch(self._take).outputMode(output_mode(self._plan.emit))
        running = writer.option("checkpointLocation", str(directory)).trigger(availableNow=True).start()
        assert running.awaitTermination(300)

    def _take(self, rows: DataFrame, batch: int) -> None:
        """A micro-batch that runs again, for its state alone, gives the same rows again."""
        found = [row.asDict() for row in rows.collect()]
        assert _counted(self.rows.setdefault(batch, found)) == _counted(found)


def _counted(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(str(sorted(row.items())) for row in rows)


def bare_plan(entry: str) -> SparkPlan:
    """Of a function `module:name`, before Spark was asked."""
    name = entry.partition(":")[2]
    return SparkPlan(name, "u", "topic", FIELDS, {0: 0}, {}, entry=entry, source="flights", event_time="time")


def plan_of(spark: SparkSession, function: str) -> tuple[SparkPlan, Answer]:
    """As it is admitted."""
    bare = bare_plan(f"tests.support.stateful:{function}")
    found = answer(spark, bare, None)
    assert not found.problems, found.problems
    changes = {name: getattr(found, name) for name in ("output", "time", "timed", "holds", "closes")}
    return msgspec.structs.replace(bare, **changes), found


def taken_over(stream: Stream, files: list[list[Flight]]) -> Path:
    """Every file is done by another driver; each but the first finds one that died before Spark's own note of its last
    micro-batch. Returns the last one's directory."""
    start = Takeover()
    for epoch, flights in enumerate(files, start=1):
        stream.feed(flights)
        directory = stream.checkpoints.prepare(epoch, start)
        stream.run(directory)
        planned = max(stream.checkpoints.done(epoch))
        (directory / "commits" / str(planned)).unlink()
        (directory / "commits" / f".{planned}.crc").unlink(missing_ok=True)
        start = Takeover(epoch, planned, planned - 1)
    last = stream.checkpoints.prepare(len(files) + 1, start)
    stream.run(last)
    return last


OPERATORS: dict[str, tuple[list[list[Flight]], tuple[str, ...], Callable[[], Rows]]] = {
    "distinct": (AGAIN, ("number",), lambda: stateful.numbers(ALL)),
    "ever_distinct": (AGAIN, ("number",), lambda: stateful.numbers(ALL)),
    "followed": (FLIGHTS, ("late", "number"), lambda: stateful.pairs(ALL)),
    "lonely": (FLIGHTS, ("late", "number"), lambda: stateful.alone(ALL)),
    "placed": (FLIGHTS, ("number", "city"), lambda: stateful.cities(ALL)),
    "tallied": (FLIGHTS, ("origin", "n", "total"), lambda: stateful.tallies(FLIGHTS)),
    "tallied_again": (FLIGHTS, ("origin", "n", "total"), lambda: stateful.tallies(FLIGHTS)),
}
"""What it is given, the columns that are compared, and the same in one piece."""
ALIKE = ("ever_distinct", "lonely", "tallied_again")
"""They are taken over as others of them are, and differ in what comes out, or in how Spark holds it."""


@pytest.mark.parametrize(
    "function", [pytest.param(one, marks=pytest.mark.long if one in ALIKE else ()) for one in OPERATORS]
)
def test_an_operator_is_exact_while_its_drivers_die_and_a_drain_brings_out_what_it_holds(
    spark: SparkSession, tmp_path: Path, function: str
) -> None:
    files, columns, whole = OPERATORS[function]
    plan, found = plan_of(spark, function)
    stream = Stream(spark, plan, tmp_path)
    last = taken_over(stream, files)
    if found.holds and found.closes:
        plan_last_batch(last, max(stream.rows) + 1)
        stream.run(last)
    rows = [tuple(row[name] for name in columns) for batch in stream.rows.values() for row in batch]
    assert Counter(rows) == whole()


class Rehearsed:
    """Rehearsals over files. begun: micro-batches that began; seen: those that were counted."""

    def __init__(self, stream: Stream, plan: SparkPlan, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._plan, self._folder = plan, folder / "rehearsal"
        self.begun: list[int] = []
        self.seen: list[object] = []
        monkeypatch.setattr(rehearsal, "MOST_S", 300.0)
        monkeypatch.setattr(rehearsal, "stream", lambda *_: stream.made())
        monkeypatch.setattr(rehearsal, "FrameTask", self._task)
        monkeypatch.setattr(rehearsal, "observe", lambda *asked: self.seen.append(observe(*asked)))

    def _task(self, **given: Any) -> FrameTask:
        self.begun.append(given["k"])
        return FrameTask(**given)

    def run(self, spark: SparkSession, wanted: Callable[[], bool]) -> Rehearsal:
        log = MemoryLog(lambda: 0)
        log.create([TopicSpec("topic", 1)])
        found = Rehearsal(spark, self._plan, "1-ab", log, "commits", "localhost:9", self._folder, None)
        found.run(wanted)
        assert not self._folder.exists()
        return found


def test_a_rehearsal_runs_the_query_if_there_is_a_record_and_one_that_is_cut_off_harms_none_that_follows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, _ = plan_of(spark, "tallied")
    stream = Stream(spark, plan, tmp_path)
    rehearsed = Rehearsed(stream, plan, tmp_path, monkeypatch)
    assert rehearsed.run(spark, lambda: True).idle
    assert not rehearsed.begun
    stream.feed(FLIGHTS[0])
    assert not rehearsed.run(spark, lambda: not rehearsed.begun).idle
    rehearsed.seen.clear()
    assert not rehearsed.run(spark, lambda: True).idle
    assert rehearsed.seen


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("raises", "raised AnalysisException at heavy.py:"),
        ("forgets", "returned nothing, not a DataFrame"),
        ("unsupported", "not supported for streaming aggregations without watermark"),
        ("absent", "has no function absent"),
    ],
)
def test_a_function_that_is_no_operator_gets_a_reason(spark: SparkSession, function: str, reason: str) -> None:
    (problem,) = answer(spark, bare_plan(f"tests.support.heavy:{function}"), None).problems
    assert problem.path == "spark"
    assert reason in problem.message
