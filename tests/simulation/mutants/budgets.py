"""Deliberate bugs of replication budgets: docs/decisions/0146."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from typing import Any
from unittest import mock

import msgspec

from holdfast.schemas import formats
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.kernel.fidelity.of_job import Planned
from holdfast.services.recovery.core.replication import answering, replanning
from holdfast.services.recovery.core.replication.answering import Answer
from holdfast.services.recovery.core.replication.replanning import Replication
from tests.simulation.mutants.bug import method


@method(Planned, "budget")
def planned_over_budget(true: Any, self: Planned, share: float) -> int:
    """A plan names one unit more than the budget allows."""
    return int(true(self, share)) + 1


def planned_before_all_read_plans() -> AbstractContextManager[object]:
    """A replica makes plans whatever the other processes read."""
    return mock.patch.object(formats, "PLANS", formats.FIRST)


def own_plan_followed() -> AbstractContextManager[object]:
    """A replica directs units by what its own planner answered last, and not by the newest record."""
    own, true_answered, true_direct = (
        dict[tuple[int, str], tuple[str, ...]](),
        Replication.answered,
        Replication._direct,
    )

    def answered(self: Replication, answer: Answer, *rest: Any) -> None:
        own[id(self), answer.question.job] = answer.units
        true_answered(self, answer, *rest)

    def direct(self: Replication, key: str, known: Any, some: frozenset[str], assigned: Assigned) -> None:
        newest = assigned.replication(key)
        if newest is not None:
            newest = msgspec.structs.replace(newest, units=own.get((id(self), key), newest.units))
        with mock.patch.object(assigned, "replication", return_value=newest):
            true_direct(self, key, known, some, assigned)

    return mock.patch.multiple(Replication, answered=answered, _direct=direct)


def replanned_to_and_fro() -> AbstractContextManager[object]:
    """Every answer that differs from the plan becomes the plan."""
    bug = ExitStack()
    bug.enter_context(mock.patch.multiple(replanning, MARGIN=-1.0, LOOKS=1, COOL_DOWN_US=0))
    bug.enter_context(mock.patch.object(answering, "KEPT", 0.0))
    return bug


def upgraded_before_downgraded() -> AbstractContextManager[object]:
    """A replica that is to go counts as gone already."""
    true = Replication._direct

    def direct(self: Replication, key: str, known: Any, own: frozenset[str], assigned: Assigned) -> None:
        share, plan = known.share, assigned.replication(key)
        changes = {} if plan is None else {name: assigned.of(unit) for unit, name in known.units.items()}
        goes = sum(
            plan is not None and change is not None and name not in plan.units and change.scheme in replanning._ACTIVE
            for name, change in changes.items()
        )
        known.share += goes / max(len(known.units) - len(own), 1)
        true(self, key, known, own, assigned)
        known.share = share

    return mock.patch.object(Replication, "_direct", direct)


def replanned_whatever_happens() -> AbstractContextManager[object]:
    """The planner is asked, and its answer counts, though copies are missing or an incident is open."""
    true_answered, true_look = Replication.answered, Replication.look

    def answered(self: Replication, answer: Answer, assigned: Assigned, calm: Any, now_us: int) -> None:
        true_answered(self, answer, assigned, lambda: True, now_us)

    def look(self: Replication, assigned: Assigned, asked_of: Any, calm: Any, now_us: int) -> None:
        true_look(self, assigned, asked_of, lambda: True, now_us)

    return mock.patch.multiple(Replication, answered=answered, look=look)
