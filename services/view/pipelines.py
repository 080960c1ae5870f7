"""Pipelines of jobs: a topic to which one job delivers is what another job reads.

Source: JOBS "holdfast list".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from holdfast.schemas.plans import Plan
from holdfast.services.planning.rendering import user_sources
from holdfast.services.view.cluster import ClusterView
from holdfast.services.view.lines import JobLine


class PipelineLine(msgspec.Struct, frozen=True):
    """A job of `holdfast list --graph`.

    reads: the topics of its sources, each with the jobs that deliver to it.
    writes: the topics of its queries, each with the jobs that read it.
    """

    job: str
    generation: str
    state: str
    reads: dict[str, tuple[str, ...]]
    writes: dict[str, tuple[str, ...]]


def pipelines(view: ClusterView, jobs: Sequence[JobLine]) -> list[PipelineLine]:
    """The jobs with what they read and write, in their order; jobs without a plan, as a rejected one, are left out."""
    plans = [(job, plan) for job in jobs if (plan := view.plan(job.generation)) is not None]
    readers = _by_topic((job, _read(plan)) for job, plan in plans)
    writers = _by_topic((job, _written(plan)) for job, plan in plans)
    return [
        PipelineLine(
            job.job,
            job.generation,
            job.state,
            {topic: writers.get(topic, ()) for topic in _read(plan)},
            writes={topic: readers.get(topic, ()) for topic in _written(plan)},
        )
        for job, plan in plans
    ]


def tree(jobs: Sequence[PipelineLine]) -> Iterator[str]:
    """The pipelines from the topics that no job writes down to those that none reads, a line each.

    What stands below a job is drawn where the job comes first. Jobs that feed each other in a ring begin with the first
    of them.
    """
    drawn: set[str] = set()
    topics = dict.fromkeys(topic for job in jobs for topic in job.reads)
    fed = [topic for topic in topics if any(topic in job.writes for job in jobs)]
    for topic in topics:
        if topic not in fed:
            yield topic
            yield from _below(topic, jobs, drawn, "")
    for topic in fed:
        if any(topic in job.reads and job.generation not in drawn for job in jobs):
            yield topic
            yield from _below(topic, jobs, drawn, "")


def _below(topic: str, jobs: Sequence[PipelineLine], drawn: set[str], indent: str) -> Iterator[str]:
    readers = [job for job in jobs if topic in job.reads]
    for job, (corner, along) in zip(readers, _corners(len(readers)), strict=True):
        again = job.generation in drawn and bool(job.writes)
        yield f"{indent}{corner}job {job.job}: {job.state}{', see above' if again else ''}"
        if again:
            continue
        drawn.add(job.generation)
        for written, (inner, under) in zip(job.writes, _corners(len(job.writes)), strict=True):
            yield f"{indent}{along}{inner}{written}"
            yield from _below(written, jobs, drawn, f"{indent}{along}{under}")


def _corners(count: int) -> list[tuple[str, str]]:
    return [("├─ ", "│  ")] * (count - 1) + [("└─ ", "   ")] * min(count, 1)


def _read(plan: Plan) -> dict[str, None]:
    return dict.fromkeys(source.topic for source in user_sources(plan))


def _written(plan: Plan) -> dict[str, None]:
    return dict.fromkeys(topic for one in plan.operators if (topic := one.written_topic))


def _by_topic(jobs: Iterator[tuple[JobLine, Mapping[str, None]]]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for job, topics in jobs:
        for topic in topics:
            found[topic] = (*found.get(topic, ()), job.job)
    return found
