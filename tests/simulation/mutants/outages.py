"""Deliberate bugs of outages: docs/decisions/0168."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any
from unittest import mock

from msgspec import structs

from holdfast.schemas.outages import Outage
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.recovery.core.outages import noting
from holdfast.services.recovery.core.outages.noting import Outages
from holdfast.services.recovery.core.unit.facts import crashes
from holdfast.services.recovery.core.unit.rules.stranding import without_leader
from holdfast.services.recovery.core.unit.situation import Situation
from holdfast.services.worker.core.counting_units import CountingUnits
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


@method(Assigned, "_read_outage")
def outage_of_any_epoch(true: Callable[..., None], self: Assigned, one: Outage) -> None:
    """A replica that has not read the newest placement of a unit may say that the unit is out."""
    last = self.outage(one.unit_key)
    if (last is None or last.over) and not one.over and self.epoch(one.unit_key):
        one = structs.replace(one, epoch=self.epoch(one.unit_key))
    true(self, one)


@method(CountingUnits, "slowest")
def sources_wait_for_tentative_units(
    true: Callable[..., int], self: CountingUnits, own: str, processed: Any, newest: int, now_ms: float, runs: Any
) -> int:
    """Units below one that is out hold the sources back, as if their tentative batches were stable."""
    true(self, own, processed, newest, now_ms, runs)
    return min((batch for unit, batch in processed.items() if unit == own or unit not in self._away), default=0)


def crash_at_a_tentative_batch_counts() -> AbstractContextManager[object]:
    """It is one like that at a stable batch: no outage is banned by it, and the third one is no chance."""
    ended: Callable[..., None] = lambda self, record, assigned: None  # noqa: E731
    both = ExitStack()
    both.enter_context(mock.patch.object(crashes, "LINE", "none"))
    both.enter_context(mock.patch.object(Outages, "ended", ended))
    return both
