"""Policies that capture and paste while the worker is idle, one action at a time. They differ in the choice of the next
action.

Source: MECHANISMS C3 and C4. A worker is idle while no unit has a batch ready. Its capture queue (c-q) holds the units
with changes to capture, whose former run is valid and confirmed by their backup. A minimum and a maximum interval bound
the choice, so checkpoints continue on a worker that is never idle and with a backup that never confirms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from holdfast.services.worker.checkpoint.policies.policy import Stateless, UnitView, rest_ms

LOOK_MS = 5.0
"""Longest delay, in milliseconds, before a unit with work notices a change of other units."""
CONFIRM_MS = 50.0
"""Longest delay, in milliseconds, before a unit notices a confirmation, which arrives with a heartbeat."""

Units = Mapping[str, UnitView]


@dataclass(frozen=True, slots=True)
class Capture:
    """The next checkpoint work of the worker is a capture of this unit."""

    unit: str


@dataclass(frozen=True, slots=True)
class Paste:
    """The next checkpoint work of the worker is a paste of the oldest message of this sender."""

    sender: str


class Idle(Stateless):
    """Common part of the policies that use idle time."""

    name = ""

    def choose(self, units: Units, now_ms: float) -> Capture | Paste | None:
        """The next capture or paste of an idle worker; None if there is none."""
        raise NotImplementedError

    def wait_ms(self, unit: str, units: Units, now_ms: float) -> float:
        """The time until the unit captures. A unit that has ended, or was not captured for the maximum interval, does
        not wait for idle time."""
        view = units[unit]
        if view.batches == 0:
            return math.inf
        if any(one.capturing for one in units.values()):
            return LOOK_MS
        left_ms = view.max_interval_ms - (now_ms - view.captured_ms)
        if view.ended or left_ms <= 0.0:
            return 0.0
        least_ms = _least_ms(view, now_ms)
        if least_ms > 0.0:
            return min(least_ms, left_ms)
        if not view.confirmed:
            return min(CONFIRM_MS, left_ms)
        if not idle(units) or self.choose(units, now_ms) != Capture(unit):
            return min(LOOK_MS, left_ms)
        return 0.0

    def applies(self, unit: str, units: Units, now_ms: float) -> bool:
        """True if the unit may paste now: it has the oldest message of its sender, and the paste is the worker's choice
        or has waited for the maximum interval."""
        view = units[unit]
        if view.leads or view.waiting_since_ms == math.inf:
            return True  # a former leader's run would block captures of this copy; or no run can be applied now
        if oldest(self.pastes(units)).get(view.primary) != unit:
            return False
        if now_ms - view.waiting_since_ms >= view.max_interval_ms:
            return True
        chosen = idle(units) and self.choose(units, now_ms) == Paste(view.primary)
        return chosen and not any(one.capturing for one in units.values())

    def queue(self, units: Units, now_ms: float) -> list[str]:
        """Names of the units that can be captured now (c-q)."""
        return [name for name, one in self._own(units) if _queued(one, now_ms)]

    def pastes(self, units: Units) -> dict[str, UnitView]:
        """The units of other workers whose images are here and that have a message to paste now."""
        return {name: one for name, one in self._own(units) if not one.leads and one.waiting_since_ms < math.inf}

    def _own(self, units: Units) -> Iterator[tuple[str, UnitView]]:
        return ((name, one) for name, one in units.items() if one.policy == self.name)


def idle(units: Units) -> bool:
    """True if no unit of this worker has data waiting, under any policy."""
    return not any(one.data_wait for one in units.values())


def oldest(pastes: Units) -> dict[str, str]:
    """The unit whose message has waited longest, by sender. A backup pastes in the order in which its peer captured."""
    found: dict[str, str] = {}
    for name, one in sorted(pastes.items(), key=lambda item: (item[1].waiting_since_ms, item[0])):
        found.setdefault(one.primary, name)
    return found


def _queued(view: UnitView, now_ms: float) -> bool:
    ready = view.leads and view.batches > 0 and view.resting and view.confirmed
    return ready and _least_ms(view, now_ms) == 0.0


def _least_ms(view: UnitView, now_ms: float) -> float:
    """The remaining time of the minimum interval, or of the rest if that is longer, in milliseconds."""
    return max(0.0, view.min_interval_ms - (now_ms - view.captured_ms), rest_ms(view, now_ms))
