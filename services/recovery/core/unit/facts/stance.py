"""Stances of the copies of a unit to each other, as one record states them, and copies that no row of the table
gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from holdfast.schemas.assignments import PRIMARY, Change
from holdfast.services.kernel.plurals import plural
from holdfast.services.recovery.core.unit.facts.schemes import SCHEMES, Rung


class Stance(Enum):
    """Stance of the copies of a unit to each other, as its last valid assignment says."""

    UNPLACED = "unplaced"
    ALONE = "alone"
    NORMAL = "normal"
    SWITCHED = "switched"
    MOVING = "moving"
    REASSIGNING = "reassigning"

    __hash__ = object.__hash__  # see Sign


MOST: Mapping[Stance, int] = {
    Stance.UNPLACED: 0,
    Stance.ALONE: 1,
    Stance.NORMAL: 2,
    Stance.SWITCHED: 2,
    Stance.MOVING: 3,
    Stance.REASSIGNING: 3,
}
"""Largest number of copies that the table gives a unit, by the stance of the record."""
UNDER_WAY = (Stance.MOVING, Stance.REASSIGNING)
"""Stances with a temporary copy."""


def stance(change: Change | None) -> Stance:
    """Returns the stance of a record, by its flags alone, so that every replica finds the same stance."""
    if change is None or not change.copies:
        return Stance.UNPLACED
    if change.arriving is not None:
        return Stance.MOVING
    if change.replacing is not None:
        return Stance.REASSIGNING
    if len(change.copies) == 1:
        return Stance.ALONE
    return Stance.NORMAL if change.copies[0].flags.commit else Stance.SWITCHED


def odd_copies(change: Change) -> str:
    """Returns why no row of the table gives a unit these copies; empty if a row may."""
    most = MOST[stance(change)]
    if len(change.copies) > most:
        copies = plural(len(change.copies), "copy", "copies")
        return f"{copies}, and a unit that is {stance(change).value} has at most {most}"
    for copy in change.copies:
        known = copy.flags == PRIMARY if copy.flags.commit else Rung.of(copy.flags) is not None
        if not known:
            return f"{copy.worker} has flags of no scheme: {copy.flags}"
    return ""


def unexplained(change: Change) -> str:
    """Returns the part of a record that no row of the table gives; empty if a row may have made it."""
    unknown = f"there is no scheme '{change.scheme}'" if change.scheme not in SCHEMES else ""
    return odd_copies(change) or unknown
