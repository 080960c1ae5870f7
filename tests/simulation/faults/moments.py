"""Faults that strike at a moment: at a record, or while a copy is in a short state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from holdfast.schemas import cuts
from holdfast.schemas.cuts import Raised
from holdfast.schemas.topics import Partition
from holdfast.services.worker.core.tentative import State
from holdfast.services.worker.unit.turns.running_copy import RunningCopy
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.hosts import commits, during, fast, set_mute, slow, stall
from tests.simulation.faults.network import cut, lag
from tests.simulation.kafka.names import kind_of
from tests.simulation.processes.cluster import Cluster
from tests.simulation.processes.hosts import WorkerProcess

LOOK_US = 1_000
FORK_DEAD_MS = 300
THAWED_WITHIN_MS = 150
"""Longer than an assignment takes to follow an exit notice, and too short for the silence to count as a stop."""


def crash_at(cluster: Cluster, fault: Fault) -> None:
    """At the count-th record that arrives on a topic of that kind."""
    name = fault.target[0]
    process = cluster.processes.get(name)
    if process is None or not process.alive:
        return
    left = fault.count

    def appended(partition: Partition, value: bytes) -> None:
        nonlocal left
        if kind_of(partition.topic) == fault.detail:
            left -= 1
            if left == 0:
                cluster.story.tell(f"{name} dies at a record of {fault.detail}")
                cluster.crash(name, fault.ms, notice=True)

    process.link.appended = appended


def strike(cluster: Cluster, fault: Fault) -> None:
    """detail: a kind of topic, and what happens at the count-th record that arrives there: a row of STRIKES."""
    name, (kind, strike) = fault.target[0], fault.detail.split(" ")
    process = cluster.processes.get(name)
    if process is None or not process.alive:
        return
    left = fault.count

    def appended(partition: Partition, value: bytes) -> None:
        nonlocal left
        if kind_of(partition.topic) == kind:
            left -= 1
            if left == 0:
                cluster.story.tell(f"{name}: {strike} at a record of {kind}")
                STRIKES[strike](cluster, fault, partition, value)

    process.link.appended = appended


def _again(cluster: Cluster, fault: Fault, partition: Partition, value: bytes) -> None:
    """The record is there twice, as a producer without idempotence leaves it; transactions are never without."""
    if kind_of(partition.topic) != "delivered":
        cluster.broker.put(partition, value, None, None)


def usurped(cluster: Cluster, fault: Fault) -> None:
    """The target is not heard, and does not hear who takes over from it; the others are slow at that."""
    others = replace(fault, target=tuple(w.name for w in cluster.workers() if w.name not in fault.target))
    during(set_mute(True), set_mute(False))(cluster, fault)
    lag(cluster, replace(fault, detail="assignments in"))
    during(slow, fast)(cluster, others)


def in_hand(cluster: Cluster, fault: Fault) -> None:
    """The next record that code raised comes late; its author is not heard meanwhile, and another one takes over."""
    waiting = [True]

    def watch(process: WorkerProcess, appender: Any) -> None:
        append = appender.append

        def watched(partition: Partition, value: bytes | None, **rest: Any) -> None:
            if partition.topic.endswith(".cuts") and waiting and isinstance(cuts.decode(value or b""), Raised):
                waiting.clear()
                cluster.story.tell(f"{process.name} has a record of code that raised in hand")
                author = replace(fault, target=(process.name,))
                lag(cluster, replace(author, detail="cuts out"))
                lag(cluster, replace(author, detail="assignments in"))
                during(set_mute(True), set_mute(False))(cluster, author)
            append(partition, value, **rest)

        appender.append = watched

    for process in cluster.workers():
        if process.alive and process.worker is not None:
            watch(process, process.worker._appender)


def dies_behind(cluster: Cluster, fault: Fault) -> None:
    """detail: a kind of topic for which nothing leaves the target any more; ms later it dies, and all that is lost."""
    process = cluster.processes[fault.target[0]]

    def dies() -> None:
        if cluster.processes[process.name] is process and (fault.detail, "out") in process.link.lagging:
            cluster.crash(process.name, fault.ms, notice=True)

    if process.alive:
        process.link.lagging.add((fault.detail, "out"))
        cluster.timeline.after(fault.ms * 1000, dies)


def half_applied(cluster: Cluster, fault: Fault) -> None:
    """The first copy that is seen with a run half in its image stalls, and the leader dies.

    For ms work takes so long that a run needs many turns.
    """
    for process in cluster.workers():
        process.step_us = 1_500

    def applies() -> bool:
        applying = next((found for found in cluster.workers() if _applied_half(found)), None)
        if applying is not None:
            unit = _applied_half(applying)[0]
            cluster.story.tell(f"{applying.name} has half a run of {unit} in its image")
            stall(cluster, replace(fault, target=(applying.name,), ms=THAWED_WITHIN_MS))
            for other in cluster.workers():
                if other is not applying and unit in commits(other):
                    cluster.crash(other.name, fault.ms, notice=True)
        return applying is not None

    cluster.timeline.look(applies, LOOK_US, fault.ms * 1000)


def _applied_half(process: WorkerProcess) -> list[str]:
    """The units whose suspended copies there have part of a run in their image."""
    return [
        unit
        for unit, one in _running(process)
        if one.condition.suspended and one.checkpoints.checkpointer.applier.halfway
    ]


def fork_dies(cluster: Cluster, fault: Fault) -> None:
    """The first worker that is seen with a fork, within ms, dies count ms later."""

    def forks() -> bool:
        forked = next((one for one in cluster.workers() if _forked(one)), None)
        if forked is not None:
            cluster.story.tell(f"{forked.name} has forked {' '.join(_forked(forked))}")
            cluster.timeline.after(fault.count * 1000, lambda: cluster.crash(forked.name, FORK_DEAD_MS, notice=True))
        return forked is not None

    cluster.timeline.look(forks, LOOK_US, fault.ms * 1000)


def _forked(process: WorkerProcess) -> list[str]:
    """The units that work at tentative batches there."""
    return [unit for unit, one in _running(process) if one._line._state.state is State.FORKED]


def _running(process: WorkerProcess) -> list[tuple[str, RunningCopy]]:
    copies = process.worker._copies.here if process.worker is not None and process.alive and not process.frozen else {}
    return [(unit, copy.running) for unit, copy in copies.items() if copy.running is not None]


STRIKES: Mapping[str, Callable[[Cluster, Fault, Partition, bytes], None]] = {
    "dies": lambda cluster, fault, *_: cluster.crash(fault.target[0], fault.ms, notice=True),
    "stalls": lambda cluster, fault, *_: stall(cluster, fault),
    "deaf": lambda cluster, fault, *_: cut(cluster, replace(fault, detail="in")),
    "cut": lambda cluster, fault, *_: cut(cluster, replace(fault, detail="both")),
    "again": _again,
}
