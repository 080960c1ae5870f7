"""The frames of one partition that a line of tentative batches reads beside those of the stable batches.

The line reads batch b of a writer from the stable frame, if that is here; else from the writer's tentative frame; else
it leaves out a writer that is absent: out, or fed by nothing but units that are. It takes nothing away from the stable
cursor. Stable frames for which that has no room are lent to the line, and are read again later. Of two tentative
frames of one batch and writer the first counts. Source: MECHANISMS P12, PROTOCOL 11.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.schemas.cuts import END_WATERMARK
from holdfast.schemas.frames import Header

MAX_AHEAD = 64
"""Batches of a writer that are kept for the line; of more the oldest goes, and the line leaps."""


class Batch(NamedTuple):
    """A writer's share of a batch. payloads: empty ones left out. clock_us: when it was cut; 0: nobody asks."""

    watermark: int
    payloads: list[memoryview]
    clock_us: int = 0


@dataclass(slots=True)
class _Making:
    """A batch of one writer, of which parts are missing."""

    batch: int = 0
    epoch: int = 0
    parts: list[memoryview] = field(default_factory=list)


@dataclass(slots=True)
class _Kept:
    """Frames of one writer, by batch."""

    batches: dict[int, Batch] = field(default_factory=dict)
    making: _Making = field(default_factory=_Making)


class Line:
    """Frames of one partition for the line. done: the last batch that the line has processed; the fork's, at first."""

    def __init__(self, writers: Collection[int], done: int) -> None:
        self.done = done
        self._tentative = {writer: _Kept() for writer in writers}
        self._lent = {writer: _Kept() for writer in writers}

    def offer(self, header: Header, payload: memoryview) -> bool:
        """Takes a tentative frame; False if another one of its batch counts, or nobody needs it."""
        return self._take(self._tentative[header.writer], header, payload)

    def lend(self, header: Header, payload: memoryview) -> None:
        """A stable frame that the stable cursor has no room for."""
        self._take(self._lent[header.writer], header, payload)

    def _take(self, kept: _Kept, header: Header, payload: memoryview) -> bool:
        if header.batch <= self.done or header.batch in kept.batches:
            return False
        made = kept.making
        if (made.batch, made.epoch) != (header.batch, header.epoch):
            made = kept.making = _Making(header.batch, header.epoch)
        if header.part != len(made.parts):
            return False  # a duplicate, or parts are missing: whoever sends the batch again begins with the first one
        made.parts.append(payload)
        if len(made.parts) == header.parts:
            kept.batches[header.batch] = batch_of(header, made.parts)
            kept.making = _Making()
            if len(kept.batches) > MAX_AHEAD:
                del kept.batches[min(kept.batches)]
        return True

    def find(self, batch: int, stable: Mapping[int, Batch], absent: Set[int]) -> list[Batch] | None:
        """Frames that the writers bring for a batch, in their order; None: one is waited for.

        Args:
            stable: by writer, what the stable cursor holds of the batch. absent: writers that nobody waits for.
        """
        found = []
        for writer, kept in self._tentative.items():
            held = stable.get(writer) or self._lent[writer].batches.get(batch) or kept.batches.get(batch)
            if held is not None:
                found.append(held)
            elif writer not in absent:
                return None
        return found

    def after(self, batch: int, stable: Mapping[int, int], absent: Set[int]) -> int | None:
        """The first batch behind `batch` of which something is here from each writer that is not absent; None: none is.

        Frames of a writer come in order, so what of an earlier batch is not here then will not come.
        stable: by writer, the newest batch that the stable cursor has received.
        """
        firsts = []
        for writer, kept in self._tentative.items():
            held = [number for number in (*kept.batches, *self._lent[writer].batches) if number > batch]
            if stable[writer] > batch:
                held.append(batch + 1)
            if held:
                firsts.append(min(held))
            elif writer not in absent:
                return None
        return max(firsts, default=None)

    def advance(self, batch: int) -> None:
        """The line has done it, or leaves it out."""
        self.done = max(self.done, batch)
        for kept in (*self._tentative.values(), *self._lent.values()):
            kept.batches = {number: held for number, held in kept.batches.items() if number > batch}
            if kept.making.batch <= batch:
                kept.making = _Making()


def batch_of(header: Header, parts: Iterable[memoryview]) -> Batch:
    """The batch of which the header's frame is the last part."""
    return Batch(header.watermark, [part for part in parts if len(part)], header.clock_us)


def watermark(found: Collection[Batch]) -> int:
    """The lowest of those that bring something; a writer that is absent holds nothing back."""
    return min((one.watermark for one in found), default=END_WATERMARK)


def clock(found: Collection[Batch]) -> int:
    """The latest time at which a writer's share was cut."""
    return max((one.clock_us for one in found), default=0)


def payloads(found: Collection[Batch]) -> list[memoryview]:
    return [payload for one in found for payload in one.payloads]


def silent(senders: Mapping[str, Collection[str]], forks: Set[str], out: Set[str]) -> frozenset[str]:
    """Units that send nothing, not even tentatively: those that are out, and those that this leaves without input.

    Args:
        senders: by unit, the units whose frames it reads. forks: units that can work tentatively; another one stands
            as soon as one of its senders is silent.
    """
    found = set(out)
    while True:
        new = {unit for unit, above in senders.items() if unit not in found and _stands(unit in forks, above, found)}
        if not new:
            return frozenset(found)
        found |= new


def _stands(forks: bool, above: Collection[str], found: Set[str]) -> bool:
    silent_ones = [unit in found for unit in above]
    return bool(silent_ones) and (all(silent_ones) if forks else any(silent_ones))
