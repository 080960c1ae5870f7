"""The sink-most units capture by a timer, the others when their output was trimmed: the sweep.

Source: MECHANISMS S1 to S3. A checkpoint acknowledges what it was made of. The upstream unit then trims its output and
captures in its turn, so a sweep goes from the sinks to the sources.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from services.worker.checkpoint.policies.policy import Kind, Sight

PATIENCE = 4
"""After so many intervals a unit captures whether its output was trimmed or not, so that acks and trimming continue."""
REST_MS = 8_000
"""A unit that has done only empty batches captures at this interval: they are few, quickly done again, and leave
little to trim. A sweep every 500 ms through units without data was half of what a worker at rest used, one
every 2 s a fifth."""


class Sweep:
    """Implements Policy."""

    kind = Kind.SWEEP

    def wait_ms(self, unit: str, units: Mapping[str, Sight], now_ms: float) -> float:
        """A unit that has ended captures at once."""
        sight = units[unit]
        if sight.batches == 0:
            return math.inf
        if sight.ended:
            return 0.0
        interval_ms = sight.interval_ms
        if sight.still:
            limit_ms = max(PATIENCE * interval_ms, REST_MS)
        else:
            limit_ms = (1 if sight.sinkmost or sight.output_trimmed else PATIENCE) * interval_ms
        return max(0.0, limit_ms - (now_ms - sight.swept_ms))

    def applies(self, unit: str, units: Mapping[str, Sight], now_ms: float) -> bool:
        """As runs come."""
        return True

    def captured(self, unit: str, keys: Collection[bytes], kind: Kind) -> None:
        """The times that count are the unit's own."""

    def forget(self, unit: str) -> None:
        """Nothing is remembered."""
