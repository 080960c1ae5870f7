"""The demo feeds a share of what the machine takes, and knows every figure or says which one is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.demo.failing import LINES, advice, end_of_log
from bench.demo.pace import (
    AGAIN_S,
    FEEDS_S,
    LEAST_PER_S,
    MOST_S,
    SHARE,
    Kill,
    Wait,
    figures,
    lasts_s,
    pace,
    patience_s,
    silences,
)
from bench.rig.followed import MeasureFailed


@pytest.mark.parametrize(
    ("taken", "seconds", "left", "expected"),
    [
        (8_500, 1.0, 336_776, int(SHARE * 8_500) // 100 * 100),
        (20_000, 0.5, 300_000, 4_000),  # the year has to last
        (300, 1.5, 300_000, LEAST_PER_S),
    ],
)
def test_the_pace_is_a_share_of_the_rate_that_the_first_second_has_shown(
    taken: int, seconds: float, left: int, expected: int
) -> None:
    assert pace(taken, seconds, left, 75.0) == expected


def test_a_machine_that_starts_slowly_is_waited_for_and_fed_for_as_long_as_its_workers_take() -> None:
    assert (patience_s(10.0), lasts_s(5.0, 6)) == (AGAIN_S, FEEDS_S)
    assert patience_s(100.0) == 400.0
    slow = pace(8_000, 1.0, 300_000, lasts_s(100.0, 6))
    assert 300_000 / slow >= 6 * 100.0, "the flights are not over before the last kill"


def test_without_a_result_there_is_no_pace() -> None:
    with pytest.raises(MeasureFailed, match="no result came of the first records"):
        pace(0, 1.0, 300_000, 75.0)


KILLS = [Kill("takeover", 1_000, 3_000), Kill("takeover", 3_000, 5_000), Kill("restart", 5_000, 12_000)]


def test_a_silence_is_the_longest_gap_that_ends_after_its_kill() -> None:
    results = [500, 900, 1_050, 1_800, 1_900, 3_100, 3_400, 5_100, 9_100, 9_200, 20_000]
    found = silences(KILLS, results)
    assert found == {"takeover": [750, 1_200], "restart": [4_000]}
    assert figures(found, {"takeover": 2, "restart": 1}) == {
        "takeover_ms": 975, "takeover_worst_ms": 1_200, "takeovers_ms": [750, 1_200],
        "restart_ms": 4_000, "restart_worst_ms": 4_000, "restarts_ms": [4_000],
    }  # fmt: skip


def test_a_kill_that_no_result_followed_fails_the_run_and_is_named() -> None:
    with pytest.raises(MeasureFailed, match=r"no result followed kill 2 \(takeover\)"):
        silences(KILLS, [500, 1_800, 2_900])


def test_a_figure_that_is_missing_fails_the_run() -> None:
    with pytest.raises(MeasureFailed, match="0 of 3 silences after a restart are known"):
        figures({"takeover": [1, 2, 3]}, {"takeover": 3, "restart": 3})


def test_on_failure_the_end_of_the_log_that_tells_of_trouble_is_shown(tmp_path: Path) -> None:
    logs = tmp_path / "cluster" / "logs"
    logs.mkdir(parents=True)
    (logs / "supervisor.log").write_text("all is well\n")
    assert end_of_log(logs) == ("supervisor.log", ["all is well"])
    lines = [f"line {number}" for number in range(100)]
    (logs / "worker-1.log").write_text("\n".join([*lines, "Traceback (most recent call last):", "KeyError: 7"]))
    name, shown = end_of_log(logs)
    assert (name, len(shown), shown[-1]) == ("worker-1.log", LINES, "KeyError: 7")
    said = advice(tmp_path, ["--rate", "100 0"])
    assert said[0] == "the last lines of worker-1.log:"
    assert said[-2:] == [f"data and logs are kept in {tmp_path}, logs in {logs}",
                         "run again: ./scripts/demo --rate '100 0'"]  # fmt: skip


def test_without_any_log_it_says_what_is_kept_and_how_to_run_again(tmp_path: Path) -> None:
    assert advice(tmp_path, []) == [f"data and logs are kept in {tmp_path}", "run again: ./scripts/demo"]


def test_a_wait_is_longer_where_looks_take_long() -> None:
    """Each look took 40 s where 150 processes shared two processors, and a worker did not start within 14 of them."""
    quick, starved = Wait(90, 0), Wait(90, 0)
    assert not quick.over(1.5)
    assert not any(quick.over(1.5 * look) for look in range(2, 61))
    assert quick.over(91.5)
    assert not any(starved.over(40 * look) for look in range(1, 46))
    assert starved.over(40 * 46)
    assert starved.seconds == 1_840


def test_no_wait_is_endless() -> None:
    wait = Wait(10_000, 0)
    assert [wait.over(now) for now in (1_800, MOST_S, MOST_S + 1)] == [False, False, True]
