"""Faults between processes and Kafka: links, leaders, and records that come again."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from holdfast.schemas import assignments
from holdfast.schemas.assignments import Assignment, split_job_key
from holdfast.schemas.outages import Outage
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.assigned import Assigned
from tests.simulation.faults import strangers
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.hosts import during, set_mute
from tests.simulation.kafka.names import TOPICS, kind_of
from tests.simulation.processes.cluster import Cluster
from tests.simulation.processes.feeds import draw_growth
from tests.simulation.processes.hosts import WorkerProcess
from tests.simulation.processes.services import Process

UNRETURNED_MS = 6_000


def lag(cluster: Cluster, fault: Fault) -> None:
    """detail: a kind of topic whose records wait, and which way: "in" those read, "out" those appended."""
    kind, way = fault.detail.split(" ")
    during(lambda p: p.link.lagging.add((kind, way)), lambda p: p.link.catch_up(kind, way))(cluster, fault)


def cut(cluster: Cluster, fault: Fault) -> None:
    """detail: both, out (what it sends is lost) or in (what it asks for is)."""
    sends, hears = fault.detail == "in", fault.detail == "out"
    during(lambda p: p.link.cut(sends, hears), lambda p: p.link.cut(True, True))(cluster, fault)


def outage(cluster: Cluster, fault: Fault) -> None:
    cluster.set_available(False)
    cluster.timeline.after(fault.ms * 1000, lambda: cluster.set_available(True))


def unreturned(cluster: Cluster, fault: Fault) -> None:
    """The broker is away, and the targets are not heard until UNRETURNED_MS after it is back."""
    outage(cluster, fault)
    during(set_mute(True), set_mute(False))(cluster, replace(fault, ms=fault.ms + UNRETURNED_MS))


def stale(cluster: Cluster, fault: Fault) -> None:
    """An old record of a decided topic is there once more, as a producer without idempotence leaves it."""
    old = [w for w in cluster.broker.written if kind_of(w.partition.topic) == fault.detail]
    if old and cluster.broker.available:
        one = old[-1 - min(fault.count, len(old) - 1)]
        if cluster.broker.find(one.partition) is not None:
            cluster.broker.author = "stale"
            cluster.broker.put(one.partition, one.value, None, None)


def stale_outage(cluster: Cluster, fault: Fault) -> None:
    """A replica that has not read a unit's newest placement says that the unit is out: it names the epoch before.

    detail: a unit.
    """
    read = Assigned()
    for one in cluster.broker.written:
        if one.partition == Partition(TOPICS.assignments, 0):
            read.read(assignments.decode(one.value))
    placed = [change for unit, change in read.units().items() if unit.endswith(f"/{fault.detail}") and change.epoch > 1]
    for change in placed:
        key, _, name = change.unit.partition("/")
        job, generation = split_job_key(key)
        last = read.outage(change.unit)
        if (last is None or last.over) and cluster.broker.available:
            cluster.broker.author = "stale"
            outage = Outage(
                job,
                generation,
                name,
                1 if last is None else last.number + 1,
                epoch=change.epoch - 1,
                upto=0,
                fidelity={},
            )
            record = assignments.encode(Assignment("recovery-late", 0, (), outages=(outage,)))
            cluster.broker.put(Partition(TOPICS.assignments, 0), record, None, None)


def grown(cluster: Cluster, fault: Fault) -> None:
    """detail: a user's topic, which gets count partitions more; for ms records come to them."""
    made = cluster.grow(fault.detail, fault.count)
    random = Random(f"{cluster.seed}/grown/{fault.at_ms}")
    for one in draw_growth(random, fault.detail, made, fault.at_ms, fault.at_ms + fault.ms):
        cluster.timeline.at(max(one.at_ms * 1000, cluster.timeline.now_us), lambda one=one: cluster.feed(one))  # type: ignore[misc]


def leaderless(cluster: Cluster, fault: Fault) -> None:
    """Nobody leads some partitions for ms; a target is on the machine of the broker that did, and goes with it.

    detail: a kind of topic; of "delivered" those with the target's own positions, else one. Empty: a third of all.
    """
    every = cluster.broker.partitions()
    gone = every[fault.count % BROKERS :: BROKERS]
    if fault.detail:
        kind = [one for one in every if kind_of(one.topic) == fault.detail]
        own = {index for name in fault.target for index in _delivering(cluster.processes[name])}
        gone = [one for one in kind if fault.detail == "delivered" and one.index in own]
        gone = gone or kind[fault.count % max(1, len(kind)) :][:1]
    cluster.lose_leaders(gone, fault.ms)
    for name in fault.target:
        cluster.crash(name, fault.ms, notice=True)


def _delivering(process: Process) -> list[int]:
    """Positions of the units that the process delivers for."""
    worker = process.worker if isinstance(process, WorkerProcess) and process.alive else None
    copies = {} if worker is None else worker._copies.here
    return [copy._layout.unit.partition for copy in copies.values() if copy.core.flags.commit]


def stranger(cluster: Cluster, fault: Fault) -> None:
    """detail: what it writes."""
    strangers.write(cluster, fault.detail, fault.count)


BROKERS = 3
