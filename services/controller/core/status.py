"""Status of a job in `jobs.status`: its state in a user's words, its available part, and the reason why no more is.

Source: PROTOCOL 1. To change what users see of a phase, change STATES.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import asdict

from holdfast.schemas.assignments import Change, Deadly
from holdfast.schemas.heartbeats import CopyState
from holdfast.schemas.plans import Status
from holdfast.services.controller.core.availability import Leader
from holdfast.services.controller.core.fleet import Fleet
from holdfast.services.controller.core.job import Job
from holdfast.services.controller.core.life import Phase
from holdfast.services.decisions.assigned import Assigned

COUNT_INTERVAL_MS = 500
"""Least time between two records whose only change is in the counts or in the availability of queries."""
LATENCY_INTERVAL_MS = {False: 10_000, True: 1_000}
"""Least time between two records whose only change is in latencies, without a failure and after one."""

_P = Phase

STATES = {
    _P.SUBMITTED: "accepted",
    _P.DRAFTING: "accepted",
    _P.DECIDING: "accepted",
    _P.ADMITTED: "accepted",
    _P.CREATING: "starting",
    _P.PLACING: "starting",
    _P.RUNNING: "running",
    _P.DRAINING: "draining",
    _P.STOPPING: "cancelling",
    _P.FENCING: "cancelling",
    _P.DELETING: "cancelling",
    _P.ENDING: "cancelling",
    _P.ENDED: "ended",
    _P.REJECTED: "rejected",
}

FORMERLY_MS = 2_000
"""Time after the controller's start in which the workers' reports describe a state from before the start."""
STOPPED = "stopped"
"""State of a job that waits for a command of a person."""
WAITING = "waiting"
"""State of a job that waits for a missing topic of the user."""

UP = ("running", "ended")
"""States of a copy that serves its unit."""

Said = Mapping[str, Sequence[tuple[str, CopyState]]]
"""By unit, the reports of live workers on their copies, with the names of the workers."""


def status(job: Job, assigned: Assigned, fleet: Fleet, waiting: str, now_ms: int) -> Status:
    """Returns the status of a job now.

    waiting: the reason why a unit has no place.
    """
    stopping = job.life.phase in (_P.STOPPING, _P.FENCING, _P.DELETING, _P.ENDING)
    live = job.life.phase in (_P.PLACING, _P.RUNNING, _P.DRAINING)
    available = sum([_up(unit, assigned, fleet) for unit in job.units]) if live else 0
    said = {unit: list(fleet.reports(unit)) for unit in job.units} if live else {}
    failure = _failure(job, assigned, said) if live else ""
    stopped, waits = _halted(said, assigned)
    state = _state(job, available, failure, stopped, waits, stopping)
    return Status(
        job=job.name,
        generation=job.generation,
        state=state,
        since_ms=_since_ms(job, state, now_ms),
        time_ms=now_ms,
        problems=job.problems,
        warnings=job.plan.warnings if job.plan is not None else (),
        available=available,
        units=len(job.units),
        error=failure or stopped or job.trouble or waits or (waiting if live else ""),
        queries=tuple(job.availability.states()) if live else (),
        **asdict(job.counts),
    )


def due(new: Status, job: Job, now_ms: int) -> bool:
    """True if the status is to be published now."""
    old = job.published
    if old is None:
        # Published never, or a moment ago without success.
        return now_ms - job.published_ms >= COUNT_INTERVAL_MS
    if _apart_from_counts(new) != _apart_from_counts(old):
        return True
    since_ms = now_ms - job.published_ms
    if _running(new) != _running(old) and since_ms >= COUNT_INTERVAL_MS:
        return True
    return new.queries != old.queries and since_ms >= LATENCY_INTERVAL_MS[job.availability.failing]


def _apart_from_counts(one: Status) -> Status:
    return msgspec.structs.replace(one, available=0, time_ms=0, queries=())


def _running(one: Status) -> tuple[int, tuple[tuple[str, bool, bool], ...]]:
    """Number of units that run, and queries that are available or catch up."""
    return one.available, tuple((query.query, query.available, query.catching_up) for query in one.queries)


def _since_ms(job: Job, state: str, now_ms: int) -> int:
    if job.stood[0] == state:
        return job.stood[1]
    if now_ms >= job.formerly_ms:
        return now_ms
    if job.formerly is None:
        return 0
    return job.formerly.since_ms if job.formerly.state == state else now_ms


def _state(job: Job, available: int, failure: str, stopped: str, waits: str, stopping: bool) -> str:
    if stopping and job.all_ran_out:
        return "draining"
    if failure:
        return "failed"
    if stopped:
        return STOPPED
    if waits and job.life.phase is _P.RUNNING and (job.control is None or job.control.kind != "pause"):
        return WAITING
    if job.life.phase is not _P.RUNNING:
        return STATES[job.life.phase]
    if job.control is not None and job.control.kind == "pause":
        return "paused" if job.control_done >= job.control.offset else "pausing"
    return "running" if job.was_up or available == len(job.units) else "starting"


def leader(unit: str, assigned: Assigned, fleet: Fleet) -> Leader | None:
    """Returns the leader of a unit, given by its key, if that leader runs."""
    change = assigned.of(unit)
    copy = None if change is None else change.committer
    state = None if copy is None else fleet.report(copy, unit)
    return (copy.worker, copy.incarnation) if copy is not None and state is not None and state.state in UP else None


def _up(unit: str, assigned: Assigned, fleet: Fleet) -> bool:
    change = assigned.of(unit)
    if change is None:
        return False
    for copy in change.copies:
        state = fleet.report(copy, unit)
        if state is not None and state.epoch == change.epoch and state.state in UP:
            return True
    return False


def _halted(said: Said, assigned: Assigned) -> tuple[str, str]:
    """Returns why the job continues only at a person's command, and the missing topic that it waits for."""
    halted = [(unit, copy) for unit, copies in said.items() for _, copy in copies if copy.stopped or copy.waits]
    reports = [copy for unit, copy in halted if copy.epoch == assigned.epoch(unit) and copy.state in UP]
    waits = "; ".join(dict.fromkeys(copy.waits for copy in reports if copy.waits))
    return next((copy.stopped for copy in reports if copy.stopped), ""), waits


def quarantine(unit: str, deadly: Deadly, records: str | None) -> str:
    """Returns why a job has failed whose unit ends its workers."""
    return f"{unit} is in quarantine: {deadly}" + (f"; its records: {records}" if records else "")


def _failure(job: Job, assigned: Assigned, said: Said) -> str:
    """Returns the cause of the first unit that has failed in its present place or is in quarantine; empty: none."""
    for unit, name in job.units.items():
        change = assigned.of(unit)
        if change is not None and change.deadly is not None:
            return quarantine(name, change.deadly, job.records.get(unit))
        for worker, copy in said[unit]:
            if copy.state == "failed" and copy.epoch == assigned.epoch(unit) and not _shows(change, worker):
                return f"{name} on {worker}: {copy.error or 'no cause given'}"
    return ""


def _shows(change: Change | None, worker: str) -> bool:
    """True for a copy that has yet to show equal bytes: its stop concerns its versions, and not the job."""
    return change is not None and any(one.worker == worker for one in change.unshown)
