"""Uses idle time for the capture or paste that lowers the largest expected recovery time among the backup groups.

Source: MECHANISMS C6 and C8.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum

from holdfast.services.kernel.protection.expected import Protected, of_groups, of_unit, of_workers, reduced_by_capture
from holdfast.services.kernel.protection.merged_captures import merged
from holdfast.services.worker.checkpoint.policies.idle import Capture, Idle, Paste, Units, oldest
from holdfast.services.worker.checkpoint.policies.policy import Kind, UnitView

LEAST_MS = 0.01
"""Least cost of a capture in milliseconds, since the choice divides by the cost. It applies to a capture that was not
measured or took no time."""


class Credit(Enum):
    """The benefits that count when a capture is compared with a paste; the value is (of the capture, of the paste).

    A capture lowers the expected recovery time only when its message is delivered, a paste when it ends. The paper
    compares the first "for the moment when it finishes capturing", the second "for the moment when it completely
    consumes the message": PASTE. The other values are for comparison.
    """

    PASTE = False, True
    BOTH = True, True
    NEITHER = False, False

    @property
    def captures(self) -> bool:
        return self.value[0]

    @property
    def pastes(self) -> bool:
        return self.value[1]


class IdleMinMax(Idle):
    """A policy that lowers the largest expected recovery time.

    Attributes:
        entry: units that are, or were last, captured as one.
        under_way: units of `entry` that are still to be captured.

    Args:
        credit: benefits that `choose` compares.
    """

    name = "idle-minmax"

    def __init__(self, credit: Credit = Credit.PASTE) -> None:
        self._credit = credit
        self._chosen: tuple[str, ...] = ()
        self.entry: tuple[str, ...] = ()
        self.under_way: tuple[str, ...] = ()

    def choose(self, units: Units, now_ms: float) -> Capture | Paste | None:
        """The next capture or paste. The remaining units of an entry go first after its first unit is captured, because
        the entry counts as one capture."""
        queue = self.queue(units, now_ms)
        self.under_way = tuple(name for name in self.under_way if name in queue)
        if self.under_way:
            return Capture(self.under_way[0])
        led = {name: _protected(one) for name, one in self._own(units) if one.leads}
        images = {name: _protected(one) for name, one in self._own(units) if not one.leads}
        entries = merged(led, {name: units[name].merge_ms for name in led})
        chosen = choose(led, queue, images, oldest(self.pastes(units)), entries, self._credit)
        named = chosen.unit if isinstance(chosen, Capture) else ""
        self._chosen = next((_queued_of(entry, queue) for entry in entries if named in entry), ())
        return chosen

    def captured(self, unit: str, keys: Collection[bytes], kind: Kind) -> None:
        if unit not in self.under_way and unit in self._chosen:
            self.entry = self.under_way = self._chosen
        self._chosen, self.under_way = (), tuple(name for name in self.under_way if name != unit)

    def forget(self, unit: str) -> None:
        self.under_way = tuple(name for name in self.under_way if name != unit)
        self._chosen = tuple(name for name in self._chosen if name != unit)


def choose(
    led: Mapping[str, Protected],
    queue: Collection[str],
    images: Mapping[str, Protected],
    pending: Mapping[str, str],
    entries: Collection[tuple[str, ...]] | None = None,
    credit: Credit = Credit.PASTE,
) -> Capture | Paste | None:
    """The next capture or paste of worker i when it is idle; None if there is none.

    Args:
        led: units that run on i.
        queue: units in c-q.
        images: units of other workers whose images i holds.
        pending: unit of the oldest message, by sender.
        entries: groups of units that are captured as one (MECHANISMS C8); None if each unit is a group of its own.
        credit: benefits that count when a capture and a paste are compared.
    """
    chosen: Capture | Paste | None = None
    worst_ms = 0.0
    best = _best_capture(led, queue, [(name,) for name in led] if entries is None else entries)
    if best:
        chosen, worst_ms = Capture(best[0]), _after_capture(led, best, credit)
    for sender, name in sorted(pending.items()):
        after_ms = _after_paste(images, images[name], credit)
        if chosen is None or after_ms > worst_ms:
            chosen, worst_ms = Paste(sender), after_ms
    return chosen


def _queued_of(entry: Collection[str], queue: Collection[str]) -> tuple[str, ...]:
    """The units of an entry that can be captured now, sorted."""
    return tuple(name for name in sorted(entry) if name in queue)


def _best_capture(
    led: Mapping[str, Protected], queue: Collection[str], entries: Collection[tuple[str, ...]]
) -> tuple[str, ...]:
    """The entry u*; empty if there is none. Candidates are the entries in c-q whose group has the largest recovery time
    when their capture ends. u* lowers this time most for its cost. A capture that lowers nothing is not skipped."""
    candidates = []
    for names in sorted(queued for entry in entries if (queued := _queued_of(entry, queue))):
        unit = led[names[0]]
        groups = of_groups(led.values(), _cost_ms(led, names))
        if groups[unit.primary, unit.backup] == of_workers(groups)[unit.primary]:
            candidates.append(names)
    return max(candidates, key=lambda names: _reduced(led, names) / _cost_ms(led, names), default=())


def _after_capture(led: Mapping[str, Protected], captured: tuple[str, ...], credit: Credit) -> float:
    """R_Qij* at the end of the capture; with the benefit of the capture if `credit` counts it."""
    unit = led[captured[0]]
    groups = of_groups(led.values(), _cost_ms(led, captured))
    return groups[unit.primary, unit.backup] - (_reduced(led, captured) if credit.captures else 0.0)


def _cost_ms(led: Mapping[str, Protected], names: Iterable[str]) -> float:
    return sum(led[name].capture_ms for name in names)


def _reduced(led: Mapping[str, Protected], names: Iterable[str]) -> float:
    return sum(reduced_by_capture(led[name]) for name in names)


def _after_paste(images: Mapping[str, Protected], pasted: Protected, credit: Credit) -> float:
    """R_Qji when the oldest message of j is fully pasted; without the paste's benefit if `credit` does not count it."""
    group = [one for one in images.values() if one.primary == pasted.primary]
    return sum(of_unit(one, pasted.paste_ms) for one in group) - (pasted.paste_ms if credit.pastes else 0.0)


def _protected(view: UnitView) -> Protected:
    """The unit in the terms of the algorithm. For a unit that runs here, an unconfirmed capture counts as one
    message.
    """
    return Protected(
        primary=view.primary,
        backup=view.backup,
        load=view.load,
        replay_ms=view.replay_ms,
        gain_ms=view.gain_ms,
        capture_ms=max(view.capture_ms, LEAST_MS),
        paste_ms=view.paste_ms,
        waiting=int(not view.confirmed) if view.leads else view.waiting,
    )
