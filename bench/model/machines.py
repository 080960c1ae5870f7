"""Machines whose CPU somebody else wants now and then, and how late their heartbeats are meanwhile. Pure; seeded.

Source: MECHANISMS Z4 and Z5 (transient load from 60 % to 95-100 % of the CPU). Times are milliseconds.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from dataclasses import dataclass, field

SPELL_MS = 8_000.0
"""A transient load lasts so long on average."""
FREE = (0.4, 0.6)
"""What a transient load leaves of the CPU to the units here, drawn for each."""
STARVED_BEAT_MS = 150.0
"""A heartbeat of a machine under transient load is late by so much on average; exponential."""


@dataclass(frozen=True, slots=True)
class Spell:
    """One transient load. free: the share of the CPU that is left."""

    from_ms: float
    to_ms: float
    free: float


def spells(share: float, until_ms: float, chance: random.Random) -> tuple[Spell, ...]:
    """Transient loads that last for this share of the time on average, at random: lengths and pauses exponential.

    Args:
        share: below 1.
    """
    if share <= 0.0:
        return ()
    pause_ms = SPELL_MS * (1 - share) / share
    found, now_ms = list[Spell](), chance.expovariate(1 / pause_ms) * chance.random()
    while now_ms < until_ms:
        end_ms = now_ms + chance.expovariate(1 / SPELL_MS)
        found.append(Spell(now_ms, end_ms, chance.uniform(*FREE)))
        now_ms = end_ms + chance.expovariate(1 / pause_ms)
    return tuple(found)


@dataclass(slots=True)
class Machine:
    """One worker. delivered_ms: when the newest heartbeat so far arrives: none overtakes another."""

    name: str
    zone: str
    slots: int
    spells: tuple[Spell, ...] = ()
    phase_ms: float = 0.0
    delivered_ms: float = 0.0
    _starts: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._starts = [spell.from_ms for spell in self.spells]

    def free(self, now_ms: float) -> float:
        """The share of the CPU that the units here have."""
        spell = self._spell(now_ms)
        return 1.0 if spell is None else spell.free

    def arrival_ms(self, sent_ms: float, chance: random.Random) -> float:
        """When a heartbeat sent now arrives."""
        late_ms = chance.expovariate(1 / STARVED_BEAT_MS) if self._spell(sent_ms) is not None else 0.0
        self.delivered_ms = max(self.delivered_ms, sent_ms + late_ms)
        return self.delivered_ms

    def _spell(self, now_ms: float) -> Spell | None:
        found = bisect_right(self._starts, now_ms) - 1
        return self.spells[found] if found >= 0 and now_ms < self.spells[found].to_ms else None
