"""Scheduler of captures and applications of all units of a worker: the one place that asks the policies.

Source: PROTOCOL 6, MECHANISMS S1 to S4 and C3 to C6. A unit asks in its own turn. The answer may depend on every unit
of the worker, which is why the units are known here and not to each copy alone.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from holdfast.services.worker.checkpoint.policies.catalogue import DEFAULT, POLICIES
from holdfast.services.worker.checkpoint.policies.policy import Kind, Policy, UnitView

HELD_MS, AGAIN_MS = 1_000.0, 3_000.0
"""While another copy takes over, captures by default policies wait, so that it has the processor: for the first time at
most, and not again before the second. So a cluster in which copies move all the time has checkpoints, too
(docs/decisions/0222)."""


class Scheduler:
    """The scheduler of one worker. A unit follows the policies of its job: the first whose time has come says what it
    does.

    policies: what every unit follows instead.
    """

    def __init__(self, policies: Sequence[Policy] = ()) -> None:
        self._instead = tuple(policies)
        self._made: dict[str, tuple[Policy, ...]] = {}
        self._units: dict[str, UnitView] = {}
        self._followed: dict[str, str] = {}
        self._held_ms = self._again_ms = -math.inf

    def hold(self, now_ms: float) -> None:
        """Another copy leads a unit of a job here from now on."""
        if now_ms >= self._again_ms:
            self._held_ms, self._again_ms = now_ms + HELD_MS, now_ms + AGAIN_MS

    def _hold_ms(self, unit: str, now_ms: float) -> float:
        """Time for which the unit captures nothing, whatever its policies say."""
        if now_ms >= self._held_ms:
            return 0.0
        sight = self._units[unit]
        return 0.0 if sight.ended or sight.rests or sight.policy != DEFAULT else self._held_ms - now_ms

    def join(self, unit: str, sight: UnitView) -> None:
        """A copy here has its state."""
        self._units[unit] = sight

    def leave(self, unit: str) -> None:
        """The copy is closed, or is about to be rebuilt."""
        self._units.pop(unit, None)
        self._followed.pop(unit, None)
        self._forget(unit)

    def _forget(self, unit: str) -> None:
        for policies in (self._instead, *self._made.values()):
            for policy in policies:
                policy.forget(unit)

    def capture(self, unit: str, now_ms: float) -> Kind | None:
        """The kind of run that the unit is to capture now; None: nothing. Only called while no run of the unit is under
        way.
        """
        if self._hold_ms(unit, now_ms):
            return None
        for policy in self._of(unit):
            if policy.wait_ms(unit, self._units, now_ms) == 0.0:
                return policy.kind
        return None

    def wait_ms(self, unit: str, now_ms: float) -> float:
        """Time until time alone makes the unit capture."""
        wait_ms = min([policy.wait_ms(unit, self._units, now_ms) for policy in self._of(unit)])
        return max(wait_ms, self._hold_ms(unit, now_ms))

    def applies(self, unit: str, now_ms: float) -> bool:
        """True if the unit may apply a piece of another copy's run now."""
        return all(policy.applies(unit, self._units, now_ms) for policy in self._of(unit))

    def holds(self, unit: str, now_ms: float) -> bool:
        """True if the next batch of the unit, which leads, waits for a capture."""
        return any(policy.holds(unit, self._units, now_ms) for policy in self._of(unit))

    def captured(self, unit: str, keys: Collection[bytes], kind: Kind) -> None:
        """The unit has begun a run of these keys."""
        for policy in self._of(unit):
            policy.captured(unit, keys, kind)

    def _of(self, unit: str) -> tuple[Policy, ...]:
        """A policy that this release does not know, of a plan by a later one, is the default.

        Policies change while a job runs: what another one remembers of the unit, it would take for what is so now.
        """
        if self._instead:
            return self._instead
        name = self._units[unit].policy
        if self._followed.get(unit) != name:
            self._followed[unit] = name
            self._forget(unit)
        if name not in self._made:
            self._made[name] = POLICIES.get(name, POLICIES[DEFAULT])()
        return self._made[name]
