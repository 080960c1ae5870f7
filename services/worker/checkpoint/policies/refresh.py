"""A unit with a standby also captures between two sweeps, as long as the additional captures write few additional
entries.

A standby continues from the newest marker and repeats all batches behind it, so a near marker makes a failover short.
Refreshes cost little where keys seldom change again between two sweeps, because then the same entries are written, only
sooner. Source: MECHANISMS H1 (each checkpoint refreshes the secondary), PROTOCOL 6.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from holdfast.services.worker.checkpoint.policies.policy import Kind, Stateless, UnitView

REFRESH_MS = 100
MIN_BATCHES = 4
"""Fewest batches for a refresh; fewer are quickly processed again."""
MAX_KEYS = 5_000
"""Most keys changed between two sweeps. It bounds the memory of the policy, and the work of encoding between two
batches."""
MAX_REPEATED = 0.1
"""Most repeated entries, as a share of written entries. An entry is repeated if the sweep alone would not have written
it."""
FREE_REPEATED = 32
"""Repeated entries of each run that do not count, because they take no more space than its marker."""
REST_SWEEPS = 16
"""Number of sweeps without refreshes after keys changed again too often."""


@dataclass(slots=True)
class Refreshing:
    """Entries that the runs of one unit wrote since its last sweep.

    Attributes:
        rest: number of sweeps until a refresh is tried again.
    """

    rest: int = 0
    _written: set[bytes] = field(default_factory=set)
    _entries: int = 0
    _repeated: int = 0

    def wait_ms(self, batches: int, elapsed_ms: float, changed: int) -> float:
        """The time until a refresh is due; 0 if it is due, math.inf if no refresh comes without further events.

        Args:
            batches: number of batches since the last marker.
            elapsed_ms: time since the last capture.
            changed: number of keys that the run would hold.
        """
        if self.rest or batches < MIN_BATCHES or len(self._written) + changed > MAX_KEYS:
            return math.inf
        return max(0.0, REFRESH_MS - elapsed_ms)

    def captured(self, keys: Collection[bytes], sweep: bool) -> None:
        """Counts the keys of a run."""
        if self.rest:
            self.rest -= sweep
            return
        new = set(keys)
        self._entries += len(new)
        self._repeated += max(0, len(new & self._written) - FREE_REPEATED)
        if self._repeated > MAX_REPEATED * self._entries:
            self.rest = REST_SWEEPS
        if sweep or self.rest:
            self._written = set()
            self._entries = 0
            self._repeated = 0
        else:
            self._written |= new


class Refresh(Stateless):
    """A policy that refreshes a standby between sweeps."""

    kind = Kind.REFRESH

    def __init__(self) -> None:
        self._units: dict[str, Refreshing] = {}

    def wait_ms(self, unit: str, units: Mapping[str, UnitView], now_ms: float) -> float:
        view = units[unit]
        elapsed_ms = now_ms - view.captured_ms
        wait_ms = self._of(unit).wait_ms(view.batches, elapsed_ms, view.changed)
        return wait_ms if wait_ms < math.inf and view.followed else math.inf

    def captured(self, unit: str, keys: Collection[bytes], kind: Kind) -> None:
        self._of(unit).captured(keys, kind is Kind.SWEEP)

    def forget(self, unit: str) -> None:
        self._units.pop(unit, None)

    def _of(self, unit: str) -> Refreshing:
        found = self._units.get(unit)
        if found is None:
            found = self._units[unit] = Refreshing()
        return found
