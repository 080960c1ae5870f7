"""Schedules captures and applications of all units of a worker. No other module asks the policies.

Source: PROTOCOL 6, MECHANISMS S1 to S4 and C3 to C6. A unit asks in its own turn. An answer may depend on every unit of
the worker, so the scheduler holds the views of all units.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from holdfast.services.worker.checkpoint.policies.catalogue import DEFAULT, POLICIES
from holdfast.services.worker.checkpoint.policies.policy import Kind, Policy, UnitView

HELD_MS, AGAIN_MS = 1_000.0, 3_000.0
"""Time for which captures under the default policy wait while another copy takes over, so that it gets the processor;
and time from one such wait to the next. So a cluster with constant moves has checkpoints, too (docs/decisions/0222)."""


class Scheduler:
    """The scheduler of one worker. A unit follows the policies of its job; of these, the first one that is due decides.

    Args:
        policies: policies for all units in place of those of their jobs; for tests and comparisons.
    """

    def __init__(self, policies: Sequence[Policy] = ()) -> None:
        self._instead = tuple(policies)
        self._made: dict[str, tuple[Policy, ...]] = {}
        self._units: dict[str, UnitView] = {}
        self._followed: dict[str, str] = {}
        self._held_ms = self._again_ms = -math.inf

    def hold(self, now_ms: float) -> None:
        """Delays captures, because another copy begins to lead a unit of a job here."""
        if now_ms >= self._again_ms:
            self._held_ms = now_ms + HELD_MS
            self._again_ms = now_ms + AGAIN_MS

    def _hold_ms(self, unit: str, now_ms: float) -> float:
        """The time for which the unit must not capture, whatever its policies answer."""
        if now_ms >= self._held_ms:
            return 0.0
        view = self._units[unit]
        return 0.0 if view.ended or view.rests or view.policy != DEFAULT else self._held_ms - now_ms

    def join(self, unit: str, view: UnitView) -> None:
        """Adds a unit whose copy here has its state."""
        self._units[unit] = view

    def leave(self, unit: str) -> None:
        """Removes a unit whose copy is closed or about to be rebuilt."""
        self._units.pop(unit, None)
        self._followed.pop(unit, None)
        self._forget(unit)

    def _forget(self, unit: str) -> None:
        for policies in (self._instead, *self._made.values()):
            for policy in policies:
                policy.forget(unit)

    def capture(self, unit: str, now_ms: float) -> Kind | None:
        """The kind of run that the unit must capture now; None for no capture. Only called while no run of the unit is
        under way."""
        if self._hold_ms(unit, now_ms):
            return None
        for policy in self._of(unit):
            if policy.wait_ms(unit, self._units, now_ms) == 0.0:
                return policy.kind
        return None

    def wait_ms(self, unit: str, now_ms: float) -> float:
        """The time until the unit captures if no event comes before."""
        wait_ms = min([policy.wait_ms(unit, self._units, now_ms) for policy in self._of(unit)])
        return max(wait_ms, self._hold_ms(unit, now_ms))

    def applies(self, unit: str, now_ms: float) -> bool:
        """True if the unit may now apply a piece of another copy's run."""
        return all(policy.applies(unit, self._units, now_ms) for policy in self._of(unit))

    def holds(self, unit: str, now_ms: float) -> bool:
        """True if the next batch of the unit, whose leader is here, must wait for a capture."""
        return any(policy.holds(unit, self._units, now_ms) for policy in self._of(unit))

    def captured(self, unit: str, keys: Collection[bytes], kind: Kind) -> None:
        """Notes that the unit has begun a run of these keys."""
        for policy in self._of(unit):
            policy.captured(unit, keys, kind)

    def _of(self, unit: str) -> tuple[Policy, ...]:
        """The policies of a unit. A policy name unknown to this release, from the plan of a later one, means the
        default.

        Policies change while a job runs. The new policy's memory of the unit is then out of date, so it is cleared.
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
