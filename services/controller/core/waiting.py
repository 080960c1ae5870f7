"""Why units of a job have no place, or nobody answers there, as `jobs.status` says it to people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from services.controller.core.fleet import Fleet
from services.controller.core.job import Job
from services.kernel.logs.assigned import Assigned

NO_WORKER = "no worker is alive: start one with `holdfast up --workers N`"
NO_DRIVER = "no Spark driver is alive yet: `holdfast up` starts one when a job needs it, which takes some seconds"


def waiting(job: Job, assigned: Assigned, fleet: Fleet) -> str:
    """For what the job waits; empty: every unit has a place that answers, or gets one."""
    homeless = [unit for unit in job.units if (change := assigned.of(unit)) is None or not change.copies]
    if homeless:
        return _nobody_for(homeless, job, fleet)
    silent = {
        unit: [copy.worker for copy in change.copies if not fleet.answers(copy)]
        for unit in job.units
        if (change := assigned.of(unit)) is not None
    }
    workers = sorted({worker for names in silent.values() for worker in names})
    if not workers:
        return ""
    nobody = _nobody_for((unit for unit, names in silent.items() if names), job, fleet)
    return f"no sign of life from {', '.join(workers)}" + (f"; {nobody}" if nobody else "")


def _nobody_for(units: Iterable[str], job: Job, fleet: Fleet) -> str:
    """Why none of the processes that take these units may; empty if some may."""
    hosts = dict.fromkeys(job.hosts[unit] for unit in units)
    return "; ".join(why for host in hosts if (why := _nobody(host, job, fleet)))


def _nobody(host: str, job: Job, fleet: Fleet) -> str:
    alive = [beat for beat in fleet.alive() if beat.hosts == host]
    if not alive:
        return NO_DRIVER if host else NO_WORKER
    pinned = dict(job.plan.versions) if job.plan is not None else {}
    if any(not beat.versions or beat.versions == pinned for beat in alive):
        return ""
    return _other_versions(alive[0].versions, pinned)


def _other_versions(versions: Mapping[str, str], pinned: Mapping[str, str]) -> str:
    different = [f"{name} {version}" for name, version in sorted(pinned.items()) if versions.get(name) != version]
    return f"no worker alive has the plan's versions ({', '.join(different)})"
