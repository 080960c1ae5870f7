"""Deliberate bugs of Spark drivers: commits.py catches the first three, the knowledge about moves the fourth, the
invariants of the core the fifth, and the true files of each commit the others.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from holdfast.schemas.commits import Commit
from holdfast.schemas.query_files import Note
from holdfast.services.decisions.commits import CommitLog
from holdfast.services.recovery.core.unit.rules import moving
from holdfast.services.spark import copy
from holdfast.services.spark.core import lifecycle, taking_over
from holdfast.services.spark.core.lifecycle import Action, Goal, Lifecycle, State
from holdfast.services.spark.core.received_files import ReceivedFiles
from holdfast.services.spark.core.sent_files import SentFiles
from holdfast.services.spark.core.taking_over import Takeover, Verdict
from tests.simulation.observers.facts import mistaken


def batch_committed_twice() -> AbstractContextManager[object]:
    """A micro-batch that counts already is written and committed once more, as the next one."""
    true = taking_over.verdict

    def verdict(log: CommitLog, epoch: int, batch: int) -> Verdict:
        found = true(log, epoch, batch)
        return Verdict.COMMIT if found is Verdict.DISCARD else found

    return mock.patch.object(copy, "verdict", verdict)


def checkpoint_forgotten() -> AbstractContextManager[object]:
    """A driver that takes over begins a new query, from the first record."""
    return mock.patch.object(taking_over, "takeover", return_value=Takeover())


def drained_without_what_arrived() -> AbstractContextManager[object]:
    """A drain ends with what is committed, whatever has arrived since."""
    row = (State.ARRIVING, lifecycle.InputEnded, None)
    return mock.patch.dict(lifecycle.TRANSITIONS, {row: (State.CLOSING, (Action.COMMIT_LAST,))})


def handed_to_a_driver_unrehearsed() -> AbstractContextManager[object]:
    """A query moves to a driver that has not rehearsed it: nobody runs it until that has."""
    true = moving.arrived
    return mistaken(moving, "arrived", lambda situation: bool(situation.terms.host) or true(situation))


def standby_leads() -> AbstractContextManager[object]:
    """A copy leads whether it holds `commit` or not."""

    def goal(self: Lifecycle, event: Any) -> Goal:
        return Goal.RUN

    return mock.patch.object(Lifecycle, "goal", goal)


def files_deleted_before_the_commit() -> AbstractContextManager[object]:
    """Files that a micro-batch does not need any more are deleted before it counts."""

    def forgettable(self: SentFiles, last: Commit | None) -> list[bytes]:
        return list(self._needless)

    return mock.patch.object(SentFiles, "forgettable", forgettable)


def newest_files_taken() -> AbstractContextManager[object]:
    """A takeover takes the files of the newest micro-batch, whether its commit is valid or not."""

    def note(self: ReceivedFiles, epoch: int, k: int, attempt: int) -> Note:
        return max(self._notes.values(), key=lambda one: (one.epoch, one.k, one.attempt))

    return mock.patch.object(ReceivedFiles, "note", note)
