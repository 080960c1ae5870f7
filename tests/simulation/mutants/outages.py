"""Deliberate bugs of outages: docs/decisions/0168."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from holdfast.services.decisions.assigned import Assigned
from holdfast.services.recovery.core.outages import noting
from holdfast.services.recovery.core.outages.noting import Outages
from holdfast.services.recovery.core.unit.rules.stranding import without_leader
from holdfast.services.recovery.core.unit.situation import Situation
from tests.simulation.mutants.bug import method


@method(noting, "_recovered")
def outage_withdrawn_by_the_placement(true: Any, s: Situation, batch: int) -> bool:
    """Ends an outage once the new copy is there, however much it has yet to process."""
    return s.change.committer is not None and not s.gone(s.change.committer)


@method(noting, "_recovered")
def outage_never_over(true: Any, s: Situation, batch: int) -> bool:
    """Ends an outage only with the end of its unit."""
    return False


def outage_not_noted_with_the_placement() -> AbstractContextManager[object]:
    """Only a unit that has no place for a while is noted: one that is placed at once never is."""
    true: Callable[[Outages, Situation, Assigned], None] = Outages.look_at
    seen: set[tuple[int, str, int]] = set()

    def look_at(self: Outages, situation: Situation, assigned: Assigned) -> None:
        key = id(self), situation.change.unit, situation.change.epoch
        if key in seen:
            true(self, situation, assigned)
        elif without_leader(situation):
            seen.add(key)

    return mock.patch.object(Outages, "look_at", look_at)
