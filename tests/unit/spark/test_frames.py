"""Rows become frames that a commit can name; those of a rehearsal are made and not written."""

from __future__ import annotations

import pyarrow as pa
import pytest

from holdfast.schemas.commits import is_frame
from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.kernel.codecs.fields import TIME
from holdfast.services.log.memory import MemoryLog
from holdfast.services.spark import frames
from holdfast.services.spark.frames import FrameTask

COMMITS = Partition("commits", 0)
ROWS = pa.RecordBatch.from_pydict({"number": pa.array([1, 2, 3]), TIME: pa.array([10, None, 30], pa.int64())})


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> MemoryLog:
    log = MemoryLog(lambda: 0)
    log.create([TopicSpec(COMMITS.topic, 1)])
    monkeypatch.setattr(frames, "_appender", lambda *_: log.appender("task"))
    return log


def task(rehearsed: bool) -> FrameTask:
    return FrameTask(
        bootstrap_servers="",
        topic=COMMITS.topic,
        fields={"number": "int"},
        generation=1,
        epoch=4,
        k=2,
        attempt=1,
        time_us=20,
        rehearsed=rehearsed,
    )


def test_a_task_tells_where_it_has_written_its_frames_and_how_many_rows_they_hold(log: MemoryLog) -> None:
    (told,) = task(rehearsed=False)(iter([ROWS]))
    assert told.to_pydict() == {"offset": [0], "rows": [3]}
    (frame,) = log.scan(COMMITS)
    assert is_frame(frame.value() or b"")


def test_a_task_waits_for_kafka_once_however_many_frames_it_writes(
    log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    appender, waited = log.appender("task"), list[float]()
    flush = appender.flush

    def noted(timeout_s: float) -> None:
        waited.append(timeout_s)
        flush(timeout_s)

    monkeypatch.setattr(appender, "flush", noted)
    monkeypatch.setattr(frames, "_appender", lambda *_: appender)
    (told,) = task(rehearsed=False)(iter([ROWS, ROWS.slice(0, 2), ROWS.slice(0, 0), ROWS]))
    assert told.to_pydict() == {"offset": [0, 1, 2], "rows": [3, 2, 3]}
    assert len(waited) == 1


def test_a_rehearsal_writes_nothing(log: MemoryLog) -> None:
    assert list(task(rehearsed=True)(iter([ROWS]))) == []
    assert list(log.scan(COMMITS)) == []
