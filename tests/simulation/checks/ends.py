"""Ends of jobs: each was asked for, and nothing runs after it."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.schemas import assignments, commands
from holdfast.schemas.assignments import job_key_of
from holdfast.schemas.plans import Ended
from holdfast.schemas.savepoints import FIELD
from holdfast.services.decisions.assigned import Assigned
from tests.simulation.kafka.broker import Written, decision_of
from tests.simulation.kafka.names import TOPICS
from tests.simulation.processes.jobs import NAME


def nothing_runs_on(written: list[Written]) -> Iterator[str]:
    """No unit of a job whose end was decided gets a copy again: its topics are gone."""
    ended: set[str] = set()
    assigned = Assigned()
    for one in written:
        if one.partition.topic == TOPICS.plans:
            decision = decision_of(one)
            if isinstance(decision, Ended):
                ended.add(f"{decision.job}@{decision.generation}")
        if one.partition.topic == TOPICS.assignments:
            for change in assigned.read(assignments.decode(one.value)):
                if change.copies and job_key_of(change.unit) in ended:
                    yield f"stopped: {change.unit}#{change.epoch} has copies after the end of its job ({change.reason})"


def asked_to_end(written: list[Written]) -> Iterator[str]:
    """A job ends only after its user has asked for that."""
    asked: set[str] = set()
    for one in written:
        if one.partition.topic == TOPICS.submit:
            record = commands.decode(one.value)
            if isinstance(record, commands.Command) and record.command in ("cancel", "drain", "switch"):
                asked.add(record.job)
            elif isinstance(record, dict) and record.get(FIELD, {}).get("replaces"):
                asked.add(NAME)
        if one.partition.topic == TOPICS.plans:
            end = decision_of(one)
            if isinstance(end, Ended) and end.job not in asked:
                yield f"unasked: {end.job}@{end.generation} has ended ({end.reason}), and nobody asked for it"
