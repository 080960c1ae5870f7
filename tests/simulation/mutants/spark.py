"""Deliberate bugs of Spark drivers: commits.py catches the first three, what is known of moves the fourth, and the
invariants of the core the last.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from holdfast.services.decisions.commits import CommitLog
from holdfast.services.recovery.core.unit.rules import moving
from holdfast.services.spark import copy
from holdfast.services.spark.core import lifecycle, taking_over
from holdfast.services.spark.core.lifecycle import Action, Goal, Lifecycle, State
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
