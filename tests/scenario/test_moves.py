"""Units move under load, by request, when a worker leaves and for balance: exact results, whatever fails on the way."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from holdfast.services.recovery.core.unit.facts.schemes import SCHEMES
from holdfast.services.recovery.core.unit.facts.stance import Stance, stance
from tests.scenario.test_scheme_changes import CHAIN, Load
from tests.support.driven_cluster import DrivenCluster
from tests.support.orders import check

pytestmark = [pytest.mark.slow]

STRIKES = ("primary dies", "primary freezes", "new copy dies", "new copy freezes", "both die", "scheme", "new replica")
STRUCK = ("none", "hybrid", "active-standby")
APART = ("none", "hybrid", "active-replication")
"""Without a secondary, with one that waits, with two that work: a move under any other scheme is as under one of these.
"""


def job(scheme: str) -> str:
    return CHAIN + f"fault_tolerance: {{default: {{scheme: {scheme}}}, checkpoint: {{interval_ms: 50}}}}\n"


def finish(cluster: DrivenCluster, load: Load) -> None:
    cluster.under_load(load, cluster.protected, "protected again")
    cluster.run_to_end()
    check(cluster.rows, load.fed)


@pytest.mark.parametrize(
    "scheme", [pytest.param(one, marks=() if one in APART else pytest.mark.long) for one in SCHEMES]
)
def test_units_of_every_scheme_move_round_and_round_and_the_results_are_exact(scheme: str) -> None:
    cluster = DrivenCluster(job(scheme), delivery_turns=3)
    load = Load(cluster)
    for step in (1, 2, 1):
        for unit in cluster.units:
            to = f"w{(int(cluster.leader_of(unit)[1]) - 1 + step) % 3 + 1}"
            cluster.move(unit, to)
            cluster.under_load(load, lambda unit=unit, to=to: cluster.leader_of(unit) == to, f"{unit} on {to}")  # type: ignore[misc]
    finish(cluster, load)


@pytest.mark.parametrize(
    ("scheme", "strike"),
    [
        pytest.param(scheme, strike, marks=() if (row + column) % len(STRUCK) == 0 else pytest.mark.long)
        for row, scheme in enumerate(STRUCK)
        for column, strike in enumerate(STRIKES)
    ],
)
def test_results_are_exact_whatever_fails_while_units_move(scheme: str, strike: str) -> None:
    """In a state that lasts for a few turns: the fault comes so many after the first record of the move.

    One move for each pair, of which each run has every strike under one scheme; the simulation draws many more under
    its profile "moves".
    """
    cluster, chance = DrivenCluster(job(scheme), workers=4, delivery_turns=2), random.Random(f"{strike}{scheme}0")
    load = Load(cluster)
    unit = chance.choice(cluster.units)
    to = chance.choice([name for name in sorted(cluster.workers) if name != cluster.leader_of(unit)])
    cluster.move(unit, to)
    cluster.under_load(load, lambda: stance(cluster.change(unit)) is Stance.MOVING, "it moves")
    cluster.turn(chance.randrange(0, 40))
    former = cluster.leader_of(unit)
    hit = {"primary": [former], "new": [to], "both": [former, to]}.get(strike.partition(" ")[0], [])
    for name in {one for one in hit if one in cluster.workers}:
        if strike.endswith("freezes"):
            cluster.freeze(name)
        else:
            cluster.kill(name)
    if strike == "scheme":
        cluster.ask(unit, chance.choice(list(SCHEMES)))
    elif strike == "new replica":
        cluster.start_replica(f"another-{cluster.now_ms}")
    ends_ms = cluster.now_ms + chance.randrange(20, 400)
    cluster.under_load(load, lambda: cluster.now_ms >= ends_ms, "time passes")
    for name in list(cluster.frozen):
        cluster.thaw(name)
    for name in {"w1", "w2", "w3", "w4"} - cluster.workers.keys():
        cluster.start(name)
    cluster.under_load(load, cluster.protected, "protected again")
    finish(cluster, load)


@pytest.mark.parametrize("scheme", ["none", pytest.param("passive-hot", marks=pytest.mark.long), "hybrid"])
def test_workers_leave_one_after_the_other_and_the_results_are_exact(scheme: str) -> None:
    cluster = DrivenCluster(job(scheme), delivery_turns=2)
    load = Load(cluster)
    for name in ("w1", "w2", "w3", "w1"):
        worker = cluster.workers[name]
        worker.leaving = True
        cluster.under_load(load, lambda worker=worker: not worker.leads, f"{name} leads nothing")  # type: ignore[misc]
        assert all(cluster.leader_of(unit) != name for unit in cluster.units)
        cluster.kill(name)
        cluster.under_load(load, cluster.protected, "protected again")
        cluster.start(name)
        ends_ms = cluster.now_ms + 50
        cluster.under_load(load, lambda ends_ms=ends_ms: cluster.now_ms >= ends_ms, "it is heard")  # type: ignore[misc]
    finish(cluster, load)


@pytest.mark.parametrize("scheme", ["none", "hybrid"])
def test_units_on_one_worker_are_shared_out_under_load_and_the_results_are_exact(scheme: str) -> None:
    cluster = DrivenCluster(job(scheme), calm_ms=200, together=True, delivery_turns=2)
    load = Load(cluster)

    def share() -> list[int]:
        return sorted(Counter(cluster.leader_of(unit) for unit in cluster.units).values())

    assert share() == [len(cluster.units)] == [10]
    cluster.under_load(load, lambda: share() == [3, 3, 4], "each has its share")
    finish(cluster, load)
