"""Faults that meet a job, or a unit, on its way from one state to the next, which by chance is too short a time.

Each waits for its moment or makes it. To add a row of OUTRUN, ASKED or MIDWAY is to add a coincidence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from holdfast.schemas.assignments import Change
from holdfast.services.recovery.core.unit.facts.stance import Stance, stance
from tests.simulation.kafka.names import kind_of
from tests.simulation.processes.hosts import WorkerProcess
from tests.simulation.processes.jobs import NAME

if TYPE_CHECKING:
    from tests.simulation.faults.fault import Fault
    from tests.simulation.processes.cluster import Cluster

RESUBMITTED_MS = 600
"""Time after which everything that runs has ended."""
CANCELLED_MS = 700
LOOK_US = 2_000
MOVES_WITHIN_US = 1_000_000
"""A unit that is asked to move and is at rest does so soon."""
TRIMMED_WITHIN_US, AWARE_US = 3_000_000, 100_000
"""The cut log of a busy job is trimmed by then; a copy knows soon that its position is gone."""
ANSWERS_WITHIN_US = 1_500_000
"""A worker that was silent for a while has answered by then, or is gone."""


# -- a controller and another one that is faster ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Outrun:
    """After the submission one controller no longer reads `kinds` from `lags_ms` on; at `asks_ms` comes the command."""

    kinds: tuple[str, ...]
    command: str
    lags_ms: int = 0
    asks_ms: int = 1_000


OUTRUN: Mapping[str, Outrun] = {
    "while it places": Outrun(("assignments",), "drain"),
    "while it places, and is asked to stop": Outrun(("assignments",), "cancel", asks_ms=300),
    "while it runs": Outrun(("assignments", "submit"), "cancel", lags_ms=900),
    "while it drains": Outrun(("assignments", "progress"), "drain", lags_ms=900),
}
"""Faults of a target whose job another controller has brought to its end."""


def _anew(cluster: Cluster) -> None:
    """The job that runs is cancelled; RESUBMITTED_MS later the next one is submitted."""
    _command(cluster, "cancel")
    cluster.timeline.after(RESUBMITTED_MS * 1000, lambda: cluster.submit(cluster.job.spec))


def _command(cluster: Cluster, command: str) -> None:
    cluster.submit({"command": command, "job": NAME})


def outrun(cluster: Cluster, fault: Fault) -> None:
    """detail: a row of OUTRUN."""
    process, row = cluster.processes[fault.target[0]], OUTRUN[fault.detail]

    def lag() -> None:
        process.link.lagging |= {(kind, "in") for kind in row.kinds}

    def catch_up() -> None:
        for kind in row.kinds:
            process.link.catch_up(kind, "in")

    _anew(cluster)
    cluster.timeline.after((RESUBMITTED_MS + row.lags_ms) * 1000, lag)
    cluster.timeline.after((RESUBMITTED_MS + row.asks_ms) * 1000, lambda: _command(cluster, row.command))
    cluster.timeline.after((RESUBMITTED_MS + row.asks_ms + fault.ms) * 1000, catch_up)


ASKED: Mapping[str, str] = {
    "drafting": "topics",
    "creating": "create",
    "fencing": "start",
    "deleting": "delete",
}
"""The request whose answer a controller waits for in a phase."""


def unserved(cluster: Cluster, fault: Fault) -> None:
    """detail: a row of ASKED. A job is submitted and soon cancelled; the target waits for its answer all the time."""
    link, request = cluster.processes[fault.target[0]].link, ASKED[fault.detail]
    _anew(cluster)
    cluster.timeline.after(RESUBMITTED_MS * 1000, lambda: link.unserved.add(request))
    cluster.timeline.after((RESUBMITTED_MS + CANCELLED_MS) * 1000, lambda: _command(cluster, "cancel"))
    cluster.timeline.after((RESUBMITTED_MS + fault.ms) * 1000, lambda: link.unserved.discard(request))


# -- a unit between two schemes, or between two copies ----------------------------------------------------------------


def mind_changed(cluster: Cluster, fault: Fault) -> None:
    """detail: a unit and two schemes, of which the second is asked for ms after the first."""
    unit, first, then = fault.detail.split(" ")

    def ask(scheme: str) -> None:
        cluster.submit({"command": "scheme", "job": NAME, "unit": unit, "scheme": scheme})

    ask(first)
    cluster.timeline.after(fault.ms * 1000, lambda: ask(then))


def rolling_back(cluster: Cluster, fault: Fault) -> None:
    """detail: a row of MIDWAY, done to the first unit that is switched once the target, which was silent, answers."""
    process = cluster.processes[fault.target[0]]
    assert isinstance(process, WorkerProcess)
    process.mute = True

    def answer() -> None:
        process.mute = False
        cluster.timeline.look(rolls_back, LOOK_US, ANSWERS_WITHIN_US)

    def rolls_back() -> bool:
        found = _first(cluster, Stance.SWITCHED)
        if found is not None:
            cluster.story.tell(f"{found.unit} rolls back: {fault.detail}")
            MIDWAY[fault.detail](cluster, fault, found)
        return found is not None

    cluster.timeline.after(fault.ms * 1000, answer)


def moving(cluster: Cluster, fault: Fault) -> None:
    """detail: a unit, a worker and a row of STRUCK, done to the unit once a copy catches up there."""
    unit, worker, what = fault.detail.split(" ", 2)
    cluster.submit({"command": "move", "job": NAME, "unit": unit, "worker": worker})

    def moves() -> bool:
        found = _first(cluster, Stance.MOVING, f"/{unit}")
        if found is not None:
            cluster.story.tell(f"{found.unit} moves: {what}")
            STRUCK[what](cluster, fault, found)
        return found is not None

    cluster.timeline.look(moves, LOOK_US, MOVES_WITHIN_US)


def reassigning(cluster: Cluster, fault: Fault) -> None:
    """detail: a unit, a worker to which every replica wants its standby moved, and a row of BACKED for the meantime."""
    unit, worker, what = fault.detail.split(" ", 2)
    for replica in cluster.replicas():
        for change in _units(replica) if replica.replica else ():
            if change.unit.endswith(f"/{unit}"):
                replica.replica.core.known.reassignment.want(change.unit, worker)  # type: ignore[union-attr]

    def moves() -> bool:
        found = _first(cluster, Stance.REASSIGNING)
        if found is not None and cluster.healed_us is None:
            cluster.story.tell(f"the standby of {found.unit} moves: {what}")
            BACKED[what](cluster, fault, found)
        return found is not None or cluster.healed_us is not None

    cluster.timeline.look(moves, LOOK_US, MOVES_WITHIN_US)


def left_behind(cluster: Cluster, fault: Fault) -> None:
    """A standby does not read the cut log until it is trimmed past where the standby is; then its leader dies."""
    changes = _changes(cluster)
    leading = {change.copies[0].worker for change in changes if change.copies}
    pairs = {
        change.unit: (change.copies[0].worker, change.copies[1].worker)
        for change in changes
        if len(change.copies) > 1 and change.copies[1].worker not in leading
    }
    if not pairs:
        return
    leader, standby = pairs[min(pairs)]
    link, until_us = cluster.processes[standby].link, cluster.timeline.now_us + TRIMMED_WITHIN_US
    logs = [one for one in cluster.broker.partitions() if kind_of(one.topic) == "cuts"]
    at = cluster.broker.offsets(logs, "end")
    link.lagging.add(("cuts", "in"))

    def look() -> None:
        passed = any(start > at[one] for one, start in cluster.broker.offsets(logs, "start").items())
        if not passed and cluster.timeline.now_us < until_us:
            cluster.timeline.after(LOOK_US, look)
            return
        link.catch_up("cuts", "in")
        if passed:
            cluster.story.tell(f"{standby} is left behind by the cut log, and {leader} dies")
            cluster.timeline.after(AWARE_US, lambda: cluster.crash(leader, fault.ms, notice=True))

    look()


def _first(cluster: Cluster, wanted: Stance, unit: str = "") -> Change | None:
    """The first unit of that stance, and with that end of its name, that a replica knows of."""
    found = (change for change in _changes(cluster) if change.unit.endswith(unit))
    return next((change for change in found if stance(change) is wanted), None)


def _changes(cluster: Cluster) -> list[Change]:
    return [one for replica in cluster.replicas() if replica.replica for one in _units(replica)]


def _units(process: object) -> list[Change]:
    return list(process.replica.core.known.assigned.units().values())  # type: ignore[attr-defined]


def _dies(*which: int) -> Callable[[Cluster, Fault, Change], None]:
    def do(cluster: Cluster, fault: Fault, change: Change) -> None:
        for index in which:
            cluster.crash(change.copies[index].worker, fault.ms, notice=True)

    return do


def _silent(which: int) -> Callable[[Cluster, Fault, Change], None]:
    def do(cluster: Cluster, fault: Fault, change: Change) -> None:
        process = cluster.processes[change.copies[which].worker]
        assert isinstance(process, WorkerProcess)
        process.mute = True
        cluster.timeline.after(fault.ms * 1000, lambda: setattr(process, "mute", False))

    return do


def _another_scheme(cluster: Cluster, fault: Fault, change: Change) -> None:
    unit = change.unit.rpartition("/")[2]
    mind_changed(cluster, replace(fault, detail=f"{unit} active-standby hybrid"))


MIDWAY: Mapping[str, Callable[[Cluster, Fault, Change], None]] = {
    "both die": _dies(0, 1),
    "the old primary dies": _dies(0),
    "its secondary dies": _dies(1),
    "the old primary is silent": _silent(0),
    "its secondary is silent": _silent(1),
    "another scheme": _another_scheme,
}


STRUCK: Mapping[str, Callable[[Cluster, Fault, Change], None]] = {
    "the primary dies": _dies(0),
    "the new copy dies": _dies(-1),
    "both die": _dies(0, -1),
    "the primary is silent": _silent(0),
    "the new copy is silent": _silent(-1),
    "another scheme": _another_scheme,
}
"""Faults of a unit that moves; the copy that catches up is the last one."""

BACKED: Mapping[str, Callable[[Cluster, Fault, Change], None]] = {
    "nothing happens": lambda cluster, fault, change: None,
    "the primary dies": _dies(0),
    "its former standby dies": _dies(1),
    "its new standby dies": _dies(-1),
    "all but the new standby die": _dies(0, 1),
    "both standbys die": _dies(1, -1),
    "the primary is silent": _silent(0),
    "its new standby is silent": _silent(-1),
    "another scheme": _another_scheme,
}
"""Faults of a unit whose standby moves; the new one is the last copy."""
