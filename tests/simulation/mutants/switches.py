"""Deliberate bugs of how a switched unit goes back. None loses a row while nothing fails in the wrong moment."""

from __future__ import annotations

from contextlib import AbstractContextManager
from unittest import mock

from holdfast.services.recovery.core.unit.facts.copies import Copies, Rooms, leading, with_flags
from holdfast.services.recovery.core.unit.facts.schemes import Rung
from holdfast.services.recovery.core.unit.situation import Situation
from holdfast.services.recovery.core.unit.table.moves import MOVES, Move
from holdfast.services.recovery.core.unit.table.signs import SIGNS, Sign


def calm_not_waited_for() -> AbstractContextManager[object]:
    """The primary leads again as soon as it answers and has caught up."""
    return mock.patch.object(Situation, "calm", Situation.answers)


def primary_suspended_by_a_switch() -> AbstractContextManager[object]:
    """The primary does nothing until it leads again, so that one copy alone sends."""

    def take_over(s: Situation, rooms: Rooms) -> Copies:
        return with_flags(s.primary, Rung.HOT), leading(s.secondary)

    return mock.patch.dict(MOVES, {Move.SWITCH: take_over})


def secondary_suspended_by_its_silence() -> AbstractContextManager[object]:
    """The primary leads alone as soon as the secondary, which led, misses a heartbeat."""
    return mock.patch.dict(MOVES, {Move.LEAD_AGAIN: MOVES[Move.SWITCH_BACK]})


def unsteady_primary_waited_for() -> AbstractContextManager[object]:
    """A primary that is heard again and again, and never for long, is waited for without end."""
    return mock.patch.dict(SIGNS, {Sign.PRIMARY_UNSTEADY: lambda s: False})
