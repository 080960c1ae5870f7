"""Machines whose CPU other work takes at times, and the delays of their heartbeats meanwhile. Pure; seeded.

Source: MECHANISMS Z4 and Z5 (transient load from 60 % to 95-100 % of the CPU). Times are milliseconds.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from dataclasses import dataclass, field

SPELL_MS = 8_000.0
"""Mean duration of a transient load in milliseconds."""
TAKEN = (0.35, 0.4)
"""Share of the CPU that a transient load takes, drawn for each: the paper's machines go from 60 % to 95-100 %."""
SLICE_MS = 100.0
"""A transient load has the CPU, or leaves it, for so long at a time. With this a unit under no scheme has about eight
times the delay under a load, as in the paper (figure Z4 has a rule for it)."""
STARVED_BEAT_MS = 150.0
"""A heartbeat of a machine under transient load is late by so much on average; exponential."""


@dataclass(frozen=True, slots=True)
class Spell:
    """A transient load.

    free: remaining share of the CPU, for each slice in turn.
    """

    from_ms: float
    to_ms: float
    free: tuple[float, ...]

    def left(self, now_ms: float) -> float:
        return self.free[int((now_ms - self.from_ms) // SLICE_MS) % len(self.free)]


def spells(share: float, until_ms: float, chance: random.Random) -> tuple[Spell, ...]:
    """Transient loads that last for this share of the time, at random: lengths and pauses are exponential, then scaled
    so that the machine is loaded for exactly this share.

    Args:
        share: below 1.
    """
    if share <= 0.0:
        return ()
    number = max(1, round(share * until_ms / SPELL_MS))
    lengths = _scaled([chance.expovariate(1.0) for _ in range(number)], share * until_ms)
    pauses = _scaled([chance.expovariate(1.0) for _ in range(number + 1)], (1 - share) * until_ms)
    found, now_ms = list[Spell](), 0.0
    for pause_ms, length_ms in zip(pauses, lengths, strict=False):
        now_ms += pause_ms
        found.append(Spell(now_ms, now_ms + length_ms, _slices(length_ms, chance)))
        now_ms += length_ms
    return tuple(found)


def _scaled(drawn: list[float], total: float) -> list[float]:
    return [one * total / sum(drawn) for one in drawn]


def _slices(length_ms: float, chance: random.Random) -> tuple[float, ...]:
    taken = chance.uniform(*TAKEN)
    return tuple(float(chance.random() >= taken) for _ in range(int(length_ms // SLICE_MS) + 1))


@dataclass(slots=True)
class Machine:
    """A worker.

    delivered_ms: arrival time of its newest heartbeat so far: no heartbeat overtakes another.
    """

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
        return 1.0 if spell is None else spell.left(now_ms)

    def arrival_ms(self, sent_ms: float, chance: random.Random) -> float:
        """Time at which a heartbeat sent now arrives."""
        late_ms = chance.expovariate(1 / STARVED_BEAT_MS) if self.loaded(sent_ms) else 0.0
        self.delivered_ms = max(self.delivered_ms, sent_ms + late_ms)
        return self.delivered_ms

    def loaded(self, now_ms: float) -> bool:
        return self._spell(now_ms) is not None

    def _spell(self, now_ms: float) -> Spell | None:
        found = bisect_right(self._starts, now_ms) - 1
        return self.spells[found] if found >= 0 and now_ms < self.spells[found].to_ms else None
