"""What `holdfast status` and `holdfast list` print of a job that has failed, and how they exit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.schemas import events, plans
from holdfast.schemas.events import Event
from holdfast.schemas.plans import Status
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.cli import whereabouts
from holdfast.services.cli.commands import app
from holdfast.services.log.memory import MemoryLog
from holdfast.services.view.door import Door, Whereabouts
from tests.unit.view.test_pipelines import plan

TOPICS = ClusterTopics()
SINCE_MS = 1_700_000_000_000
SINCE = datetime.fromtimestamp(SINCE_MS / 1000).strftime("%Y-%m-%d %H:%M:%S")


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> MemoryLog:
    log = MemoryLog(lambda: SINCE_MS)
    log.create(TOPICS.specs())

    @contextmanager
    def connected(*_: object, **__: object) -> Iterator[Door]:
        yield Door(log, TOPICS, log.topics(), Whereabouts(Path(), "memory", "holdfast", True))

    monkeypatch.setattr(whereabouts, "connected", connected)
    return log


def say(log: MemoryLog, state: str, error: str = "") -> None:
    status = Status("flights", "1-aaaaaa", state, SINCE_MS, units=2, error=error, since_ms=SINCE_MS)
    log.appender("c").append(Partition(TOPICS.status, 0), plans.encode(status))


def test_a_failed_job_is_said_to_be_with_its_cause_and_since_when_and_the_command_fails(log: MemoryLog) -> None:
    say(log, "failed", "late-0 on w2: division of a string")
    shown = CliRunner().invoke(app, ["status", "flights"])
    assert shown.exit_code == 1
    assert f"job flights (1-aaaaaa) is failed since {SINCE}" in shown.stdout
    assert "cause: late-0 on w2: division of a string" in shown.stdout
    as_json = CliRunner().invoke(app, ["status", "flights", "--json"])
    assert as_json.exit_code == 1
    found = json.loads(as_json.stdout)
    assert (found["state"], found["since_ms"]) == ("failed", SINCE_MS)
    listed = CliRunner().invoke(app, ["list"])
    assert (listed.exit_code, "failed" in listed.stdout, SINCE in listed.stdout) == (0, True, True)


def test_the_status_command_succeeds_for_a_job_that_runs(log: MemoryLog) -> None:
    say(log, "running")
    shown = CliRunner().invoke(app, ["status", "flights"])
    assert shown.exit_code == 0
    assert f"is running since {SINCE}" in shown.stdout


def test_the_graph_of_jobs_goes_from_topics_to_jobs_to_topics(log: MemoryLog) -> None:
    assert "no job runs" in CliRunner().invoke(app, ["list", "--graph"]).stdout
    log.appender("c").append(Partition(TOPICS.plans, 0), plans.encode(plan(1, "flights", "flown", "late")))
    say(log, "running")
    assert CliRunner().invoke(app, ["list", "--graph"]).stdout.splitlines() == [
        "flown",
        "└─ job flights: running",
        "   └─ late",
    ]
    as_json = json.loads(CliRunner().invoke(app, ["list", "--graph", "--json"]).stdout)
    assert [(one["job"], one["reads"], one["writes"]) for one in as_json] == [("flights", {"flown": []}, {"late": []})]


def tell(log: MemoryLog, *told: Event) -> None:
    for event in told:
        log.appender("r").append(Partition(TOPICS.events, 0), events.encode(event))


def test_events_of_a_job_are_asked_for_as_its_status_is(log: MemoryLog) -> None:
    say(log, "running")
    reason = "hybrid: the primary is gone: the secondary takes its place (w2 commits)"
    tell(
        log,
        Event(SINCE_MS, "placed", "flights", "a-0", 1, "w1", "its job is to run: placed"),
        Event(SINCE_MS, "placed", "other", "b-0", 1, "w1", "its job is to run: placed"),
        Event(SINCE_MS, "decided", "flights", "a-0", 2, detail=reason, phases_ms={"detection": 40.0}),
        Event(SINCE_MS, "unit-active", "flights", "a-0", 2, "w2", phases_ms={"first_output": 60.0}),
        Event(SINCE_MS + 1, "cluster-started"),
    )
    line = "w1 died: a-0 silent for 100 ms, w2 leads"
    for words in (["flights"], ["--job", "flights"], ["flights@1-aaaaaa"]):
        shown = CliRunner().invoke(app, ["events", *words])
        assert shown.exit_code == 0
        assert [one[21:] for one in shown.stdout.splitlines()] == [line, "cluster-started"]
    every = CliRunner().invoke(app, ["events", "flights", "--all"]).stdout.splitlines()
    assert len(every) == 3
    assert reason in every[1]
    as_json = CliRunner().invoke(app, ["events", "flights", "--json"]).stdout.splitlines()
    assert [json.loads(one)["kind"] for one in as_json] == ["placed", "decided", "unit-active"]
    assert f"1 failure, the last: {line}" not in CliRunner().invoke(app, ["status", "flights"]).stdout, "years ago"


def test_events_of_a_job_that_there_is_not_are_an_error(log: MemoryLog) -> None:
    say(log, "running")
    assert CliRunner().invoke(app, ["events", "flights"]).exit_code == 0
    shown = CliRunner().invoke(app, ["events", "fligths"])
    assert (shown.exit_code, "did you mean" in shown.output) == (2, True)
