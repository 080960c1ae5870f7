"""Faults of processes: they die, stall, hang, are slow, or are not heard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from holdfast.schemas.heartbeats import At
from tests.simulation.faults.fault import Fault
from tests.simulation.processes.cluster import Cluster
from tests.simulation.processes.hosts import HostProcess, WorkerProcess
from tests.simulation.processes.services import Process

MIN_RESTART_MS = 30
FLAP_MS = 1_500
LEAVE_MS = 600
SILENT_MS = 2_000
LOOK_US = 5_000


def crash(cluster: Cluster, fault: Fault) -> None:
    """detail "silent": nobody reports the exit."""
    for name in fault.target:
        cluster.crash(name, fault.ms, notice=fault.detail != "silent")


def during(begin: Callable[[Process], None], end: Callable[[Process], None]) -> Callable[[Cluster, Fault], None]:
    """Something that begins, and ends after fault.ms, unless the process is gone by then."""

    def do(cluster: Cluster, fault: Fault) -> None:
        for name in fault.target:
            process = cluster.processes.get(name)
            if process is not None and process.alive:
                begin(process)
                cluster.timeline.after(fault.ms * 1000, lambda process=process: end(process))  # type: ignore[misc]

    return do


def slow(process: Process) -> None:
    process.link.slowness, process.step_us = 10, 2_000


def fast(process: Process) -> None:
    process.link.slowness, process.step_us = 1, 50


def stall(cluster: Cluster, fault: Fault) -> None:
    during(lambda p: p.freeze(), lambda p: p.thaw())(cluster, fault)


def stand(cluster: Cluster, fault: Fault) -> None:
    """A replica of recovery is stopped, and a worker is silent from then on until SILENT_MS later."""
    replica, worker = fault.target
    stall(cluster, replace(fault, target=(replica,)))
    during(set_mute(True), set_mute(False))(cluster, replace(fault, target=(worker,), ms=fault.ms + SILENT_MS))


def set_stuck(stuck: bool) -> Callable[[Process], None]:
    def do(process: Process) -> None:
        assert isinstance(process, HostProcess)
        process.stuck = stuck or process.hung

    return do


def hang(cluster: Cluster, fault: Fault) -> None:
    for name in fault.target:
        cluster.hang(name)


def deadly(cluster: Cluster, fault: Fault) -> None:
    """detail: a unit, one in a history, whose work ends every worker from count batches on."""
    reports = [
        copy for process in cluster.workers() if process.alive and process.host for copy in process.host.copies()
    ]
    found = [copy for copy in reports if copy.unit.endswith(f"/{fault.detail}")]
    if found and not cluster.deadly:
        last = max(found, key=lambda copy: copy.batch)
        cluster.deadly[last.unit] = last.batch + fault.count


def deadly_line(cluster: Cluster, fault: Fault) -> None:
    """detail: a unit whose work at tentative batches ends every worker; its stable batches do not."""
    cluster.deadly_lines.add(fault.detail)


def unexpected(cluster: Cluster, fault: Fault) -> None:
    """detail: a unit, one in a history, and what its next count copies are at when they meet an error that nobody
    foresaw; loading also needs a new copy."""
    name, what = fault.detail.split(" ")
    hosts = (process.host for process in cluster.workers() if process.alive and process.host)
    units = {copy.unit for host in hosts for copy in host.copies() if copy.unit.endswith(f"/{name}")}
    for unit in sorted(units):
        cluster.errors.ask(unit, what, fault.count)


def killed(cluster: Cluster, fault: Fault) -> None:
    """While the loop was at some unit's batch: the count-th."""
    process = cluster.processes[fault.target[0]]
    if not isinstance(process, WorkerProcess) or not process.alive or process.host is None:
        return
    running = [copy for copy in process.host.copies() if copy.state == "running"]
    at = tuple(At(copy.unit, copy.batch + 1) for copy in running[fault.count % max(1, len(running)) :][:1])
    cluster.crash(process.name, fault.ms, notice=True, at=at)


def set_mute(mute: bool) -> Callable[[Process], None]:
    def do(process: Process) -> None:
        assert isinstance(process, HostProcess)
        process.mute = mute

    return do


def flap(cluster: Cluster, fault: Fault) -> None:
    """Silent for a second, heard for half of one, and so on for fault.ms, or until all faults end."""
    mute = partial(during(set_mute(True), set_mute(False)), cluster, replace(fault, ms=FLAP_MS * 2 // 3))
    for at_ms in range(0, fault.ms, FLAP_MS):
        cluster.timeline.after(at_ms * 1000, lambda: mute() if cluster.healed_us is None else None)


def set_late(late_us: int) -> Callable[[Process], None]:
    def do(process: Process) -> None:
        assert isinstance(process, HostProcess)
        process.late_us = late_us

    return do


def clock(cluster: Cluster, fault: Fault) -> None:
    for name in fault.target:
        if name in cluster.processes:
            cluster.processes[name].clock_ahead_ms += fault.count


def leave(cluster: Cluster, fault: Fault) -> None:
    """SIGTERM: it ends once it leads nothing, or ms later, and is started again."""
    process = cluster.processes[fault.target[0]]
    until_us = cluster.timeline.now_us + max(fault.ms, LEAVE_MS) * 1000
    if not isinstance(process, HostProcess) or not process.alive or process.host is None:
        return
    process.host.leaving = True

    def look() -> None:
        if not process.leaving or process.host is None:
            return
        if process.frozen or (process.host.leads and cluster.timeline.now_us < until_us):
            cluster.timeline.after(LOOK_US, look)
        else:
            cluster.story.tell(f"{process.name} ends, leading {commits(process)}")
            cluster.crash(process.name, MIN_RESTART_MS, notice=True)

    look()


def commits(process: HostProcess) -> list[str]:
    copies = process.worker._copies.here if isinstance(process, WorkerProcess) and process.worker is not None else {}
    return [unit for unit, copy in copies.items() if copy.core.flags.commit]


def felled(cluster: Cluster, fault: Fault) -> None:
    """All targets at once; they are back one after the other, count ms apart. detail "silent": nobody reports it."""
    for at, name in enumerate(fault.target):
        cluster.crash(name, fault.ms + at * fault.count, notice=fault.detail != "silent")
