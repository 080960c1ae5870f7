"""The units of the model: costs of their processing, captures and pastes.

Source: MECHANISMS C5, C10 and W7. Times are milliseconds of CPU time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from bench.model.loads import Load

FULL_CAPTURE_MS, PARTIAL_CAPTURE_MS = 0.0186, 0.0073
FULL_PASTE_MS, PARTIAL_PASTE_MS = 0.0302, 0.0072
"""A window, as the paper measures it: c_f, c_p and the same for pastes."""
EVERY_MS = 1.0
"""Each capture and each paste, however little it holds."""


class Costs(Protocol):
    """Costs of a checkpoint at a time after the last one; math.inf: costs for the whole state."""

    def capture_ms(self, elapsed_ms: float) -> float: ...
    def paste_ms(self, elapsed_ms: float) -> float: ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """Costs that do not depend on time."""

    capture: float
    paste: float

    def capture_ms(self, elapsed_ms: float) -> float:
        return self.capture

    def paste_ms(self, elapsed_ms: float) -> float:
        return self.paste


@dataclass(frozen=True, slots=True)
class Windowed:
    """Aggregates over sliding windows: C_n c_f + C_u c_p.

    groups: number of groups that a stream touches within s seconds: `scale * s ** power`, at most `limit`.
    aggregates: number of the unit's aggregates.
    size_s: size of the windows, of which one begins each second.
    """

    scale: float
    power: float
    limit: float = math.inf
    aggregates: int = 2
    size_s: float = 10.0

    def windows(self, elapsed_ms: float) -> tuple[float, float]:
        """C_n and C_u: windows created and windows updated since the checkpoint before."""
        elapsed_s = min(elapsed_ms / 1000, self.size_s)
        groups = self.aggregates * min(self.limit, self.scale * elapsed_s**self.power)
        return groups * elapsed_s, groups * (self.size_s - elapsed_s)

    def capture_ms(self, elapsed_ms: float) -> float:
        created, updated = self.windows(elapsed_ms)
        return EVERY_MS + created * FULL_CAPTURE_MS + updated * PARTIAL_CAPTURE_MS

    def paste_ms(self, elapsed_ms: float) -> float:
        created, updated = self.windows(elapsed_ms)
        return EVERY_MS + created * FULL_PASTE_MS + updated * PARTIAL_PASTE_MS


@dataclass(frozen=True, slots=True)
class Together:
    """Several units that are captured together."""

    parts: tuple[Costs, ...]

    def capture_ms(self, elapsed_ms: float) -> float:
        return sum(part.capture_ms(elapsed_ms) for part in self.parts)

    def paste_ms(self, elapsed_ms: float) -> float:
        return sum(part.paste_ms(elapsed_ms) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit, its place and the first place of its image.

    load: load of its primary's CPU.
    """

    name: str
    primary: str
    backup: str
    load: Load
    costs: Costs


def of(units: Sequence[Unit], worker: str) -> list[Unit]:
    """Units that run on the worker."""
    return [unit for unit in units if unit.primary == worker]
