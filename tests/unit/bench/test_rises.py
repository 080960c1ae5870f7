"""Figure Z12: which declarations are of a rise of the load, which are false, and what is judged of both."""

from __future__ import annotations

from typing import Any

import pytest

from bench.research.detectors.evaluation import Suspicion
from bench.research.detectors.machine_load import off
from bench.research.detectors.recording import Timing, Turn
from bench.research.detectors.spikes import (
    LATE_US,
    LEVELS,
    OFF_S,
    ON_S,
    Declared,
    Risen,
    declared,
    loads,
    rises,
    silences,
)
from bench.research.detectors.study import BENCHMARK, FIXED, HEARTBEAT
from bench.research.papers.figure import Data, Verdict, verdict
from bench.research.papers.z12 import NEVER_MS, Z12, values

PERIOD_US, ON_US = round((ON_S + OFF_S) * 1e6), round(ON_S * 1e6)
TIMES = [(n * PERIOD_US, n * PERIOD_US + ON_US) for n in (1, 2, 3)]


def suspected(*at_us: int) -> list[Suspicion]:
    return [Suspicion(at, "w", 0) for at in at_us]


def test_rises_that_were_not_whole_do_not_count() -> None:
    assert rises(1, 4 * PERIOD_US) == TIMES
    assert rises(PERIOD_US, 4 * PERIOD_US - 1) == TIMES[:2]


def test_burners_are_at_work_during_rises_and_not_between_them() -> None:
    for begin_us, end_us in TIMES:
        assert off(begin_us / 1e6 + 0.001, ON_S, OFF_S) == 0.0
        assert off(end_us / 1e6 - 0.001, ON_S, OFF_S) == 0.0
        assert off(end_us / 1e6 + 0.1, ON_S, OFF_S) == pytest.approx(OFF_S - 0.1)
    assert off(1e9, float("inf"), 0.0) == 0.0


def test_a_rise_is_declared_once_however_many_are_suspected() -> None:
    begin = TIMES[0][0]
    found = declared(HEARTBEAT, suspected(begin + 150_000, begin + 400_000), TIMES)
    assert (found.detected, found.right, found.false, found.delay_ms) == (1, 2, 0, 150.0)


def test_a_suspicion_soon_after_a_rise_detects_it_and_a_later_one_is_false() -> None:
    end = TIMES[1][1]
    assert declared(HEARTBEAT, suspected(end + LATE_US - 1), TIMES).false == 0
    found = declared(HEARTBEAT, suspected(end + LATE_US), TIMES)
    assert (found.detected, found.false, found.false_ratio, found.delay_ms) == (0, 1, 1.0, None)


def test_suspicions_before_the_first_rise_or_after_the_last_pause_do_not_count() -> None:
    found = declared(HEARTBEAT, suspected(TIMES[0][0] - 1, TIMES[-1][0] + PERIOD_US), TIMES)
    assert (found.detected, found.right, found.false, found.false_ratio) == (0, 0, 0, 0.0)
    assert declared(HEARTBEAT, suspected(5), []) == Declared(HEARTBEAT, 0, 0, 0, None)


def test_the_load_is_told_apart_during_rises_and_between_them() -> None:
    timed = [Timing(at, 0.9 if at % PERIOD_US < ON_US else 0.3, None) for at in range(0, 5 * PERIOD_US, 50_000)]
    assert loads(timed, TIMES) == (0.9, 0.3)
    assert loads([], TIMES) == (0.0, 0.0)


def test_the_longest_silence_of_a_rise_is_that_of_any_worker_whose_heartbeat_came_late() -> None:
    begin, end = TIMES[0]
    heard = [(begin - 100_000, "a"), (begin, "b"), (begin + 50_000, "a"), (begin + 90_000, "b"), (end + LATE_US, "a")]
    seen = [Turn(at, ((worker, "1"),)) for at, worker in heard]
    assert silences(seen, TIMES[:2]) == [150.0, 0.0]


def test_values_are_kept_by_detector() -> None:
    found = values(
        Risen("90%", 10, 36.0, 0.9, 0.4, (Declared(HEARTBEAT, 9, 10, 2, 140.0),), tuple(map(float, range(1, 11))))
    )
    assert (found["silent_p50_ms"], found["silent_p90_ms"]) == (5.0, 9.0)
    assert (found["heartbeat_detected_ratio"], found["heartbeat_detection_ms"]) == (0.9, 140.0)
    assert found["heartbeat_false_ratio"] == pytest.approx(2 / 12)
    assert found["heartbeat_false_per_h"] == pytest.approx(50.0), "of each of four workers"
    none = values(Risen("90%", 10, 36.0, 0.9, 0.4, (Declared(BENCHMARK, 0, 0, 0, None),), (0.0,)))
    assert none["benchmark_detection_ms"] == NEVER_MS


def paper_s(**change: dict[str, float]) -> Data:
    """As the paper has it; change: by level, with its % left out."""
    found = {}
    for level, share in LEVELS.items():
        detected = {FIXED: 0.95 if share >= 0.9 else 0.2, HEARTBEAT: 0.5, BENCHMARK: 1.0}
        one = {"load": share, "rest": 0.4}
        for name, ratio in detected.items():
            one |= {f"{name}_detected_ratio": ratio, f"{name}_false_ratio": 0.2 if name == BENCHMARK else 0.02}
            one |= {f"{name}_false_per_h": 10.0, f"{name}_detection_ms": 144.0}
        found[level] = one | change.get(f"at_{level[:-1]}", {})
    return found


def test_detection_as_the_paper_has_it_is_reproduced() -> None:
    assert verdict(Z12.checks(paper_s())) is Verdict.REPRODUCED


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"at_95": {"fixed_detected_ratio": 0.6}}, Verdict.NOT),
        ({"at_60": {"fixed_detected_ratio": 0.9}}, Verdict.NOT),
        ({"at_60": {"benchmark_detected_ratio": 0.5}}, Verdict.NOT),
        ({"at_60": {"fixed_false_per_h": 120.0}}, Verdict.NOT),
        ({"at_60": {"fixed_false_per_h": 5.0}}, Verdict.IN_SHAPE),
        ({f"at_{level[:-1]}": {"fixed_false_ratio": 0.4} for level in LEVELS}, Verdict.NOT),
        ({"at_75": {"fixed_false_ratio": 0.15}}, Verdict.IN_SHAPE),
        ({"at_90": {"benchmark_false_ratio": 0.1}}, Verdict.IN_SHAPE),
        ({"at_90": {"fixed_detection_ms": 400.0}}, Verdict.IN_SHAPE),
        ({"at_75": {"rest": 0.8}}, Verdict.IN_SHAPE),
    ],
)
def test_a_difference_from_the_paper_is_found(change: dict[str, Any], found: Verdict) -> None:
    assert verdict(Z12.checks(paper_s(**change))) is found
