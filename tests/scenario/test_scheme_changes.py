"""Each of the 8 x 8 changes of scheme at run time, decided by the recovery, done by copies, under load: exact results.

MECHANISMS A1. The order of flags in each change is held by tests/unit/recovery/test_schemes.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise

import pytest

from holdfast.services.recovery.core.unit.facts.schemes import SCHEMES
from tests.support.driven_cluster import DrivenCluster
from tests.support.orders import JOB, Order, check, orders

pytestmark = [pytest.mark.slow]
CHAIN = JOB + "placement: {units: [[orders], [large], [big]]}\n"
FAST = CHAIN + "fault_tolerance: {default: {scheme: none}, checkpoint: {interval_ms: 50}}\n"
CHANGES = len(SCHEMES) * (len(SCHEMES) - 1)


def circuit(chance: random.Random) -> list[str]:
    """A way that makes every change once and ends where it began (Hierholzer)."""
    left = {before: [after for after in SCHEMES if after != before] for before in SCHEMES}
    for some in left.values():
        chance.shuffle(some)
    way, found = ["none"], []
    while way:
        if left[way[-1]]:
            way.append(left[way[-1]].pop())
        else:
            found.append(way.pop())
    return found[::-1]


def test_a_circuit_makes_every_change_once() -> None:
    way = circuit(random.Random(1))
    steps = list(pairwise(way))
    assert len(steps) == len(set(steps)) == CHANGES
    assert (way[0], way[-1]) == ("none", "none")
    for number in (1, 3, 5):
        assert [step for part in stretches(way, number) for step in pairwise(part)] == steps


class Load:
    """Orders that come a few at a time. fed: those so far."""

    def __init__(self, cluster: DrivenCluster, seed: int = 0) -> None:
        self._cluster, self._orders = cluster, orders(40_000, seed)
        self._number = 0

    def __call__(self) -> None:
        for partition in (0, 1):
            self._cluster.feed("orders", [self._orders[self._number + partition]], partition)
        self._number += 2

    @property
    def fed(self) -> list[Order]:
        return self._orders[: self._number]


def settled(cluster: DrivenCluster, wanted: dict[str, str]) -> bool:
    return all(cluster.change(unit).scheme == scheme for unit, scheme in wanted.items()) and cluster.protected()


def stretches(way: list[str], number: int) -> list[list[str]]:
    """The circuit in so many parts of one length, each from where the former ends."""
    length = -(-CHANGES // number)
    return [way[first : first + length + 1] for first in range(0, CHANGES, length)]


def walk(cluster: DrivenCluster, load: Load, strike: Callable[[], None]) -> None:
    """Each unit walks its part of the circuit, so neighbours are under different schemes most of the time."""
    parts = dict(zip(cluster.units, stretches(circuit(random.Random(0)), len(cluster.units)), strict=True))
    for number in range(max(map(len, parts.values()))):
        wanted = {unit: part[min(number, len(part) - 1)] for unit, part in parts.items()}
        for unit, scheme in wanted.items():
            cluster.ask(unit, scheme)
        strike()
        cluster.under_load(load, lambda wanted=wanted: settled(cluster, wanted), str(wanted))  # type: ignore[misc]
    cluster.run_to_end()
    check(cluster.rows, load.fed)


def test_every_scheme_changes_to_every_other_under_load_and_the_results_are_exact() -> None:
    cluster = DrivenCluster(FAST)
    walk(cluster, Load(cluster), lambda: None)


def test_every_change_is_completed_and_exact_when_a_worker_fails_in_the_middle_of_it() -> None:
    """Frozen for a while, or killed and started again, some turns after all units were asked to change."""
    cluster, chance = DrivenCluster(FAST), random.Random(7)
    load = Load(cluster)

    def turns(most: int) -> None:
        ends_ms = cluster.now_ms + chance.randrange(1, most)
        cluster.under_load(load, lambda: cluster.now_ms >= ends_ms, "time passes")

    def strike() -> None:
        turns(150)
        name = chance.choice(sorted(cluster.workers))
        if chance.random() < 0.5:
            cluster.freeze(name)
            turns(300)
            cluster.thaw(name)
        else:
            cluster.kill(name, notice=chance.random() < 0.5)
            turns(300)
            cluster.start(name)

    walk(cluster, load, strike)
