"""Between two sweeps a unit with a standby captures, too, for as long as that writes hardly more.

The standby continues from the newest marker and processes again what came since, so a failover is as short as the
marker is near. It is worth its bytes where keys seldom come again from one sweep to the next: then the same entries are
written, only sooner. Source: MECHANISMS H1 (each checkpoint refreshes the secondary), PROTOCOL 6.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from holdfast.services.worker.checkpoint.policies.policy import Kind, Stateless, UnitView

REFRESH_MS = 100
MIN_BATCHES = 4
"""So few are quickly processed again."""
MAX_KEYS = 5_000
"""Changed from one sweep to the next. It bounds what is remembered, and what is encoded between two batches."""
MAX_REPEATED = 0.1
"""The share of entries written that the sweep alone would not have written."""
FREE_REPEATED = 32
"""In each run: they take no more than its marker does."""
REST_SWEEPS = 16
"""Number of sweeps without a refresh where keys come again too often."""


@dataclass(slots=True)
class Refreshing:
    """Entries that the runs of one unit wrote since its last sweep. rest: sweeps until a refresh is tried again."""

    rest: int = 0
    _written: set[bytes] = field(default_factory=set)
    _entries: int = 0
    _repeated: int = 0

    def wait_ms(self, batches: int, elapsed_ms: float, changed: int) -> float:
        """Time until time alone makes a refresh due; 0: it is.

        batches, elapsed_ms: since the last marker and capture. changed: keys that the run would hold.
        """
        if self.rest or batches < MIN_BATCHES or len(self._written) + changed > MAX_KEYS:
            return math.inf
        return max(0.0, REFRESH_MS - elapsed_ms)

    def captured(self, keys: Collection[bytes], sweep: bool) -> None:
        """A run holds these keys."""
        if self.rest:
            self.rest -= sweep
            return
        self._entries += len(keys)
        self._repeated += max(0, sum(key in keys for key in self._written) - FREE_REPEATED)
        if self._repeated > MAX_REPEATED * self._entries:
            self.rest = REST_SWEEPS
        if sweep or self.rest:
            self._written, self._entries, self._repeated = set(), 0, 0
        else:
            self._written.update(keys)


class Refresh(Stateless):
    """Implements Policy."""

    kind = Kind.REFRESH

    def __init__(self) -> None:
        self._units: dict[str, Refreshing] = {}

    def wait_ms(self, unit: str, units: Mapping[str, UnitView], now_ms: float) -> float:
        sight = units[unit]
        elapsed_ms = now_ms - sight.captured_ms
        wait_ms = self._of(unit).wait_ms(sight.batches, elapsed_ms, sight.changed)
        return wait_ms if wait_ms < math.inf and sight.followed else math.inf

    def captured(self, unit: str, keys: Collection[bytes], kind: Kind) -> None:
        self._of(unit).captured(keys, kind is Kind.SWEEP)

    def forget(self, unit: str) -> None:
        self._units.pop(unit, None)

    def _of(self, unit: str) -> Refreshing:
        found = self._units.get(unit)
        if found is None:
            found = self._units[unit] = Refreshing()
        return found
