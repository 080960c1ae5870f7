"""Requests for units by commands in `jobs.submit`; the last request of each kind counts, once.

Source: PROTOCOL 8.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from holdfast.services.recovery.core.unit.facts.schemes import ADAPTIVE, SCHEMES
from holdfast.services.recovery.core.unit.facts.terms import Asked, AskedMove


@dataclass(slots=True)
class Asks:
    """Requests by unit.

    schemes, moves: the last request of each unit.
    accepts: offset of the last command that lets the versions lead that run then.
    """

    schemes: dict[str, Asked] = field(default_factory=dict)
    moves: dict[str, AskedMove] = field(default_factory=dict)
    accepts: dict[str, int] = field(default_factory=dict)

    def scheme(self, unit: str, asked: Asked) -> list[str]:
        """Takes a request for a scheme; returns the units that it concerns, as `move` and `accept` do."""
        last = self.schemes.get(unit)
        if asked.scheme not in (*SCHEMES, ADAPTIVE) or (last is not None and asked.offset <= last.offset):
            return []
        self.schemes[unit] = asked
        return [unit]

    def move(self, unit: str, asked: AskedMove) -> list[str]:
        last = self.moves.get(unit)
        if last is not None and asked.offset <= last.offset:
            return []
        self.moves[unit] = asked
        return [unit]

    def accept(self, units: Iterable[str], offset: int) -> list[str]:
        concerned = [unit for unit in units if self.accepts.get(unit, -1) < offset]
        self.accepts.update(dict.fromkeys(concerned, offset))
        return concerned

    def forget(self, unit: str) -> None:
        for known in (self.schemes, self.moves, self.accepts):
            known.pop(unit, None)
