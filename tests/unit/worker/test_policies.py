"""When a unit captures: the policies of today, and that others fit the same interface."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import pytest

from services.worker.checkpoint.policies.policy import Kind, Policy, Sight
from services.worker.checkpoint.policies.refresh import MAX_REPEATED, MIN_BATCHES, REFRESH_MS, REST_SWEEPS, Refresh
from services.worker.checkpoint.policies.sweep import Sweep
from services.worker.checkpoint.scheduler import Scheduler

U = "job@1-abcdef/count-0"


@dataclass(frozen=True)
class Unit:
    """What a policy sees; the last sweep and the last capture were at 0. Implements Sight."""

    batches: int = 3
    output_trimmed: bool = False
    sinkmost: bool = False
    ended: bool = False
    still: bool = False
    followed: bool = False
    changed: int = 10
    interval_ms: int = 500
    swept_ms: float = 0.0
    captured_ms: float = 0.0
    capture_ms: float = 0.0
    apply_ms: float = 0.0
    processed_ms: float = 0.0
    waiting: int = 0
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


def test_of_a_sweep_and_a_refresh_that_are_both_due_the_sweep_is_done() -> None:
    scheduler = Scheduler()
    scheduler.join(U, Unit(batches=MIN_BATCHES, followed=True, sinkmost=True))
    assert scheduler.capture(U, REFRESH_MS - 1) is None
    assert scheduler.wait_ms(U, REFRESH_MS - 1) == 1
    assert scheduler.capture(U, REFRESH_MS) is Kind.REFRESH
    assert scheduler.capture(U, 500) is Kind.SWEEP


class RoundRobin:
    """A policy over all units of a worker (MECHANISMS C3): while no data wait, the one whose last capture is oldest
    captures, and none applies while one of them has something to capture. Implements Policy.
    """

    kind = Kind.SWEEP

    def wait_ms(self, unit: str, units: Mapping[str, Sight], now_ms: float) -> float:
        if any(one.data_wait for one in units.values()):
            return 2.0
        candidates = [name for name, one in units.items() if one.batches]
        chosen = min(candidates, key=lambda name: units[name].captured_ms, default=None)
        return 0.0 if chosen == unit else 2.0

    def applies(self, unit: str, units: Mapping[str, Sight], now_ms: float) -> bool:
        return not any(one.batches for one in units.values())

    def captured(self, unit: str, keys: Collection[bytes], kind: Kind) -> None:
        """The times that count are the units' own."""

    def forget(self, unit: str) -> None:
        """Nothing is remembered."""


def test_a_policy_that_chooses_among_the_units_of_a_worker_is_one_like_any_other() -> None:
    policy: Policy = RoundRobin()
    scheduler = Scheduler([policy])
    units = {name: Unit(captured_ms=at) for name, at in (("a", 30.0), ("b", 10.0), ("c", 20.0))}

    def chosen() -> list[str]:
        for name, unit in units.items():
            scheduler.join(name, unit)
        return [name for name in units if scheduler.capture(name, 40) is not None]

    assert chosen() == ["b"]
    units["b"] = replace(units["b"], captured_ms=40.0)
    assert chosen() == ["c"]
    assert not scheduler.applies("a", 40)
    units["a"] = replace(units["a"], data_wait=True)
    assert chosen() == []
    scheduler.leave("c")
    del units["c"]
    units["a"] = replace(units["a"], data_wait=False)
    assert chosen() == ["a"]
