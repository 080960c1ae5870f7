"""`holdfast watch` shows each change of a job, ends with it, and ends plainly on Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from holdfast.schemas.topics import ClusterTopics
from holdfast.services.cli import watch, whereabouts
from holdfast.services.cli.commands import app
from holdfast.services.log.memory import MemoryLog
from holdfast.services.view.door import Door, Whereabouts
from holdfast.services.view.lines import JobStatus, UnitProgress

UNIT = UnitProgress("a-0", "w1", "running", 1, 1, None, 5, 0, 0, 0, False)
RUNS = JobStatus("flights", "1-aaaaaa", "running", 1, "", (), (), 1_000, 0, 0, 0, (UNIT,))
MORE = msgspec.structs.replace(RUNS, records=2_000)
DOWN = msgspec.structs.replace(MORE, units=(msgspec.structs.replace(UNIT, state="down"),), available=0)
ALONE = msgspec.structs.replace(RUNS, unprotected={"one worker": ("a-0",)})
ENDED = msgspec.structs.replace(RUNS, state="ended", units=())


def watched(capsys: pytest.CaptureFixture[str], *looks: JobStatus, for_s: float | None = None) -> tuple[str, list[str]]:
    found, now = iter(looks), [0.0]

    def rest(seconds: float) -> None:
        now[0] += seconds

    state = watch.follow(lambda: next(found), 2.0, for_s, clock=lambda: now[0], rest=rest)
    return state, [line[21:] for line in capsys.readouterr().out.splitlines()]


def test_piped_a_line_comes_for_each_change_and_none_for_more_records(capsys: pytest.CaptureFixture[str]) -> None:
    assert watched(capsys, RUNS, MORE, DOWN, DOWN, ALONE, ENDED) == (
        "ended",
        [
            "flights is running; 1 of 1 unit up; 1,000 records taken in, 0 dead, 0 lost",
            "flights is running; 0 of 1 unit up; a-0 down on w1; 2,000 records taken in, 0 dead, 0 lost",
            "flights is running; 1 of 1 unit up; unprotected: one worker; 1,000 records taken in, 0 dead, 0 lost",
            "flights is ended; 0 of 0 units up; 1,000 records taken in, 0 dead, 0 lost",
        ],
    )


def test_watching_ends_when_its_time_is_over(capsys: pytest.CaptureFixture[str]) -> None:
    state, lines = watched(capsys, *[RUNS] * 4, for_s=5.0)
    assert (state, len(lines)) == ("running", 1)


@pytest.fixture
def door(monkeypatch: pytest.MonkeyPatch) -> None:
    log, topics = MemoryLog(lambda: 0), ClusterTopics()

    @contextmanager
    def connected(*_: object, **__: object) -> Iterator[Door]:
        yield Door(log, topics, {}, Whereabouts(Path(), "memory", "holdfast", True))

    monkeypatch.setattr(whereabouts, "connected", connected)


@pytest.mark.parametrize(("last", "code"), [(KeyboardInterrupt(), 130), (ENDED, 0), ("failed", 1)])
def test_ctrl_c_ends_it_with_130_the_end_of_the_job_with_0_and_a_failed_job_with_1(
    door: None, monkeypatch: pytest.MonkeyPatch, last: Any, code: int
) -> None:
    looks = iter([RUNS, msgspec.structs.replace(RUNS, state=last) if isinstance(last, str) else last])

    def look(*_: object) -> JobStatus:
        found = next(looks)
        if isinstance(found, BaseException):
            raise found
        return found

    monkeypatch.setattr(watch, "look", look)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    found = CliRunner().invoke(app, ["watch", "flights", "--every", "0.5"])
    assert found.exit_code == code, found.output
    assert "flights is running" in found.stdout
