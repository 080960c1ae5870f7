"""holdfast.testing: records, time, late rows, and kills of the worker at any moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast import Job
from holdfast.services.client.local_run import LocalRunFailed
from holdfast.testing import JobRun

FLIGHTS = {
    "topic": "flights",
    "fields": {"carrier": "string", "dep_delay": "int?", "at": "timestamp"},
    "event_time": "at",
    "late": "topic",
    "close_after_idle_s": 3600,
}
DAY = datetime(2026, 1, 1, tzinfo=UTC)


def job(**source: Any) -> Job:
    plain = {
        "name": "delays",
        "sources": {"flights": FLIGHTS | source},
        "operators": {
            "hourly": {
                "aggregate": {"n": "count()", "worst": "max(dep_delay)"},
                "key": ["carrier"],
                "input": "flights",
                "window": {"size_s": 3600},
                "parallelism": 2,
            },
            "scored": {
                "python": "tests.support.scoring:Score",
                "params": {"threshold": 15},
                "input": "flights",
                "key": ["carrier"],
            },
        },
        "queries": {
            "hours": {"input": "hourly", "sink": {"topic": "hours", "partitions": 2}},
            "shares": {"input": "scored", "sink": {"topic": "shares", "commit_interval_ms": 2000}},
        },
    }
    return Job.model_validate(plain)


def flight(hour: float, carrier: str = "UA", delay: int = 20) -> dict[str, Any]:
    return {"carrier": carrier, "dep_delay": delay, "at": (DAY + timedelta(hours=hour)).isoformat()}


def test_rows_are_there_when_feed_returns_and_each_is_expected_once() -> None:
    run = JobRun(job())
    run.feed("flights", [flight(0.1), flight(0.2)])
    run.expect("hours", [])
    run.expect("shares", [{"carrier": "UA", "share": 1.0}, {"carrier": "UA", "share": 1.0}])
    run.feed("flights", [flight(1.5, delay=0)])
    run.expect("hours", [{"carrier": "UA", "n": 2, "window_end": DAY + timedelta(hours=1)}])
    run.expect("shares", [{"share": 2 / 3}])
    run.finish()
    run.expect("hours", [{"n": 1, "worst": 0}])
    assert sorted(run.rows("hours")["n"]) == [1, 2]


def test_rows_that_differ_are_printed_and_names_that_are_unknown_are_refused() -> None:
    run = JobRun(job())
    run.feed("flights", [flight(0), flight(2)])
    with pytest.raises(AssertionError, match=r"(?s)'hours' gave other rows.*missing: .*'n': 3.*unexpected: .*'n': 1"):
        run.expect("hours", [{"n": 3}])
    with pytest.raises(KeyError, match="did you mean 'hours'"):
        run.rows("hour")
    with pytest.raises(KeyError, match="did you mean 'flights'"):
        run.feed("flight", [])
    with pytest.raises(KeyError, match="has no column m: it has carrier"):
        run.expect("shares", [{"m": 1}])


def test_late_and_bad_records_are_counted_and_shown_while_the_job_runs_and_afterwards() -> None:
    run = JobRun(job())
    run.feed("flights", [flight(0), flight(5)])
    run.feed("flights", [flight(1), b"{"])
    before = (run.late, run.dead_letters["origin"].to_list())
    run.finish()
    assert (run.late, run.dead_letters["origin"].to_list()) == before == (1, ["flights", "hourly"])


def test_time_passes_when_a_test_says_so_and_then_windows_close_that_wait_for_it() -> None:
    run = JobRun(job(), at=DAY)
    run.feed("flights", [flight(0.5), flight(0.9), flight(1.1)])
    run.expect("hours", [])
    assert "ahead" in run.dead_letters["reason"].item()
    run.advance(3700)
    run.expect("hours", [{"n": 2, "window_start": DAY}])
    run.feed("flights", [flight(1.1)])
    assert run.dead_letters.height == 1


def test_a_source_that_reads_the_newest_records_gets_all_that_are_fed() -> None:
    run = JobRun(job(start="latest"))
    run.feed("flights", [flight(0)])
    run.expect("shares", [{"share": 1.0}])


def test_an_operator_that_raises_ends_the_run_with_its_reason() -> None:
    plain = job().as_plain()
    params = {"key": "carrier", "number": "dep_delay", "bad": 20}
    plain["operators"]["scored"] |= {"python": "tests.support.raising:Fussy", "params": params}
    plain["on_error"] = "fail"
    run = JobRun(Job.model_validate(plain))
    with pytest.raises(LocalRunFailed, match=r"Fussy raised.*20 is refused"):
        run.feed("flights", [flight(0)])


@pytest.mark.parametrize("ms", range(0, 30, 6))
def test_a_kill_at_any_moment_changes_no_row(ms: int) -> None:
    records = [flight(at / 10, carrier, at * 7 % 40) for at in range(40) for carrier in ("AA", "DL", "UA")]
    tried = job().try_({"flights": records})
    run = JobRun(job())
    run.feed("flights", records[:60])
    run.feed("flights", records[60:80], for_ms=ms)
    run.kill()
    run.feed("flights", records[80:])
    run.restore()
    run.feed("flights", [], for_ms=ms)
    run.kill()
    run.finish()
    for query, rows in tried.items():
        run.expect(query, rows.to_dicts())


def test_calls_that_a_run_cannot_carry_out_raise_an_error_with_the_reason() -> None:
    run = JobRun(job())
    with pytest.raises(RuntimeError, match="the worker runs"):
        run.restore()
    run.kill()
    with pytest.raises(RuntimeError, match="killed already"):
        run.kill()
    run.finish()
    with pytest.raises(RuntimeError, match="has ended"):
        run.feed("flights", [])


def reminders(**python: Any) -> Job:
    code = {"python": "tests.support.clocked:Reminder", "params": {"key": "carrier", "after_ms": 20_000}}
    plain = {
        "name": "reminders",
        "sources": {"flights": FLIGHTS},
        "operators": {"later": {**code, "input": "flights", "key": ["carrier"], "clock": True, **python}},
        "queries": {"later": {"input": "later", "sink": {"topic": "later"}}},
    }
    return Job.model_validate(plain)


@pytest.mark.slow
@pytest.mark.parametrize("python", [{}, {"parallelism": 2}, {"isolation": "process"}])
def test_timers_by_the_time_of_day_fire_while_no_record_comes_and_half_a_second_late_at_most(
    python: dict[str, Any],
) -> None:
    run = JobRun(reminders(**python), at=DAY)
    run.feed("flights", [flight(0.1), flight(0.2, "AA")])
    run.advance(10)
    run.feed("flights", [flight(0.3, "AA")])
    run.advance(8)
    run.expect("later", [])
    run.kill()
    run.advance(1)
    run.restore()
    run.advance(4)
    run.expect("later", [{"key": "UA", "rows": 1}])
    run.advance(30)
    (late,) = run.rows("later").filter(key="AA")["late_us"]
    assert 0 <= late <= 700_000, "a batch is cut twice a second, though nothing came for more than ten seconds"
    run.finish()
