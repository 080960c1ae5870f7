"""Why units of a job have no place, or nobody answers there, as `jobs.status` says it to people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from schemas.heartbeats import Heartbeat
from services.controller.core.fleet import Fleet
from services.controller.core.job import Job
from services.kernel.logs.assigned import Assigned

NO_WORKER = "no worker is alive: start one with `holdfast up --workers N`"
NO_DRIVER = "no Spark driver is alive yet: `holdfast up` starts one when a job needs it, which takes some seconds"
MOST_NAMED = 3
OTHER_VERSIONS = (
    "start one in an environment with these, or `holdfast cancel` the job and submit it again for those that run"
)


def waiting(job: Job, assigned: Assigned, fleet: Fleet) -> str:
    """For what the job waits; empty: every unit has a place that answers, or gets one."""
    homeless = [unit for unit in job.units if (change := assigned.of(unit)) is None or not change.copies]
    if homeless:
        return _nobody_for(homeless, job, fleet)
    silent = {
        unit: [copy for copy in change.copies if not fleet.answers(copy)]
        for unit in job.units
        if (change := assigned.of(unit)) is not None
    }
    away = {copy.worker for copies in silent.values() for copy in copies}
    if not away:
        return ""
    back = {beat.worker: beat for beat in fleet.alive() if beat.worker in away}
    gone = sorted(away - back.keys())
    lost = [f"no sign of life from {', '.join(gone)}"] if gone else []
    nobody = _nobody_for((unit for unit, copies in silent.items() if copies), job, fleet)
    return "; ".join(filter(None, [*lost, *(_back(back[name], job) for name in sorted(back)), nobody]))


def _back(beat: Heartbeat, job: Job) -> str:
    """Why a worker that lives again has not got its units back."""
    if _fits(beat, job):
        return f"{beat.worker} has started again and gets its units back"
    return f"{beat.worker} lives, with other versions than the plan's"


def _nobody_for(units: Iterable[str], job: Job, fleet: Fleet) -> str:
    """Why none of the processes that take these units may; empty if some may."""
    hosts = dict.fromkeys(job.hosts[unit] for unit in units)
    return "; ".join(why for host in hosts if (why := _nobody(host, job, fleet)))


def _nobody(host: str, job: Job, fleet: Fleet) -> str:
    alive = [beat for beat in fleet.alive() if beat.hosts == host]
    if not alive:
        return NO_DRIVER if host else NO_WORKER
    if any(_fits(beat, job) for beat in alive):
        return ""
    other = "; ".join(f"{beat.worker} has {_differences(beat.versions, _pinned(job))}" for beat in alive[:MOST_NAMED])
    return f"no worker alive has the plan's versions ({other}): {OTHER_VERSIONS}"


def _pinned(job: Job) -> dict[str, str]:
    return dict(job.plan.versions) if job.plan is not None else {}


def _fits(beat: Heartbeat, job: Job) -> bool:
    return not beat.versions or beat.versions == _pinned(job)


def _differences(versions: Mapping[str, str], pinned: Mapping[str, str]) -> str:
    names = [name for name in sorted({*versions, *pinned}) if versions.get(name) != pinned.get(name)]
    has = ((name, versions.get(name, "missing"), pinned.get(name, "none")) for name in names)
    return ", ".join(f"{name} {here} instead of the plan's {planned}" for name, here, planned in has)
