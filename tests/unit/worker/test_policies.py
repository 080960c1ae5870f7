"""When a unit captures under the default policy: the sweep, and the refresh between two sweeps."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from holdfast.services.worker.checkpoint.policies.catalogue import POLICIES
from holdfast.services.worker.checkpoint.policies.policy import Kind
from holdfast.services.worker.checkpoint.policies.refresh import (
    MAX_REPEATED,
    MIN_BATCHES,
    REFRESH_MS,
    REST_SWEEPS,
    Refresh,
)
from holdfast.services.worker.checkpoint.policies.sweep import Sweep
from holdfast.services.worker.checkpoint.scheduler import AGAIN_MS, HELD_MS, Scheduler

U = "job@1-abcdef/count-0"


@dataclass(frozen=True)
class Unit:
    """What a policy sees; the last sweep and the last capture were at 0. Implements UnitView."""

    policy: str = "sweep"
    batches: int = 3
    output_trimmed: bool = False
    sinkmost: bool = False
    ended: bool = False
    still: bool = False
    followed: bool = False
    changed: int = 10
    interval_ms: int = 500
    min_interval_ms: int = 100
    max_interval_ms: int = 10_000
    merge_ms: float = 5.0
    every_batches: int = 10
    batch: int = 3
    sparse: bool = False
    captured_batch: int = -1
    rests: bool = False
    leads: bool = True
    resting: bool = True
    capturing: bool = False
    confirmed: bool = True
    primary: str = "w1"
    backup: str = ""
    load: float = 0.0
    replay_ms: float = 0.0
    gain_ms: float = 0.0
    paste_ms: float = 0.0
    swept_ms: float = 0.0
    captured_ms: float = 0.0
    capture_ms: float = 0.0
    apply_ms: float = 0.0
    waiting: int = 0
    waiting_since_ms: float = math.inf
    data_wait: bool = False


@pytest.mark.parametrize(
    ("unit", "now_ms", "expected"),
    [
        (Unit(sinkmost=True), 600, True),
        (Unit(sinkmost=True), 400, False),
        (Unit(output_trimmed=True), 600, True),
        (Unit(), 600, False),
        (Unit(), 2000, True),
        (Unit(batches=0, sinkmost=True, ended=True), 9999, False),
        (Unit(ended=True), 1, True),
        (Unit(sinkmost=True, output_trimmed=True, still=True), 7999, False),
        (Unit(still=True), 8000, True),
        (Unit(still=True, ended=True), 1, True),
        (Unit(sinkmost=True, sparse=True), 1999, False),
        (Unit(output_trimmed=True, sparse=True), 2000, True),
        (Unit(sinkmost=True, sparse=True, ended=True), 1, True),
    ],
)
def test_the_sweep_begins_at_the_sinks_and_follows_the_trims(unit: Unit, now_ms: float, expected: bool) -> None:
    assert (Sweep().wait_ms(U, {U: unit}, now_ms) == 0) is expected


@pytest.mark.parametrize(
    ("unit", "now_ms"), [(Unit(), 600), (Unit(sinkmost=True), 400), (Unit(ended=True), 1), (Unit(batches=0), 600)]
)
def test_a_sweep_that_is_waited_for_is_due_then_and_not_before(unit: Unit, now_ms: float) -> None:
    wait_ms = Sweep().wait_ms(U, {U: unit}, now_ms)
    if wait_ms == math.inf:
        assert Sweep().wait_ms(U, {U: unit}, 1e9) == math.inf
        return
    assert Sweep().wait_ms(U, {U: unit}, now_ms + wait_ms) == 0
    assert wait_ms == 0 or Sweep().wait_ms(U, {U: unit}, now_ms + wait_ms - 1) == 1


@pytest.mark.parametrize("policy", sorted(POLICIES.keys() - {"aligned"}))
def test_a_unit_captures_at_once_where_a_paused_job_rests_and_not_again(policy: str) -> None:
    scheduler = Scheduler()
    for unit, kind in (
        (Unit(policy, rests=True, still=True), Kind.SWEEP),
        (Unit(policy, rests=True, batches=0), None),
        (Unit(policy, still=True), None),
    ):
        scheduler.join(U, unit)
        assert scheduler.capture(U, 1) is kind


def test_under_aligned_a_pause_makes_no_capture_of_another_batch() -> None:
    scheduler = Scheduler()
    scheduler.join(U, Unit("aligned", rests=True))
    assert scheduler.capture(U, 1) is None


def test_only_a_unit_with_a_standby_is_refreshed() -> None:
    alone, followed = Unit(batches=MIN_BATCHES), Unit(batches=MIN_BATCHES, followed=True)
    assert Refresh().wait_ms(U, {U: alone}, REFRESH_MS) == math.inf
    assert Refresh().wait_ms(U, {U: followed}, REFRESH_MS - 40) == 40
    assert Refresh().wait_ms(U, {U: followed}, REFRESH_MS) == 0


def test_a_unit_that_comes_back_is_refreshed_as_if_it_had_never_been_here() -> None:
    policy, unit = Refresh(), Unit(batches=MIN_BATCHES, followed=True)
    keys = {b"%d" % number for number in range(int(REST_SWEEPS / MAX_REPEATED))}
    for _ in range(2):
        policy.captured(U, keys, Kind.REFRESH)
    assert policy.wait_ms(U, {U: unit}, REFRESH_MS) == math.inf
    policy.forget(U)
    assert policy.wait_ms(U, {U: unit}, REFRESH_MS) == 0


def test_a_sweep_is_done_if_a_refresh_is_due_too() -> None:
    scheduler = Scheduler()
    scheduler.join(U, Unit(batches=MIN_BATCHES, followed=True, sinkmost=True))
    assert scheduler.capture(U, REFRESH_MS - 1) is None
    assert scheduler.wait_ms(U, REFRESH_MS - 1) == 1
    assert scheduler.capture(U, REFRESH_MS) is Kind.REFRESH
    assert scheduler.capture(U, 500) is Kind.SWEEP


def test_captures_wait_while_another_copy_takes_over_for_a_second_in_three() -> None:
    scheduler, unit = Scheduler(), Unit(batches=MIN_BATCHES, followed=True, sinkmost=True)
    scheduler.join(U, unit)
    scheduler.hold(600)
    assert scheduler.capture(U, 600) is None
    assert scheduler.wait_ms(U, 600) == HELD_MS
    scheduler.hold(1_000)
    assert scheduler.wait_ms(U, 1_000) == HELD_MS - 400, "takeovers that follow each other hold for no longer"
    assert scheduler.capture(U, 600 + HELD_MS) is Kind.SWEEP
    scheduler.hold(600 + AGAIN_MS)
    assert scheduler.capture(U, 600 + AGAIN_MS) is None


@pytest.mark.parametrize("unit", [Unit(ended=True), Unit(rests=True), Unit(policy="individual")])
def test_a_unit_that_comes_to_rest_or_has_a_policy_of_its_own_captures_beside_a_takeover(unit: Unit) -> None:
    scheduler = Scheduler()
    scheduler.join(U, unit)
    scheduler.hold(600)
    assert scheduler.capture(U, 600) is not None
