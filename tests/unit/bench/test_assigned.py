"""Figure W10: curves as the paper has them are reproduced, curves that differ in one claim are not."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from bench.research.papers.figure import Data, Values, Verdict, verdict
from bench.research.papers.w10 import DYNAMIC, MINMAX, ROBIN, SEEDS, STATIC, W10, WORKERS, Line, _key

PAPER: Mapping[Line, float] = {
    (ROBIN, STATIC): 1_000.0,
    (MINMAX, STATIC): 740.0,
    (ROBIN, DYNAMIC): 500.0,
    (MINMAX, DYNAMIC): 240.0,
}
"""From nine workers on."""


def curves(worst: Mapping[Line, float] = PAPER, mean: Mapping[Line, float] = PAPER, rising: float = 0.0) -> Data:
    """With fewer than nine workers a unit takes longer, as backups hold several. rising: past nine, for each worker."""
    found: dict[str, Values] = {}
    for line in worst:
        for workers in WORKERS:
            factor = max(1.0, 9 / workers) * (1 + rising * max(0, workers - 9))
            one = {"worst_ms": worst[line] * factor * 1.5, "mean_ms": mean[line] * factor, "moves": 0.0}
            found |= {_key(*line, workers, seed): one for seed in SEEDS}
    return found


def test_curves_as_the_paper_has_them_are_reproduced() -> None:
    assert verdict(W10.checks(curves())) is Verdict.REPRODUCED


@pytest.mark.parametrize(
    ("line", "ms", "found"),
    [
        ((ROBIN, DYNAMIC), 1_100.0, Verdict.NOT),  # reassigning makes it worse
        ((MINMAX, DYNAMIC), 800.0, Verdict.NOT),
        ((MINMAX, STATIC), 1_100.0, Verdict.NOT),  # min-max is the worse policy
        ((ROBIN, DYNAMIC), 700.0, Verdict.IN_SHAPE),  # too near to static ones
        ((MINMAX, STATIC), 900.0, Verdict.IN_SHAPE),
        ((MINMAX, DYNAMIC), 400.0, Verdict.IN_SHAPE),
    ],
)
def test_a_curve_that_lies_elsewhere_is_found(line: Line, ms: float, found: Verdict) -> None:
    changed = {**PAPER, line: ms}
    assert verdict(W10.checks(curves(changed, changed))) is found


def test_the_worst_worker_is_judged_as_well_as_the_mean() -> None:
    assert verdict(W10.checks(curves(worst={**PAPER, (MINMAX, STATIC): 1_200.0}))) is Verdict.IN_SHAPE
    assert verdict(W10.checks(curves(mean={**PAPER, (MINMAX, STATIC): 900.0}))) is Verdict.IN_SHAPE


def test_a_time_that_continues_to_rise_past_nine_workers_is_not_reproduced() -> None:
    assert verdict(W10.checks(curves(rising=0.1))) is Verdict.NOT
