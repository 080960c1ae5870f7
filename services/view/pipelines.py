"""Pipelines of jobs: one job reads a topic to which another job delivers.

Source: JOBS "holdfast list".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from holdfast.schemas.plans import Plan
from holdfast.services.planning.description import user_sources
from holdfast.services.view.cluster import ClusterView
from holdfast.services.view.lines import JobLine


class PipelineLine(msgspec.Struct, frozen=True):
    """A job of `holdfast list --graph`.

    reads: the topics of its sources, each with the jobs that deliver to it.
    writes: the topics of its queries, each with the jobs that read it.
    latency_ms: by written topic, milliseconds from the arrival of a record in its sources until its results are out.
    end_to_end_ms: by written topic, milliseconds from the arrival in the first topic of the pipeline, on the slowest
        way; null: a latency on the way is not known.
    watermark: the lowest watermark of its units; null: not known.
    """

    job: str
    generation: str
    state: str
    reads: dict[str, tuple[str, ...]]
    writes: dict[str, tuple[str, ...]]
    latency_ms: dict[str, float | None] = {}
    end_to_end_ms: dict[str, float | None] = {}
    watermark: str | None = None


def pipelines(view: ClusterView, jobs: Sequence[JobLine], now_ms: int = 0) -> list[PipelineLine]:
    """The jobs with the topics that they read and write, in order; jobs without a plan, such as rejected ones, are left
    out.
    """
    plans = [(job, plan) for job in jobs if (plan := view.plan(job.generation)) is not None]
    readers = _by_topic((job, _read(plan)) for job, plan in plans)
    writers = _by_topic((job, _written(plan)) for job, plan in plans)
    found = []
    for job, plan in plans:
        status = view.status(job, now_ms)
        latencies = {one.query: one.latency_ms for one in status.queries}
        line = PipelineLine(
            job.job,
            job.generation,
            job.state,
            {topic: writers.get(topic, ()) for topic in _read(plan)},
            writes={topic: readers.get(topic, ()) for topic in _written(plan)},
            latency_ms={topic: latencies.get(query) for topic, query in _written(plan).items()},
            watermark=min((one.watermark for one in status.units if one.watermark), default=None),
        )
        found.append(line)
    own = {topic: (line.latency_ms[topic], line) for line in found for topic in line.writes}
    return [
        msgspec.structs.replace(line, end_to_end_ms={topic: _end_to_end(topic, own, ()) for topic in line.writes})
        for line in found
    ]


def _end_to_end(
    topic: str, own: Mapping[str, tuple[float | None, PipelineLine]], under_way: tuple[str, ...]
) -> float | None:
    """Latency of a written topic over the whole pipeline; None if a latency is not known, or in a ring, which has no
    beginning.

    own: for each topic that a job writes, the latency of that job, and the job.
    """
    latency, line = own[topic]
    above = [one for one in line.reads if one in own]
    if latency is None or topic in under_way:
        return None
    ways = [_end_to_end(one, own, (*under_way, topic)) for one in above]
    known = [way for way in ways if way is not None]
    return None if len(known) < len(ways) else round(latency + max(known, default=0.0), 1)


def tree(jobs: Sequence[PipelineLine]) -> Iterator[str]:
    """The pipelines from the topics that no job writes to those that no job reads, one line each.

    The lines below a job are drawn where the job occurs first. A ring of jobs begins with the first of them.
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
        reached = f", watermark {job.watermark}" if job.watermark and not again else ""
        yield f"{indent}{corner}job {job.job}: {job.state}{reached}{', see above' if again else ''}"
        if again:
            continue
        drawn.add(job.generation)
        for written, (inner, under) in zip(job.writes, _corners(len(job.writes)), strict=True):
            yield f"{indent}{along}{inner}{written}{_latency(job, written)}"
            yield from _below(written, jobs, drawn, f"{indent}{along}{under}")


def _latency(job: PipelineLine, topic: str) -> str:
    """Text with the latency of the job and, if other jobs are above it, of the pipeline."""
    own, whole = job.latency_ms.get(topic), job.end_to_end_ms.get(topic)
    if own is None:
        return ""
    return f", {own:g} ms" if whole in (None, own) else f", {own:g} ms; {whole:g} ms end to end"


def _corners(count: int) -> list[tuple[str, str]]:
    return [("├─ ", "│  ")] * (count - 1) + [("└─ ", "   ")] * min(count, 1)


def _read(plan: Plan) -> dict[str, None]:
    return dict.fromkeys(source.topic for source in user_sources(plan))


def _written(plan: Plan) -> dict[str, str]:
    """The query of each written topic."""
    return {topic: one.sink.query for one in plan.operators if (topic := one.written_topic)}


def _by_topic(jobs: Iterator[tuple[JobLine, Iterable[str]]]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for job, topics in jobs:
        for topic in topics:
            found[topic] = (*found.get(topic, ()), job.job)
    return found
