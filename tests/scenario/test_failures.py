"""What happens when it fails: each row of PROTOCOL 13's table that needs no third broker, decided and done in memory.

| fails | who notices | here, or where |
|---|---|---|
| worker killed | exit notice, else heartbeat | test_a_worker_is_killed |
| worker starved or frozen, then back | heartbeat | test_a_worker_is_frozen_and_comes_back |
| network to the broker | heartbeat | test_a_worker_that_nobody_hears, tests/integration/test_cut_off.py |
| backup worker | heartbeat | test_the_backup_is_killed_and_another_takes_its_place |
| primary and backup together | heartbeat | test_primary_and_backup_are_killed_together |
| all workers | heartbeat | test_all_workers_are_killed_and_come_back |
| recovery replica | the others | test_a_replica_is_killed_and_started_late |
| controller | the others | tests/unit/controller/test_replicas.py, tests/integration/test_controller.py |
| the only broker restarts | clients | test_the_broker_hangs, tests/integration/struck/test_failover.py |
| disk of a worker | worker | tests/scenario/test_standby.py: an image is rebuilt from the checkpoint log alone |
| user operator raises | worker | tests/unit/operators/test_python.py |

Every one of these tests ends with the results of one piece.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tests.support.driven_cluster import BEAT_MS, DrivenCluster
from tests.support.orders import JOB, Order, check, orders

CHAIN = JOB + "placement: {units: [[orders], [large], [big]]}\n"
FAULTS = "fault_tolerance: {default: {scheme: SCHEME}, fail_stop_timeout_s: 1, checkpoint: {interval_ms: 50}}\n"
SCHEMES = ("none", "passive", "hybrid", "active-replication")
"""Restarted where it was, placed again, switched and rolled back, both at work; the others are between these."""
BETWEEN = ("passive", "active-replication")
"""What differs in them is held by the other faults. Simulated histories have every fault under every scheme."""


class Run:
    """A job under load on a cluster of three workers; `end` checks every row."""

    def __init__(self, scheme: str = "hybrid", replicas: int = 1) -> None:
        self.cluster = DrivenCluster(CHAIN + FAULTS.replace("SCHEME", scheme), replicas=replicas)
        self._orders = iter(orders(20_000))
        self.fed: list[Order] = []
        self.run_turns(100)

    def load(self) -> None:
        for partition, order in enumerate(itertools.islice(self._orders, 2)):
            self.cluster.feed("orders", [order], partition)
            self.fed.append(order)

    def run_turns(self, turns: int) -> None:
        ends_ms = self.cluster.now_ms + turns
        self.until(lambda: self.cluster.now_ms >= ends_ms, "time passes")

    def until(self, condition: Callable[[], bool], what: str) -> None:
        self.cluster.under_load(self.load, condition, what)

    def protected(self) -> None:
        self.until(self.cluster.protected, "every unit is protected again")

    def end(self) -> None:
        self.protected()
        self.cluster.run_to_end()
        check(self.cluster.rows, self.fed)

    def pair(self, number: int = 0) -> list[str]:
        """The workers of a unit's copies, the primary first."""
        return [copy.worker for copy in self.cluster.change(self.cluster.units[number]).copies]


@pytest.mark.parametrize("notice", [True, False], ids=["with a notice", "by heartbeats alone"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_worker_is_killed(scheme: str, notice: bool) -> None:
    run = Run(scheme)
    run.cluster.kill("w1", notice)
    run.run_turns(200)
    run.cluster.start("w1")
    run.end()


@pytest.mark.parametrize(
    ("scheme", "frozen_ms"),
    [
        pytest.param(scheme, ms, marks=() if scheme == "hybrid" or ms == 2_500 else pytest.mark.long)
        for scheme in SCHEMES
        for ms in (150, 500, 2_500)
    ],
)
def test_a_worker_is_frozen_and_comes_back(scheme: str, frozen_ms: int) -> None:
    """The longest one is taken for dead meanwhile: it comes back as a zombie."""
    run = Run(scheme)
    run.cluster.freeze("w1")
    run.run_turns(frozen_ms)
    run.cluster.thaw("w1")
    run.end()


@pytest.mark.parametrize(
    "scheme", [pytest.param(one, marks=pytest.mark.long if one in BETWEEN else ()) for one in SCHEMES]
)
def test_a_worker_that_nobody_hears(scheme: str) -> None:
    """It reads, cuts, checkpoints and commits as far as it can; only its heartbeats are lost."""
    run = Run(scheme)
    run.cluster.unheard.add("w1")
    run.run_turns(2_000)
    run.cluster.unheard.clear()
    run.end()


def test_the_backup_is_killed_and_another_takes_its_place() -> None:
    run = Run()
    primary, backup = run.pair()
    run.cluster.kill(backup)
    run.until(lambda: len(run.pair()) == 2 and backup not in run.pair(), "there is another backup")
    assert run.pair()[0] == primary
    run.protected()
    run.cluster.start(backup)
    run.end()


@pytest.mark.parametrize("scheme", ["hybrid", pytest.param("active-replication", marks=pytest.mark.long)])
def test_primary_and_backup_are_killed_together(scheme: str) -> None:
    run = Run(scheme)
    both = run.pair()
    for name in both:
        run.cluster.kill(name)
    run.until(lambda: not set(run.pair()) & set(both), "it is placed on the third from the checkpoint log")
    run.run_turns(100)
    run.cluster.start(both[0])
    run.end()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_all_workers_are_killed_and_come_back(scheme: str) -> None:
    run = Run(scheme)
    for name in ("w1", "w2", "w3"):
        run.cluster.kill(name, notice=False)
    run.run_turns(300)
    for name in ("w3", "w1", "w2"):
        run.cluster.start(name)
        run.run_turns(150)
    run.end()


@pytest.mark.parametrize("turns", [30, *(pytest.param(one, marks=pytest.mark.long) for one in (0, 60, 90))])
def test_a_replica_is_killed_and_started_late(turns: int) -> None:
    """In the middle of a switch; the one that starts late makes the next one alone."""
    run = Run(replicas=2)
    run.cluster.freeze("w1")
    run.run_turns(turns + 1)
    del run.cluster.replicas["r1"]
    run.run_turns(200)
    run.cluster.thaw("w1")
    run.protected()
    run.cluster.start_replica("r3")
    run.run_turns(3 * BEAT_MS)
    stories = {name: hosted.replica.core.known.assigned.units() for name, hosted in run.cluster.replicas.items()}
    assert stories["r2"] == stories["r3"]
    del run.cluster.replicas["r2"]
    run.cluster.kill("w1")
    run.run_turns(200)
    run.cluster.start("w1")
    run.end()


def test_the_broker_hangs() -> None:
    """Nobody reads or writes for a while: nobody is taken for dead."""
    run = Run()
    before = {unit: run.cluster.change(unit) for unit in run.cluster.units}
    run.cluster.now_ms += 3_000
    run.run_turns(500)
    assert {unit: run.cluster.change(unit) for unit in run.cluster.units} == before
    run.end()
