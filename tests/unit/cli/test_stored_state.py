"""`holdfast state` shows what an operator has stored, as of its newest checkpoint: tables, typed states, timers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast import Job
from holdfast.schemas.topics import ClusterTopics
from holdfast.services.cli import whereabouts
from holdfast.services.cli.commands import app
from holdfast.services.view.door import Door, Whereabouts
from holdfast.testing import JobRun

JOB = {
    "name": "scores",
    "sources": {"flights": {"topic": "flights", "fields": {"carrier": "string", "dep_delay": "int?"}}},
    "operators": {
        "scored": {
            "python": "tests.support.scoring:Score",
            "params": {"threshold": 15},
            "input": "flights",
            "key": ["carrier"],
            "parallelism": 2,
        },
        "all": {"filter": "dep_delay > -100", "input": "flights"},
        "counted": {"aggregate": {"n": "count()"}, "key": ["carrier"], "input": "all"},
    },
    "queries": {"shares": {"input": "scored", "sink": {"topic": "shares"}}, "counts": {"input": "counted"}},
}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> JobRun:
    run = JobRun(Job.model_validate(JOB))

    @contextmanager
    def connected(*_: object, **__: object) -> Iterator[Door]:
        log = run._cluster.log
        yield Door(log, ClusterTopics("local"), log.topics(), Whereabouts(Path(), "memory", "holdfast", True))

    monkeypatch.setattr(whereabouts, "connected", connected)
    return run


def shown(*words: str) -> list[dict[str, object]]:
    done = CliRunner().invoke(app, ["state", "scores", *words, "--json"])
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_entries_are_those_of_the_newest_checkpoint_of_all_tasks_and_a_key_is_found_in_its_own(run: JobRun) -> None:
    assert shown("scored") == []
    run.feed("flights", [{"carrier": carrier, "dep_delay": 20} for carrier in ("AA", "UA", "UA", "7", "DL")])
    run.feed("flights", [{"carrier": "UA", "dep_delay": 0}])
    run.advance(2)
    every = shown("scored")
    assert {str(one["key"]): one["value"] for one in every} == {"AA": [1, 1], "UA": [2, 3], "7": [1, 1], "DL": [1, 1]}
    assert {one["task"] for one in every} == {"scored-0", "scored-1"}
    assert all(one["batch"] for one in every)
    assert shown("scored", "UA") == [one for one in every if one["key"] == "UA"]
    assert shown("scored", "7") == [one for one in every if one["key"] == "7"]
    assert shown("scored", "--table", "other") == shown("scored", "XX") == []
    assert shown("scored", "--prefix", "U") == shown("scored", "UA")
    assert [one["value"] for one in shown("counted", "UA")] == [{"n": 3}]
    few = CliRunner().invoke(app, ["state", "scores", "scored", "--limit", "1"])
    assert "there are more entries" in few.stderr


def test_an_operator_whose_state_cannot_be_read_is_refused(run: JobRun) -> None:
    for words, said in (
        (["all"], "'all' (filter) keeps no state (the job has state in scored, counted)"),
        (["scord"], "did you mean 'scored'"),
    ):
        done = CliRunner().invoke(app, ["state", "scores", *words])
        assert (done.exit_code, said in " ".join(done.output.split())) == (2, True), done.output
    run._cluster.log.delete([name for name in run._cluster.log.topics() if name.endswith(".checkpoints")])
    done = CliRunner().invoke(app, ["state", "scores", "scored"])
    assert (done.exit_code, "has ended" in done.output) == (1, True)
