"""Deliberate bugs of where standbys are and how they move. None loses a row while nothing fails in the wrong moment."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from typing import Any
from unittest import mock

from holdfast.services.kernel.protection import reassigning as planning
from holdfast.services.kernel.protection.reassigning import LITERAL, reassigned
from holdfast.services.recovery.core.placement import reassignment, room, sharing
from holdfast.services.recovery.core.placement.room import Candidate, Room
from holdfast.services.recovery.core.placement.sharing import Claim, HeldStandby
from holdfast.services.recovery.core.unit.facts import terms
from holdfast.services.recovery.core.unit.facts.stance import Stance
from holdfast.services.recovery.core.unit.rules import reassigning
from holdfast.services.recovery.core.unit.situation import Situation
from holdfast.services.recovery.core.unit.table import switching
from holdfast.services.recovery.core.unit.table.moves import MOVES, Move
from holdfast.services.recovery.core.unit.table.signs import Sign
from tests.simulation.observers.facts import mistaken


def standbys_on_one_peer() -> AbstractContextManager[object]:
    """The standbys of a worker gather where most of them are."""
    true = Room._as_secondary

    def gathered(self: Room, primary: str, candidate: Candidate, spread: str) -> Any:
        unshown, near, full, group, *rest = true(self, primary, candidate, spread)
        return (unshown, near, full, -group, *rest)

    return mock.patch.object(Room, "_as_secondary", gathered)


@contextmanager
def former_standby_let_go_first() -> Iterator[None]:
    """A standby that moves is taken from where it was in the same record."""

    def begin(situation: Situation, rooms: Any) -> Any:
        copies = reassigning.begin(situation, rooms)
        return None if copies is None else (copies[0], copies[2])

    key, move = (Stance.NORMAL, Sign.STANDBY_ELSEWHERE), Move.REASSIGN
    row, made = {key: (Stance.NORMAL, move)}, {move: begin}
    with mock.patch.dict(switching.TRANSITIONS, row), mock.patch.dict(MOVES, made):
        yield


def new_standby_not_waited_for() -> AbstractContextManager[object]:
    """The former standby goes as soon as the record of the new one is read."""
    return mistaken(reassigning, "complete", lambda situation: True)


def standbys_in_any_zone() -> AbstractContextManager[object]:
    """A standby may move into the zone of its primary."""
    return mock.patch.object(reassigning, "nearer", return_value=False)


def all_of_a_difference_moves() -> AbstractContextManager[object]:
    """Moves all of the difference as the paper prints it, f = 1."""

    def literal(units: Any, workers: Any, share: float = LITERAL, least_ms: float = 0.0) -> Any:
        return reassigned(units, workers, LITERAL, least_ms)

    return mock.patch.object(reassignment, "reassigned", literal)


def flooded_worker_not_relieved() -> AbstractContextManager[object]:
    """Moves only the worst worker's own standbys, or none, where it has an empty group of its own.

    None of the histories that were tried shows it: a worker has to hold most standbys of the others. test_reassigned.py
        does.
    """
    true = planning._moved

    def as_printed(*asked: Any) -> Any:
        calls = count()
        with mock.patch.object(planning, "_moved", lambda *a: true(*a) if next(calls) == 0 else ()):
            return reassigned(*asked)

    return mock.patch.object(reassignment, "reassigned", as_printed)


def capacity_ignored() -> AbstractContextManager[object]:
    """A worker gets standbys whatever it may hold."""
    return mock.patch.object(room, "_most", return_value=math.inf)


def priority_ignored() -> AbstractContextManager[object]:
    """All queries are as important."""
    return mock.patch.object(terms, "priorities", lambda plan: {unit.name: 1 for unit in plan.units})


def places_taken_from_equals() -> AbstractContextManager[object]:
    """A unit that waits takes the place of one that is as important, which then waits, and takes it back."""

    def places(claim: Claim, held: Iterable[HeldStandby]) -> list[HeldStandby]:
        return [one for one in held if one.worker in claim.workers and one.priority <= claim.priority]

    return mock.patch.object(sharing, "_places", places)
