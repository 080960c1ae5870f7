"""On idle time, the capture or paste that lowers the largest expected recovery time among the backup groups.

Source: MECHANISMS C6.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from services.kernel.protection.expected import Protected, of_groups, of_unit, of_workers, reduced_by_capture
from services.worker.checkpoint.policies.idle import Capture, Idle, Paste, Units, oldest
from services.worker.checkpoint.policies.policy import Sight

LEAST_MS = 0.01
"""A capture that was never measured, or took no time, costs this: the choice divides by it."""


class IdleMinMax(Idle):
    """Implements Policy."""

    name = "idle-minmax"

    def choose(self, units: Units, now_ms: float) -> Capture | Paste | None:
        led = {name: _protected(one) for name, one in self._own(units) if one.leads}
        images = {name: _protected(one) for name, one in self._own(units) if not one.leads}
        return choose(led, self.queue(units, now_ms), images, oldest(self.pastes(units)))


def choose(
    led: Mapping[str, Protected],
    queue: Collection[str],
    images: Mapping[str, Protected],
    pending: Mapping[str, str],
) -> Capture | Paste | None:
    """What worker i does when it is idle.

    Args:
        led: the units that run on i. queue: those of them in c-q.
        images: the units of others whose images i holds. pending: by sender, the unit of its oldest message.
    """
    chosen: Capture | Paste | None = None
    worst_ms = 0.0
    best = _best_capture(led, queue)
    if best is not None:
        chosen, worst_ms = Capture(best), _after_capture(led, led[best])
    for sender, name in sorted(pending.items()):
        after_ms = _after_paste(images, images[name])
        if chosen is None or after_ms > worst_ms:
            chosen, worst_ms = Paste(sender), after_ms
    return chosen


def _best_capture(led: Mapping[str, Protected], queue: Collection[str]) -> str | None:
    """u*: of the units in c-q whose group has the largest recovery time when their capture ends, that which lowers it
    most for its cost. A capture that lowers nothing is not skipped.
    """
    candidates = []
    for name in sorted(queue):
        unit = led[name]
        groups = of_groups(led.values(), unit.capture_ms)
        if groups[unit.primary, unit.backup] == of_workers(groups)[unit.primary]:
            candidates.append(name)
    return max(candidates, key=lambda name: reduced_by_capture(led[name]) / led[name].capture_ms, default=None)


def _after_capture(led: Mapping[str, Protected], captured: Protected) -> float:
    """R_Qij* when the capture has ended and is delivered."""
    groups = of_groups(led.values(), captured.capture_ms)
    return groups[captured.primary, captured.backup] - reduced_by_capture(captured)


def _after_paste(images: Mapping[str, Protected], pasted: Protected) -> float:
    """R_Qji when the oldest message of j is fully pasted."""
    group = [one for one in images.values() if one.primary == pasted.primary]
    return sum(of_unit(one, pasted.paste_ms) for one in group) - pasted.paste_ms


def _protected(sight: Sight) -> Protected:
    """Of a unit that runs here, what was captured and not confirmed counts as one message."""
    return Protected(
        primary=sight.primary,
        backup=sight.backup,
        load=sight.load,
        replay_ms=sight.replay_ms,
        gain_ms=sight.gain_ms,
        capture_ms=max(sight.capture_ms, LEAST_MS),
        paste_ms=sight.paste_ms,
        waiting=int(not sight.confirmed) if sight.leads else sight.waiting,
    )
