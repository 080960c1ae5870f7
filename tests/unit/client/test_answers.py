"""Answers that users' code awaits are asked for once, decided by the cut log, and the same for every copy."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Job, JobRejected
from holdfast.services.client.local_run import LocalRunFailed
from holdfast.testing import JobRun
from tests.support.asking import Service


@pytest.fixture(autouse=True)
def service() -> None:
    Service.begin()


def job(code: str = "Enriched", ask: dict[str, Any] | None = None, **more: Any) -> Job:
    settings = {"rows": 2, "pause_s": 1, "retries": 2} | (ask or {})
    asking = {"python": f"tests.support.asking:{code}", "params": {"column": "t"}, "input": "given", "ask": settings}
    plain = {
        "name": "asking",
        "sources": {"given": {"topic": "given", "fields": {"t": "string", "n": "int"}}},
        "operators": {
            "said": {**asking, **more.pop("said", {})},
            "total": {"aggregate": {"n": "sum(n)"}, "key": ["said"], "input": "said", "emit": "updates"},
        },
        "queries": {
            "all": {"input": "said", "sink": {"topic": "all"}},
            "totals": {"input": "total", "sink": {"topic": "totals"}},
        },
        **more,
    }
    return Job.model_validate(plain)


def rows(*texts: str) -> list[dict[str, Any]]:
    return [{"t": text, "n": 1} for text in texts]


def said(run: JobRun) -> list[str]:
    return run.rows("all")["said"].to_list()


def test_rows_are_enriched_in_order_by_few_calls_at_a_time() -> None:
    run = JobRun(job(ask={"concurrency": 2}))
    run.feed("given", rows("a", "b", "c", "d", "e", "f", "g"))
    assert said(run) == ["a-1", "b-1", "c-1", "d-1", "e-1", "f-1", "g-1"]
    assert Service.most == 2
    run.finish()
    assert run.rows("totals")["n"].sum() == 7


def test_an_answer_that_was_decided_is_never_asked_for_again() -> None:
    run = JobRun(job())
    run.feed("given", rows("a", "b", "c"))
    for _ in range(3):
        run.kill()
        run.restore()
    run.feed("given", rows("a"))
    run.kill()
    run.restore()
    run.finish()
    assert said(run) == ["a-1", "b-1", "c-1", "a-2"]
    assert Service.asked == {"a": 2, "b": 1, "c": 1}


@pytest.mark.slow
def test_a_service_that_is_away_is_asked_again_and_what_was_answered_is_kept() -> None:
    run = JobRun(job(ask={"concurrency": 1}))
    Service.away = 2
    run.feed("given", rows("a", "b", "c", "d", "e"), for_ms=900)
    assert said(run) == []
    run.advance(1)
    assert said(run) == ["a-1", "b-1", "c-1", "d-1", "e-1"]
    assert max(Service.asked.values()) == 1


def test_rows_of_calls_that_fail_too_often_are_dead_letters_and_the_others_are_delivered() -> None:
    run = JobRun(job(ask={"timeout_s": 0.05}))
    Service.hangs = {"c"}
    run.feed("given", rows("a", "b", "c", "d", "e"), for_ms=100)
    run.advance(10)
    assert said(run) == ["a-1", "b-1", "e-1"]
    run.finish()
    letters = run.dead_letters
    assert letters.height == 2
    assert all("batch 1: asked 3 times, no answer within 0.05 s" in reason for reason in letters["reason"])


@pytest.mark.slow
def test_the_job_ends_or_waits_for_ever_as_on_error_says() -> None:
    Service.away = 1_000
    failing = JobRun(job(on_error="fail"))
    failing.feed("given", rows("a"), for_ms=10)
    with pytest.raises(LocalRunFailed, match="asked 3 times, ConnectionError: the service is away"):
        failing.finish()
    with pytest.raises(LocalRunFailed, match="asked 3 times"):
        failing.advance(300)
    Service.begin()
    Service.away = 9
    run = JobRun(job(on_error="retry"))
    run.feed("given", rows("a"), for_ms=60_000)
    assert said(run) == []
    run.advance(300)
    assert said(run) == ["a-1"]


def test_a_large_answer_is_split_and_one_that_is_too_large_ends_the_job_with_what_to_do() -> None:
    Service.wide = 400_000
    run = JobRun(job())
    run.feed("given", rows("a", "b"))
    assert [len(one) for one in said(run)] == [3 * 400_000] * 2
    Service.wide = 6_000_000
    run.feed("given", rows("c", "d"), for_ms=20)
    with pytest.raises(LocalRunFailed, match="a smaller max_batch_records"):
        run.finish()


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ({"isolation": "process"}, "operators.said.isolation"),
        ({"clock": True}, "operators.said.clock"),
        ({"ask": None}, "operators.said.python"),
        ({"python": "tests.support.scoring:Score", "params": {"threshold": 1}}, "operators.said.ask"),
    ],
)
def test_settings_that_do_not_go_with_awaiting_are_refused(changed: dict[str, Any], path: str) -> None:
    with pytest.raises(JobRejected) as found:
        JobRun(job(said=changed))
    assert path in {problem.path for problem in found.value.problems}


def test_code_that_awaits_has_no_state() -> None:
    run = JobRun(job("Stateful"))
    run.feed("given", rows("a"), for_ms=10)
    run.advance(10)
    run.finish()
    assert "keeps no state" in run.dead_letters["reason"][0]
