"""Sinks, dead letters, frames and checkpoints against a replay of the cuts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.schemas.frames import FLAG_TENTATIVE, unpack
from holdfast.services.audit import begun as beginnings
from holdfast.services.audit.replay import replay
from holdfast.services.kernel.errors import CommandFailed, HoldfastError
from holdfast.services.worker.unit.outputs import outputs
from tests.simulation.checks import (
    roots,
)
from tests.simulation.checks.generation import Generation
from tests.simulation.faults import renewals
from tests.simulation.kafka.names import TOPICS
from tests.simulation.observers.images import State
from tests.simulation.observers.reference import Reference, frame, said
from tests.simulation.processes.cluster import Cluster
from tests.simulation.processes.jobs import NAME


def same_as_replayed(
    cluster: Cluster, generation: Generation, states: Mapping[tuple[str, int], State]
) -> Iterator[str]:
    """Invariants 1, 2 and 6: sinks and dead letters, frames and checkpoints hold what a replay of the cuts computes.

    A job that was cancelled before its topics were created has cut nothing.
    """
    if generation.topics.cuts not in cluster.broker.created:
        return
    plan = generation.plan
    begin = None if plan.seed is None else beginnings.begun(plan, beginnings.stored(cluster.broker, plan))
    reference = Reference(plan, generation.topics, states, vars(outputs)["MAX_FRAME_BYTES"], begin)
    named_job = generation.plan.generation
    try:
        with renewals.whole(cluster.broker, reference), roots.whole(cluster.broker):
            report = replay(cluster.broker, TOPICS, NAME, generation=named_job, run_by=lambda *_: reference)
    except (HoldfastError, CommandFailed) as error:
        yield f"replay: {error}"
        return
    if report.miscounted:
        yield f"gap: {report.miscounted[0]}"
    elif not report.exact:
        first = "; ".join(str(difference) for difference in report.differences[:3])
        yield f"replay differs: rows {report.rows}, dead letters {report.dead_letters}: {first}"
    for unit, batch in reference.differ[:1]:
        yield f"state: the checkpoint of {unit} at batch {batch} is not what the cuts up to there give"
    for one in cluster.broker.written:
        if one.partition.topic.startswith(f"{generation.topics.root}.data."):
            header = unpack(one.value)
            if header.flags & FLAG_TENTATIVE:
                continue
            if header.batch <= reference.batch and reference.frames.get(frame(one.partition, header)) != said(header):
                yield f"frame: {one.author} sent another batch {header.batch} to {one.partition} than the cuts give"
                return
