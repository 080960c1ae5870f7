"""What the study of detectors makes of a recording."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from bench.research.detectors.evaluation import (
    Adaptive,
    Fixed,
    Judgement,
    idle_us,
    judged,
    standstills,
    watch,
    watch_elements,
)
from bench.research.detectors.machine_load import burners, corrected
from bench.research.detectors.recording import Timing, Turn
from bench.research.detectors.report import costs, left_of, report
from bench.research.detectors.study import BENCHMARK, FIXED, HEARTBEAT, MISSES, Judged, Outcome, windows

BEAT_US, ECHO_US = 100_000, 50_000
ALL = (0, 1 << 60)
LAST = (1_940_000, 1_960_000)
"""A failure halfway between the heartbeats at 1.9 and 2.0 s."""


def recording(
    late_ms: Iterable[int], deaf_ms: tuple[int, int] = (0, 0), until_ms: int = 6_000, workers: str = "w"
) -> list[Turn]:
    """Turns each 10 ms of one that hears each worker each 100 ms, but not at the times that are named, and nothing
    between two times."""
    missing = set(late_ms)
    return [
        Turn(
            at * 1000,
            tuple((worker, "1") for worker in workers) if hears and at % 100 == 0 and at not in missing else (),
            echo=hears and at % 50 == 0,
        )
        for at in range(0, until_ms, 10)
        for hears in [not deaf_ms[0] <= at < deaf_ms[1]]
    ]


def false(turns: list[Turn], watcher: Adaptive | Fixed, misses: int) -> int:
    return judged(watch(turns, watcher, misses, BEAT_US), ALL, standstills(turns, BEAT_US), BEAT_US).false


@pytest.mark.parametrize("misses", MISSES)
def test_a_detector_waits_for_its_number_of_missing_heartbeats_in_a_row(misses: int) -> None:
    for missing in range(4):
        turns = recording(range(2_000, 2_000 + 100 * missing, 100))
        for watcher in (Adaptive(BEAT_US, ECHO_US), Fixed(BEAT_US)):
            assert false(turns, watcher, misses) == int(missing >= misses)


def test_each_silence_is_one_suspicion() -> None:
    turns = recording([1_000, 1_100, 3_000, 5_000])
    assert false(turns, Fixed(BEAT_US), 1) == 3
    assert false(turns, Fixed(BEAT_US), 2) == 1


def test_while_the_observer_does_not_hear_itself_ours_suspects_nobody() -> None:
    turns = recording([2_000, 2_100], deaf_ms=(1_950, 2_200))
    assert false(turns, Fixed(BEAT_US), 1) == 1
    assert false(turns, Adaptive(BEAT_US, ECHO_US), 1) == 0


def test_a_suspicion_of_a_worker_that_hung_is_right() -> None:
    turns = recording(range(2_000, 2_500, 100))
    assert standstills(turns, BEAT_US) == [(1_900_000, 2_500_000)]
    found = judged(watch(turns, Fixed(BEAT_US), 1, BEAT_US), ALL, standstills(turns, BEAT_US), BEAT_US)
    assert (found.false, found.right) == (0, 1)


def test_only_what_falls_between_two_times_counts() -> None:
    turns = recording([1_000, 3_000])
    findings = watch(turns, Fixed(BEAT_US), 1, BEAT_US)
    assert judged(findings, (2_000_000, 4_000_000), [], BEAT_US).false == 1
    assert judged(findings, (4_000_000, 5_000_000), [], BEAT_US).false == 0


@pytest.mark.parametrize("misses", MISSES)
def test_a_failure_is_known_after_the_misses_and_the_grace(misses: int) -> None:
    """It comes half an interval after a heartbeat, and is seen in the next turn."""
    for watcher in (Adaptive(BEAT_US, ECHO_US), Fixed(BEAT_US)):
        findings = watch(recording([]), watcher, misses, BEAT_US)
        assert judged(findings, (2_000_000, 5_000_000), [], BEAT_US).detection_p50_ms == misses * 100 + 30 - 50


def test_a_failure_behind_an_outage_of_the_broker_is_known_later() -> None:
    """Workers have time to come back: 1.6 s in which nothing counts, and 5 s. For half a minute grace is longer."""
    turns = recording([], deaf_ms=(2_000, 3_000), until_ms=40_000)
    findings = watch(turns, Adaptive(BEAT_US, ECHO_US), 1, BEAT_US)
    assert judged(findings, LAST, [], BEAT_US).detection_p50_ms == pytest.approx(1_050 + 6_600, abs=200)
    assert judged(findings, (6_000_000, 7_000_000), [], BEAT_US).detection_p50_ms == 850
    assert judged(findings, (36_000_000, 37_000_000), [], BEAT_US).detection_p50_ms == 80


def test_a_failure_behind_an_outage_is_known_once_all_others_have_been_back_for_a_while() -> None:
    turns = recording([], deaf_ms=(2_000, 3_000), until_ms=40_000, workers="uvw")
    findings = watch(turns, Adaptive(BEAT_US, ECHO_US), 1, BEAT_US)
    assert judged(findings, LAST, [], BEAT_US).detection_p50_ms == pytest.approx(1_050 + 3_600, abs=200)


def test_a_failure_behind_a_standstill_of_the_observer_is_known_soon() -> None:
    turns = [turn for turn in recording([], until_ms=10_000) if not 2_000_000 <= turn.at_us < 3_000_000]
    findings = watch(turns, Adaptive(BEAT_US, ECHO_US), 1, BEAT_US)
    assert judged(findings, LAST, [], BEAT_US).detection_p50_ms == pytest.approx(1_050, abs=200)


def test_a_failure_just_before_the_end_is_never_known() -> None:
    findings = watch(recording([]), Fixed(BEAT_US), 1, BEAT_US)
    assert judged(findings, (5_900_000, 6_000_000), [], BEAT_US).detection_p50_ms is None


def test_late_elements_are_a_suspicion_above_the_load_and_until_they_are_in_time() -> None:
    took = [(0.9, 1_000), (0.9, 1_600), (0.9, 1_700), (0.9, 1_400), (0.5, 9_000), (0.9, 1_501), (0.9, 1_000)]
    timings = [Timing(at * 50_000, load, us) for at, (load, us) in enumerate(took)]
    findings = watch_elements(timings, [], 1_000, load=0.6)
    assert [one.at_us for one in findings.suspicions] == [50_000, 250_000]
    assert judged(findings, ALL, [(240_000, 260_000)], BEAT_US) == Judgement(1, 1, None, None)


def test_elements_that_do_not_come_back_tell_of_a_failure_but_only_under_load() -> None:
    turns = [Turn(10_000, (("w", "1"),)), Turn(60_000, (("w", "1"),))]
    timings = [Timing(0, 0.9, 1_000), Timing(50_000, 0.9, 1_000), Timing(100_000, 0.2, None)]
    found = watch_elements(timings, turns, 1_000, load=0.6).detections
    assert [one.took_us for one in found] == [40_000 + 1_500, None]


def test_the_first_timings_are_the_benchmark() -> None:
    timings = [Timing(at, 0.1, took) for at, took in enumerate([900, 1_000, 5_000, 9_000])]
    assert idle_us(timings, 3) == 1_000


def test_gaps_are_looked_for_around_switches_and_between_them() -> None:
    near, between = windows([3_000.0, 10_000.0, 4_000.0], 0, 20_000)
    assert near == [(2_500, 6_000), (9_500, 12_000)]
    assert between == [(0, 2_500), (6_000, 9_500), (12_000, 20_000)]
    assert windows([], 0, 20_000) == ([], [(0, 20_000)])


def test_burners_find_their_way_to_the_wanted_load() -> None:
    duty = 1.0
    for _ in range(50):
        duty = corrected(duty, 0.8, min(1.0, 0.3 + duty))
    assert duty == pytest.approx(0.5, abs=0.01)
    assert burners(2.0) > burners(0.95) >= 1


def made(level: str, seconds: float, false: int, detection_ms: float = 100.0) -> Outcome:
    found = [Judged(name, m, Judgement(false, 1, detection_ms, None)) for name in (HEARTBEAT, FIXED) for m in MISSES]
    found.append(Judged(BENCHMARK, 0, Judgement(false, 0, None, None)))
    return Outcome(level, seconds, 0.8, 4, 1, 2, 80.0, 60.0, 0, tuple(found))


def test_a_rate_is_over_all_that_was_recorded_and_of_one_worker() -> None:
    rows = report([made("80%", 60, 4), made("80%", 180, 0, 120.0)], [HEARTBEAT, BENCHMARK], [2])
    assert [(row.detector, row.misses, row.false_per_h) for row in rows] == [(HEARTBEAT, 2, 15), (BENCHMARK, 0, 60)]
    assert (rows[0].right, rows[0].detection_p50_ms) == (2, 120)


def test_switches_are_summed_and_the_longest_gap_counts() -> None:
    (cost,) = costs([made("80%", 60, 4), made("80%", 180, 0)])
    assert (cost.minutes, cost.switches, cost.longest_gap_at_switches_ms) == (4, 4, 60)


def test_recorded_loads_are_not_recorded_again() -> None:
    assert left_of(["50%", "80%"], [made("80%", 29.9, 0), made("50%", 10, 0)], 30) == ["50%"]
