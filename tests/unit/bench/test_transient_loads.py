"""Figures Z4 and Z5: data as the paper has them are reproduced, data that differ in one claim are not."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from bench.model.chain import passed
from bench.research.papers import z4
from bench.research.papers.figure import Data, Verdict, verdict
from bench.research.papers.z4 import (
    ACTIVE,
    HYBRID,
    NONE,
    PASSIVE,
    REFRESHED,
    SCHEMES,
    SEEDS,
    SHARED,
    SHARED_SHARES,
    SHARES,
    SHARINGS,
    UNLOADED_MS,
    Z4,
    Z5,
)

Line = tuple[float, float]
"""At the first point, and at the last; a straight line between."""
PAPER: Mapping[str, Line] = {
    ACTIVE: (90, 95),
    HYBRID: (110, 120),
    REFRESHED: (105, 115),
    NONE: (130, 400),
    PASSIVE: (160, 480),
}


def alone(lines: Mapping[str, Line] = PAPER, loaded_ms: float = 9 * UNLOADED_MS) -> Data:
    found = {}
    for line in SCHEMES:
        first, last = lines[line]
        for share in SHARES:
            delay_ms = first + (last - first) * (share - SHARES[0]) / (SHARES[-1] - SHARES[0])
            for seed in SEEDS:
                found[z4._key(line, share, seed)] = {"delay_ms": delay_ms + seed, "loaded_ms": loaded_ms}
    return found


def sharing(more: Mapping[float, float]) -> Data:
    """more: of the shared machine over dedicated ones, by share of the time."""
    dedicated = {share: 100 + 100 * share for share in SHARED_SHARES}
    return {
        z4._key(line, share, seed): {"delay_ms": ms * (1 + (more[share] if line == SHARED else 0.0))}
        for line in SHARINGS
        for share, ms in dedicated.items()
        for seed in SEEDS
    }


def test_both_figures_have_eight_seeds_at_each_point() -> None:
    assert len(set(SEEDS)) == 8
    assert len(Z4.keys) == len(SCHEMES) * len(SHARES) * 8
    assert len(Z5.keys) == len(SHARINGS) * len(SHARED_SHARES) * 8


def test_delays_as_the_paper_has_them_are_reproduced() -> None:
    assert verdict(Z4.checks(alone())) is Verdict.REPRODUCED


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({ACTIVE: (120, 130)}, Verdict.NOT),  # not the lowest
        ({HYBRID: (170, 410)}, Verdict.NOT),  # above none
        ({PASSIVE: (100, 200)}, Verdict.NOT),  # below none
        ({NONE: (130, 150)}, Verdict.NOT),  # does not rise
        ({HYBRID: (120, 405)}, Verdict.NOT),  # above none at the last point
        ({ACTIVE: (50, 95)}, Verdict.IN_SHAPE),  # not flat
        ({ACTIVE: (60, 65)}, Verdict.IN_SHAPE),  # far below hybrid
        ({HYBRID: (110, 250)}, Verdict.IN_SHAPE),  # not flat
    ],
)
def test_a_line_that_lies_elsewhere_is_found(change: Mapping[str, Line], found: Verdict) -> None:
    assert verdict(Z4.checks(alone({**PAPER, **change}))) is found


def test_units_behind_a_late_one_hand_its_batches_on_one_by_one() -> None:
    late = [10.0, 100.0, 100.0, 100.0, 120.0]
    assert passed(late) == pytest.approx([16.0, 106.0, 112.0, 118.0, 126.0])
    assert passed(late, 2) == pytest.approx([22.0, 112.0, 118.0, 124.0, 132.0])


def test_a_load_that_hardly_delays_a_unit_is_not_the_paper_s() -> None:
    assert verdict(Z4.checks(alone(loaded_ms=4 * UNLOADED_MS))) is Verdict.IN_SHAPE


MORE = dict(zip(SHARED_SHARES, (0.0, 0.05, 0.1, 0.2, 0.5, 0.8), strict=True))


def test_a_shared_machine_that_suffices_up_to_a_fifth_of_the_time_is_reproduced() -> None:
    assert verdict(Z5.checks(sharing(MORE))) is Verdict.REPRODUCED


@pytest.mark.parametrize(
    ("share", "more", "found"),
    [(0.15, 0.3, Verdict.NOT), (0.30, 0.1, Verdict.IN_SHAPE), (0.30, 1.5, Verdict.IN_SHAPE)],
)
def test_a_shared_machine_that_suffices_sooner_or_later_is_found(share: float, more: float, found: Verdict) -> None:
    assert verdict(Z5.checks(sharing({**MORE, share: more}))) is found
