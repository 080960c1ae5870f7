"""Uses idle time for the unit or message that has waited longest: a unit since its last capture, a message since its
arrival.

Source: MECHANISMS C3; the baseline for comparison with C6.
"""

from __future__ import annotations

from holdfast.services.worker.checkpoint.policies.idle import Capture, Idle, Paste, Units


class IdleRoundRobin(Idle):
    """A policy that takes captures and pastes in turn."""

    name = "idle-roundrobin"

    def choose(self, units: Units, now_ms: float) -> Capture | Paste | None:
        """The capture or paste with the longest wait. A capture goes before a paste with the same wait, then names
        decide."""
        turns: list[tuple[float, bool, str, Capture | Paste]] = [
            (units[name].captured_ms, False, name, Capture(name)) for name in self.queue(units, now_ms)
        ]
        turns += [(one.waiting_since_ms, True, name, Paste(one.primary)) for name, one in self.pastes(units).items()]
        return min(turns, key=lambda turn: turn[:3], default=(0.0, True, "", None))[3]
