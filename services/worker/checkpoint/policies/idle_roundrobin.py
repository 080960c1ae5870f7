"""On idle time, what has waited longest: a unit since its last capture, a message since it came.

Source: MECHANISMS C3; the baseline that C6 is compared with.
"""

from __future__ import annotations

from holdfast.services.worker.checkpoint.policies.idle import Capture, Idle, Paste, Units


class IdleRoundRobin(Idle):
    """Implements Policy."""

    name = "idle-roundrobin"

    def choose(self, units: Units, now_ms: float) -> Capture | Paste | None:
        """A tie goes to the capture, and then to the first name."""
        turns: list[tuple[float, bool, str, Capture | Paste]] = [
            (units[name].captured_ms, False, name, Capture(name)) for name in self.queue(units, now_ms)
        ]
        turns += [(one.waiting_since_ms, True, name, Paste(one.primary)) for name, one in self.pastes(units).items()]
        return min(turns, key=lambda turn: turn[:3], default=(0.0, True, "", None))[3]
