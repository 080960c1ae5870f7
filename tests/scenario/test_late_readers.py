"""Processes that start late begin to read `assignments` at a snapshot: what lies below it may be gone."""

from __future__ import annotations

import itertools

from holdfast.schemas import assignments, events
from holdfast.schemas.assignments import Snapshot
from holdfast.schemas.topics import Partition
from holdfast.services.controller.conductor import Conductor
from holdfast.services.controller.core.controller import Controller
from holdfast.services.controller.effects import Means
from holdfast.services.controller.polled_conductor import PolledConductor
from tests.scenario.test_failures import CHAIN, FAULTS
from tests.support.driven_cluster import BEAT_MS, DrivenCluster
from tests.support.memory_cluster import VERSIONS
from tests.support.orders import Order, check, orders


def test_worker_recovery_and_controller_start_above_a_log_that_was_trimmed_to_a_snapshot() -> None:
    cluster = DrivenCluster(CHAIN + FAULTS.replace("SCHEME", "hybrid"), replicas=1)
    where = Partition(cluster.cluster.assignments, 0)
    waiting, fed = iter(orders(20_000)), list[Order]()

    def load() -> None:
        for partition, order in enumerate(itertools.islice(waiting, 2)):
            cluster.feed("orders", [order], partition)
            fed.append(order)

    def snapshots() -> list[Snapshot]:
        records = [assignments.decode(message.value() or b"") for message in cluster.log.scan(where)]
        return [record.snapshot for record in records if record.snapshot is not None]

    def strike() -> None:
        """Each worker in turn, and it comes back."""
        name = next(names)
        cluster.kill(name)
        cluster.start(name)
        cluster.turn(BEAT_MS)
        cluster.under_load(load, cluster.protected, f"all is well after {name} was killed")

    names = itertools.cycle(sorted(cluster.workers))
    for _ in range(5):
        strike()
    assert len(snapshots()) >= 2
    cluster.log.trim({where: snapshots()[-2].upto})

    before = {unit: cluster.change(unit) for unit in cluster.units}
    cluster.replicas.clear()  # it is gone, and another one knows only what is left
    cluster.start_replica("r2")
    cluster.turn(5)
    assert {unit: cluster.change(unit) for unit in cluster.units} == before
    core = Controller("late")
    conductor = Conductor(cluster.log, cluster.cluster, core, lambda: cluster.now_ms, Means(VERSIONS))
    PolledConductor(conductor, cluster.log, lambda: cluster.now_ms)
    assert core.goals.standings.assigned.units() == cluster.replicas["r2"].replica.core.known.assigned.units()
    for _ in range(2):
        strike()
    cluster.run_to_end()
    check(cluster.rows, fed)
    told = cluster.log.scan(Partition(cluster.cluster.events, 0))
    assert "snapshot-differs" not in {events.decode(message.value() or b"").kind for message in told}
