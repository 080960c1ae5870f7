"""When each unit of a worker captures and applies checkpoints: the one place that asks the policies.

Source: PROTOCOL 6, MECHANISMS S1 to S4 and C3 to C6. A unit asks in its own turn. The answer may depend on every unit
of the worker, which is why the units are known here and not to each copy alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from services.worker.checkpoint.policies.policy import Kind, Policy, Sight
from services.worker.checkpoint.policies.refresh import Refresh
from services.worker.checkpoint.policies.sweep import Sweep


class Scheduler:
    """Of one worker. policies: the first whose time has come says what a unit does. Default: sweep, then refresh."""

    def __init__(self, policies: Sequence[Policy] = ()) -> None:
        self._policies = tuple(policies) or (Sweep(), Refresh())
        self._units: dict[str, Sight] = {}

    def join(self, unit: str, sight: Sight) -> None:
        """A copy here has its state."""
        self._units[unit] = sight

    def leave(self, unit: str) -> None:
        """The copy is closed, or is about to be rebuilt."""
        self._units.pop(unit, None)
        for policy in self._policies:
            policy.forget(unit)

    def capture(self, unit: str, now_ms: float) -> Kind | None:
        """What the unit is to capture now; None: nothing. Only asked while no run of the unit is under way."""
        due = (policy.kind for policy in self._policies if policy.wait_ms(unit, self._units, now_ms) == 0.0)
        return next(due, None)

    def wait_ms(self, unit: str, now_ms: float) -> float:
        """How long until time alone makes the unit capture."""
        return min(policy.wait_ms(unit, self._units, now_ms) for policy in self._policies)

    def applies(self, unit: str, now_ms: float) -> bool:
        """Whether the unit may apply a piece of another copy's run now."""
        return all(policy.applies(unit, self._units, now_ms) for policy in self._policies)

    def captured(self, unit: str, keys: Collection[bytes], kind: Kind) -> None:
        """The unit has begun a run of these keys."""
        for policy in self._policies:
            policy.captured(unit, keys, kind)
