"""The model of expected recovery (MECHANISMS C5), with the costs of the paper's three units."""

from __future__ import annotations

import math

import pytest

from holdfast.services.kernel.protection.expected import (
    Protected,
    of_groups,
    of_unit,
    of_workers,
    reduced_by_capture,
)
from tests.support.idle_timeline import burst_ms

U1 = Protected("S1", "S2", 0.11, replay_ms=440.0, gain_ms=440.0, capture_ms=125.0, paste_ms=125.0)
U2 = Protected("S1", "S2", 0.10, replay_ms=400.0, gain_ms=400.0, capture_ms=250.0, paste_ms=250.0)
U3 = Protected("S1", "S3", 0.665, replay_ms=665.0, gain_ms=665.0, capture_ms=125.0, paste_ms=125.0)
LOAD = U1.load + U2.load + U3.load


@pytest.mark.parametrize(("unit", "expected"), [(U1, 875.0), (U2, 1750.0), (U3, 875.0)])
def test_the_burst_after_a_capture_is_that_of_the_paper(unit: Protected, expected: float) -> None:
    assert burst_ms(unit.capture_ms, LOAD) == pytest.approx(expected)


def test_a_worker_at_full_load_never_ends_its_burst() -> None:
    assert burst_ms(1.0, 1.0) == burst_ms(1.0, 1.2) == math.inf


def test_a_unit_repeats_what_came_since_the_capture_that_was_delivered_and_first_pastes_what_waits() -> None:
    before = Protected("S1", "S2", 0.10, replay_ms=425.0, gain_ms=25.0, capture_ms=250.0, paste_ms=250.0)
    after = Protected("S1", "S2", 0.10, replay_ms=25.0, gain_ms=25.0, capture_ms=250.0, paste_ms=250.0, waiting=1)
    assert of_unit(before) == pytest.approx(425.0)
    assert of_unit(after) == pytest.approx(275.0)
    assert of_unit(after, after_ms=100.0) == pytest.approx(285.0)


def test_a_group_recovers_one_unit_after_the_other_and_a_worker_as_slowly_as_its_slowest_group() -> None:
    groups = of_groups([U1, U2, U3], after_ms=125.0)
    assert groups == pytest.approx({("S1", "S2"): 840.0 + 0.21 * 125, ("S1", "S3"): 665.0 + 0.665 * 125})
    assert of_workers(groups) == pytest.approx({"S1": 866.25})
    assert of_workers(of_groups([])) == {}


def test_a_capture_saves_what_it_takes_in_less_its_paste() -> None:
    assert [reduced_by_capture(unit) for unit in (U1, U2, U3)] == pytest.approx([315.0, 150.0, 540.0])
    fresh = Protected("S1", "S3", 0.665, replay_ms=0.0, gain_ms=0.0, capture_ms=125.0, paste_ms=125.0)
    assert reduced_by_capture(fresh) == -125.0
