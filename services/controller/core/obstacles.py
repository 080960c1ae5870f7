"""Reasons why units of a job have no place, or their workers do not answer, as `jobs.status` states them to people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.schemas.assignments import Change
from holdfast.schemas.heartbeats import Heartbeat
from holdfast.services.controller.core.fleet import Fleet
from holdfast.services.controller.core.job import Job
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.kernel.plans.pinning import ANY, Fit, Pin, pins
from holdfast.services.kernel.versions import differences

NO_WORKER = "no worker is alive: start one with `holdfast up --workers N`"
NO_DRIVER = "no Spark driver is alive yet: `holdfast up` starts one when a job needs it, which takes some seconds"
STEPS = {"deploying": "Spark's JVM starts", "opening": "its query starts"}
"""Steps of a copy on a driver until it runs, by its state."""
MOST_NAMED = 3
OTHER_VERSIONS = (
    "start one with the versions that the unit ran with, so that the others can show their bytes beside it; or "
    "`holdfast accept {job}` lets them lead as they are, though nobody could compare their bytes"
)


def waiting(job: Job, assigned: Assigned, fleet: Fleet) -> str:
    """Returns what the job waits for; empty if every unit has, or gets, a place that answers."""
    changes = {unit: assigned.of(unit) or Change(unit, 0) for unit in job.units}
    homeless = [change for change in changes.values() if not change.copies]
    if homeless:
        return _nobody_for(homeless, job, fleet)
    silent = {unit: [copy for copy in one.copies if not fleet.answers(copy)] for unit, one in changes.items()}
    away = {copy.worker for copies in silent.values() for copy in copies}
    if not away:
        return "" if job.was_up else _starting(changes, job, fleet)
    back = {beat.worker: beat for beat in fleet.alive() if beat.worker in away}
    gone = sorted(away - back.keys())
    lost = [f"no sign of life from {', '.join(gone)}"] if gone else []
    left = {name: [one for one in changes.values() if _holds(one, name)] for name in back}
    nobody = _nobody_for((changes[unit] for unit, copies in silent.items() if copies), job, fleet)
    each = [] if nobody else [_back(back[name], left[name], job) for name in sorted(back)]
    return "; ".join(filter(None, [*lost, *each, nobody]))


def _starting(changes: Mapping[str, Change], job: Job, fleet: Fleet) -> str:
    """Steps of the leaders on Spark, whose start takes seconds."""
    leaders = ((unit, one.committer) for unit, one in changes.items() if job.hosts[unit])
    found = [(unit, copy.worker, fleet.report(copy, unit)) for unit, copy in leaders if copy is not None]
    steps = [(unit, worker, STEPS.get(said.state)) for unit, worker, said in found if said is not None]
    return "; ".join(f"{job.units[unit]} on {worker}: {step}" for unit, worker, step in steps if step)


def _holds(change: Change, worker: str) -> bool:
    return any(copy.worker == worker for copy in change.copies)


def _back(beat: Heartbeat, changes: Iterable[Change], job: Job) -> str:
    """Returns why a worker that lives again has not got its units back."""
    pinned = _pins(job)
    for change in changes:
        if (why := _other(beat, change, pinned)) != "":
            return why
    return f"{beat.worker} has started again and gets its units back"


def _other(beat: Heartbeat, change: Change, pinned: Mapping[str, Pin]) -> str:
    """Returns why the worker may not lead the unit; empty if it may."""
    pin = pinned.get(change.unit, ANY)
    fit = pin.fit(change, beat.versions)
    if fit is Fit.EQUAL:
        return ""
    has = differences(pin.shown(change)[-1], pin.text(beat.versions))
    return f"{beat.worker} lives with {has}: {fit.value}"


def _nobody_for(changes: Iterable[Change], job: Job, fleet: Fleet) -> str:
    """Returns why none of the processes of the units' kind may lead them; empty if some may."""
    by_host: dict[str, list[Change]] = {}
    for change in changes:
        by_host.setdefault(job.hosts[change.unit], []).append(change)
    return "; ".join(why for host, those in by_host.items() if (why := _nobody(host, those, job, fleet)))


def _nobody(host: str, changes: Iterable[Change], job: Job, fleet: Fleet) -> str:
    alive = [beat for beat in fleet.alive() if beat.hosts == host]
    if not alive:
        return NO_DRIVER if host else NO_WORKER
    pinned = _pins(job)
    for change in changes:
        why = [_other(beat, change, pinned) for beat in alive]
        if all(why):
            named, advice = "; ".join(why[:MOST_NAMED]), OTHER_VERSIONS.format(job=job.name)
            return f"no worker alive may lead {job.units[change.unit]} ({named}): {advice}"
    return ""


def _pins(job: Job) -> dict[str, Pin]:
    return pins(job.plan) if job.plan is not None else {}
