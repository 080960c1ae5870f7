"""What must hold of decided logs that are trimmed: nothing is lost that counts, and nobody is left behind.

Source: PROTOCOL 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from schemas import assignments, plans
from schemas.assignments import Change
from schemas.plans import Ended, Rejection, Retirement, Snapshot
from schemas.retired import Retired, submitted
from services.audit import recording
from services.kernel.logs.admitted import Admitted
from services.kernel.logs.jobs import Jobs, Submissions
from services.kernel.logs.standings import Standings
from tests.simulation.broker import Broker, Written, decision_of
from tests.simulation.cluster import Cluster
from tests.simulation.hosts import DriverProcess, WorkerProcess
from tests.simulation.names import TOPICS
from tests.simulation.processes import ControllerProcess, Process, ReplicaProcess

LEFT = 2
"""Snapshots that remain above a trim: a late reader compares two."""


def check(cluster: Cluster) -> Iterator[str]:
    yield from _trims(cluster)
    yield from _retirements(cluster.broker.written)
    yield from _jobs(cluster.broker.written)
    yield from _folds(cluster)


def _trims(cluster: Cluster) -> Iterator[str]:
    """Only to a snapshot that is in the log, and that another one follows."""
    for trim in cluster.broker.trims:
        if trim.partition.topic in (TOPICS.assignments, TOPICS.plans, TOPICS.submit):
            uptos = list(_uptos(cluster.broker.written[: trim.seen], trim.partition.topic))
            if trim.upto not in uptos:
                yield f"root: {trim.author} trimmed {trim.partition} to {trim.upto}, which no snapshot names"
            elif len([upto for upto in uptos if upto >= trim.upto]) < LEFT:
                yield f"root: {trim.author} trimmed {trim.partition} to {trim.upto}, the last snapshot"


def _uptos(written: list[Written], topic: str) -> Iterator[int]:
    """Of the snapshots; those in `jobs.plans` speak of `jobs.submit`, too."""
    for one in written:
        if topic == one.partition.topic == TOPICS.assignments:
            if (snapshot := assignments.decode(one.value).snapshot) is not None:
                yield snapshot.upto
        elif topic != TOPICS.assignments and one.partition.topic == TOPICS.plans:
            record = plans.decode_any(one.value)
            if isinstance(record, Snapshot):
                yield record.upto if topic == TOPICS.plans else record.submit


def _jobs(written: list[Written]) -> Iterator[str]:
    """Every snapshot of jobs says what both logs give, and every job that is retired is over."""
    for place, one in enumerate(written):
        record = plans.decode_any(one.value) if one.partition.topic == TOPICS.plans else None
        if isinstance(record, Snapshot):
            jobs, submissions = _folded(written[:place], record.upto, record.submit)
            true = submissions.check(record, jobs.known(), jobs.admitted.retired)
            if record.upto > one.offset or not jobs.check(one.offset, record) or not true:
                yield f"snapshot: that of jobs by {record.author} at {one.offset} is not what the logs give"
        if isinstance(record, Retirement):
            jobs, submissions = _folded(written[:place], one.offset, 2**53)
            below = submissions.decided(jobs.known(), jobs.admitted.retired)
            running = sorted(g for g, known in jobs.known().items() if not known.over and record.retired.has(g))
            if running or record.retired.below > below:
                yield f"retired: {record.author} retired {running or 'a job that is not decided'} in {TOPICS.plans}"


@contextmanager
def whole(broker: Broker) -> Iterator[None]:
    """While it is open a replay finds every job that there ever was, also one that is retired."""
    jobs = Jobs()
    for one in broker.written:
        if decision_of(one) is not None:
            jobs.read(one.offset, one.time_ms, one.value)
    with (
        mock.patch.object(recording, "read_jobs", return_value=jobs),
        mock.patch.object(recording, "read_admitted", return_value=jobs.admitted),
    ):
        yield


def _folded(written: list[Written], upto: int, submit: int) -> tuple[Jobs, Submissions]:
    jobs, submissions = Jobs(), Submissions()
    for one in written:
        if one.partition.topic == TOPICS.plans and one.offset < upto:
            jobs.read(one.offset, one.time_ms, one.value)
        elif one.partition.topic == TOPICS.submit and one.offset < submit:
            submissions.read(one.offset, one.time_ms, one.value)
    return jobs, submissions


def _retirements(written: list[Written]) -> Iterator[str]:
    """What is retired has ended, or was rejected, in `jobs.plans` before."""
    over, seen = set[str](), set[str]()
    admitted = Admitted()
    for one in written:
        if one.partition.topic == TOPICS.plans:
            decision = decision_of(one)
            if decision is not None and admitted.read(decision):
                seen.add(decision.generation)
                if isinstance(decision, Ended | Rejection):
                    over.add(decision.generation)
        if one.partition.topic == TOPICS.assignments:
            record = assignments.decode(one.value)
            seen |= {assignments.generation_of(change.unit) for change in record.changes}
            retired = record.retired or Retired()
            for generation in sorted(g for g in seen - over if submitted(g) is not None and retired.has(g)):
                yield f"retired: {one.author} retired {generation}, whose end is not decided"


def _folds(cluster: Cluster) -> Iterator[str]:
    """Every process that runs at the end has all units as the log gives them up to where it has read."""
    standings, states = Standings(), [dict[str, Change]()]
    for one in cluster.broker.written:
        if one.partition.topic == TOPICS.assignments:
            standings.read(one.offset, assignments.decode(one.value))
            states.append(standings.assigned.units())
    for process in cluster.processes.values():
        found = _fold_of(process) if process.alive else None
        if isinstance(process, ControllerProcess) and process.alive and process.core is not None:
            read = process.conductor.rooting.jobs.next
            true, _ = _folded(cluster.broker.written, read, 0)
            if process.core._admitted.running().keys() != true.admitted.running().keys():
                yield f"fold: {process.own} has read {read} of {TOPICS.plans}, and knows other jobs than the log gives"
        if found is not None and states[min(found[0], len(states) - 1)] != found[1]:
            yield f"fold: {process.own} has read {found[0]} assignments, and knows others than the log gives"


def _fold_of(process: Process) -> tuple[int, dict[str, Change]] | None:
    """Up to where it has read, and how units stand there for it; None: it has not begun."""
    if isinstance(process, ReplicaProcess) and process.replica is not None:
        return process.replica.core.known.standings.next, process.replica.core.known.assigned.units()
    if isinstance(process, ControllerProcess) and process.core is not None:
        return process.core.goals.standings.next, process.core.goals.standings.assigned.units()
    if isinstance(process, WorkerProcess) and process.worker is not None:
        return process.worker.decided + 1, process.worker._decisions.assigned.units()
    if isinstance(process, DriverProcess) and process.driver is not None:
        return process.driver.decided + 1, process.driver._decisions.assigned.units()
    return None
