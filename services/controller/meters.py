"""Metrics of a controller: the jobs and their states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from holdfast.services.controller.core.controller import Controller
from holdfast.services.controller.core.job import Job
from holdfast.services.controller.core.life import PLACED
from holdfast.services.controller.core.status import STATES
from holdfast.services.process.metrics import REFUSED, Metric, Read, Sample

JOBS = Metric("holdfast_jobs", "gauge", ("state",), "Jobs that the controller knows, by their state")
STATE = Metric("holdfast_job_state", "gauge", ("job", "generation", "state"), "Always 1: of each job that is not over")
UNITS = Metric("holdfast_job_units", "gauge", ("job", "generation"), "Units of the job")
UP = Metric("holdfast_job_units_running", "gauge", ("job", "generation"), "Units that some copy serves")
QUERY = ("job", "generation", "query")
AVAILABLE = Metric(
    "holdfast_query_available", "gauge", QUERY, "1: all that it needs runs, as fast as before the last failure; else 0"
)
LATENCY = Metric(
    "holdfast_query_latency_seconds", "gauge", QUERY, "From a record's arrival until its results are out, mean of 10 s"
)
RELATIVE = Metric(
    "holdfast_query_relative_latency", "gauge", QUERY, "The latency as a multiple of that before the last failure"
)
OF_CONTROLLER = (JOBS, STATE, UNITS, UP, AVAILABLE, LATENCY, RELATIVE, REFUSED)


def state_of(job: Job) -> str:
    """Returns the state as in `jobs.status`; for a running job this includes failed, paused and waiting."""
    return STATES[job.life.phase] if job.published is None else job.published.state


def _of_queries(job: Job) -> Iterator[Sample]:
    for query in list(job.availability.states()) if job.life.phase in PLACED else ():
        named = job.name, job.generation, query.query
        yield AVAILABLE.of(int(query.available), *named)
        if query.latency_ms is not None:
            yield LATENCY.of(query.latency_ms / 1000, *named)
        if query.relative is not None:
            yield RELATIVE.of(query.relative, *named)


def of_jobs(core: Controller) -> Read:
    """Returns the gauges of each job, also of ended and rejected ones; a job that stands by has no units to serve."""

    def read() -> Iterator[Sample]:
        jobs = list(core.jobs.values())
        states = Counter(map(state_of, jobs))
        for state in sorted(states):
            yield JOBS.of(states[state], state)
        for job in jobs:
            if not job.over:
                named = job.name, job.generation
                yield STATE.of(1, *named, state_of(job))
                if job.stands_by:
                    continue
                yield UNITS.of(len(job.units), *named)
                yield UP.of(0 if job.published is None else job.published.available, *named)
                yield from _of_queries(job)

    return read
