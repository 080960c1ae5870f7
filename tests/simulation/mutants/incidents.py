"""Deliberate bugs of incidents: docs/decisions/0095."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

from holdfast.services.decisions.policies import ALIGNED
from holdfast.services.recovery.core.job import incident, recovery_plan
from holdfast.services.recovery.core.job.incidents import Incidents
from holdfast.services.recovery.core.placement.room import Room
from holdfast.services.recovery.core.unit.situation import Situation
from holdfast.services.recovery.core.unit.table import recording
from holdfast.services.recovery.core.unit.table.moves import Move
from holdfast.services.recovery.core.unit.table.signs import Sign
from holdfast.services.worker.host.job import JobView


def restored_in_the_order_of_the_file() -> AbstractContextManager[object]:
    """All queries are worth the same."""
    return mock.patch.object(recovery_plan, "_density", lambda units, shares, priority: 1.0 if units else 0.0)


def shared_units_paid_by_each() -> AbstractContextManager[object]:
    """Counts a unit that several failed queries need for each of them in full."""
    return mock.patch.object(
        recovery_plan, "_density", lambda units, shares, priority: priority / len(units) if units else 0.0
    )


def drivers_counted_as_workers() -> AbstractContextManager[object]:
    """A unit of Spark's takes any slot."""
    true = recovery_plan.plan

    def plan(queries: Any, costs: Any, slots: Any, kinds: Any, consumption: Any) -> Any:
        return true(queries, costs, sum(slots.values()), consumption=consumption)

    return mock.patch.object(incident, "plan", plan)


@contextmanager
def _nor_again(bug: AbstractContextManager[object]) -> Iterator[None]:
    """Applies the bug without the rule that a taken slot is seen: that has tests/unit/recovery/test_slots.py."""
    with bug, mock.patch.object(Room, "has_slot", return_value=True):
        yield


def slots_of_other_replicas_free() -> AbstractContextManager[object]:
    """A slot is free though another replica has promised it to a unit, and is about to restore the unit there."""
    true: Callable[..., Any] = Incidents._keep_slots

    def keep(self: Incidents, room: Room, assigned: Any, planned: str, now_us: int) -> None:
        true(self, room, assigned, planned, now_us + 2**40)

    return _nor_again(mock.patch.object(Incidents, "_keep_slots", keep))


def standbys_before_restores() -> AbstractContextManager[object]:
    """A unit with a slot by the last plan no longer waits, though the slot's worker has failed since."""

    def waits(self: Incidents, assigned: Any) -> bool:
        parts = (self.part(unit, assigned) for job in self._jobs.values() for unit in job.stranded_us)
        return any(part is not None and not part.granted for part in parts)

    return _nor_again(mock.patch.object(Incidents, "waits", waits))


def slots_no_limit() -> AbstractContextManager[object]:
    """A unit gets a slot wherever there is most room, as always."""
    true: Callable[..., Any] = Room.for_primary

    def anywhere(self: Room, unit: str, without: Any = (), *, slots: bool = False) -> Any:
        return true(self, unit, without)

    return _nor_again(mock.patch.object(Room, "for_primary", anywhere))


def restored_on_its_old_line() -> AbstractContextManager[object]:
    """Restores a unit at its own newest checkpoint, whatever the incident says."""
    true: Callable[..., int] = recording._line

    def line(situation: Situation, sign: Sign, move: Move) -> int:
        return true(situation, sign, move) if move is Move.GO_BACK else situation.change.line

    return mock.patch.object(recording, "_line", line)


def never_over() -> AbstractContextManager[object]:
    """Nobody sees that all units of an incident run again."""
    signs: Mapping[Any, Any] = incident.SIGNS
    return mock.patch.dict(signs, {incident.Sign.BACK: lambda scene: False})


@contextmanager
def waiting_for_ever() -> Iterator[None]:
    """Slots are a hard limit also when no worker comes any more, and free ones are not looked for again."""
    signs: Mapping[Any, Any] = incident.SIGNS
    without = {incident.Sign.NO_WORKER_CAME: lambda scene: False, incident.Sign.OTHER_SLOTS: lambda scene: False}
    with mock.patch.dict(signs, without):
        yield


def forgotten_by_the_next_replica() -> AbstractContextManager[object]:
    """A replica knows only of incidents whose beginning it has seen itself."""
    true = Incidents.part

    def part(self: Incidents, unit: str, assigned: Any) -> Any:
        found = true(self, unit, assigned)
        return found if found is None or found.granted else None

    return mock.patch.object(Incidents, "part", part)


def trimmed_in_an_incident() -> AbstractContextManager[object]:
    """While an incident is open nothing is held for the global checkpoint."""

    def held(self: JobView) -> int | None:
        one = self.assigned.incident(self.job_key)
        trims = one is not None and not one.over
        return None if trims or self.checkpoint.policy != ALIGNED else self.assigned.complete(self.job_key)

    return mock.patch.object(JobView, "held", property(held))
