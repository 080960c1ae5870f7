"""Rules for decided logs that are trimmed: nothing is lost that counts, and nobody is left behind.

Source: PROTOCOL 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from holdfast.schemas import assignments, plans
from holdfast.schemas.assignments import Change
from holdfast.schemas.plans import Ended, Rejection, Retirement, Snapshot
from holdfast.schemas.retired import Retired, submitted
from holdfast.services.audit import recording
from holdfast.services.decisions.admitted import Admitted
from holdfast.services.decisions.jobs import Jobs, Submissions
from holdfast.services.decisions.standings import Standings
from tests.simulation.kafka.broker import Broker, Written, decision_of
from tests.simulation.kafka.names import TOPICS
from tests.simulation.processes.cluster import Cluster
from tests.simulation.processes.hosts import DriverProcess, WorkerProcess
from tests.simulation.processes.services import ControllerProcess, Process, ReplicaProcess

LEFT = 2
"""Snapshots that remain above a trim: a late reader compares two."""


def check(cluster: Cluster) -> Iterator[str]:
    yield from _trims(cluster)
    yield from _retirements(cluster.broker.written)
    yield from _jobs(cluster.broker.written)
    yield from _folds(cluster)


def _trims(cluster: Cluster) -> Iterator[str]:
    """Only to a snapshot that is in the log, and that another one follows."""
    named = _uptos(cluster.broker.written)
    for trim in cluster.broker.trims:
        if trim.partition.topic in named:
            uptos = [upto for place, upto in named[trim.partition.topic] if place < trim.seen]
            if trim.upto not in uptos:
                yield f"root: {trim.author} trimmed {trim.partition} to {trim.upto}, which no snapshot names"
            elif len([upto for upto in uptos if upto >= trim.upto]) < LEFT:
                yield f"root: {trim.author} trimmed {trim.partition} to {trim.upto}, the last snapshot"


def _uptos(written: list[Written]) -> dict[str, list[tuple[int, int]]]:
    """By topic, of each snapshot: its place in the trace, and its offset. Those in `jobs.plans` speak of `jobs.submit`,
    too."""
    named: dict[str, list[tuple[int, int]]] = {TOPICS.assignments: [], TOPICS.plans: [], TOPICS.submit: []}
    for place, one in enumerate(written):
        if one.partition.topic == TOPICS.assignments:
            if (snapshot := assignments.decode(one.value).snapshot) is not None:
                named[TOPICS.assignments].append((place, snapshot.upto))
        elif one.partition.topic == TOPICS.plans:
            record = plans.decode_any(one.value)
            if isinstance(record, Snapshot):
                named[TOPICS.plans].append((place, record.upto))
                named[TOPICS.submit].append((place, record.submit))
    return named


class _Folds:
    """`jobs.plans` and `jobs.submit`, folded up to any offset of each: from where it was before, if that is below."""

    def __init__(self) -> None:
        self.plans: list[Written] = []
        self.submit: list[Written] = []
        self._jobs, self._taken = Jobs(), 0
        self._submissions, self._heard = Submissions(), 0

    def add(self, one: Written) -> None:
        if one.partition.topic == TOPICS.plans:
            self.plans.append(one)
        elif one.partition.topic == TOPICS.submit:
            self.submit.append(one)

    def to(self, upto: int, submit: int) -> tuple[Jobs, Submissions]:
        """Folds of all records below. The result counts until the next call."""
        if self._jobs.next > upto:
            self._jobs, self._taken = Jobs(), 0
        while self._taken < len(self.plans) and self.plans[self._taken].offset < upto:
            one = self.plans[self._taken]
            self._jobs.read(one.offset, one.time_ms, one.value)
            self._taken += 1
        if self._submissions.next > submit:
            self._submissions, self._heard = Submissions(), 0
        while self._heard < len(self.submit) and self.submit[self._heard].offset < submit:
            one = self.submit[self._heard]
            self._submissions.read(one.offset, one.time_ms, one.value)
            self._heard += 1
        return self._jobs, self._submissions


def _jobs(written: list[Written]) -> Iterator[str]:
    """Every snapshot of jobs says what both logs give, and every job that is retired is over."""
    snapshots, retirements = _Folds(), _Folds()
    for one in written:
        record = plans.decode_any(one.value) if one.partition.topic == TOPICS.plans else None
        if isinstance(record, Snapshot):
            jobs, submissions = snapshots.to(record.upto, record.submit)
            true = submissions.check(record, jobs.known(), jobs.admitted.retired)
            if record.upto > one.offset or not jobs.check(one.offset, record) or not true:
                yield f"snapshot: that of jobs by {record.author} at {one.offset} is not what the logs give"
        if isinstance(record, Retirement):
            jobs, submissions = retirements.to(one.offset, 2**53)
            below = submissions.decided(jobs.known(), jobs.admitted.retired)
            running = sorted(g for g, known in jobs.known().items() if not known.over and record.retired.has(g))
            if running or record.retired.below > below:
                yield f"retired: {record.author} retired {running or 'a job that is not decided'} in {TOPICS.plans}"
        snapshots.add(one)
        retirements.add(one)


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


def _retirements(written: list[Written]) -> Iterator[str]:
    """Checks that retired jobs have ended, or were rejected, in `jobs.plans` before."""
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
    folds = _Folds()
    for one in cluster.broker.written:
        folds.add(one)
    for process in cluster.processes.values():
        found = _fold_of(process) if process.alive else None
        if isinstance(process, ControllerProcess) and process.alive and process.core is not None:
            read = process.conductor.rooting.jobs.next
            true, _ = folds.to(read, 0)
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
