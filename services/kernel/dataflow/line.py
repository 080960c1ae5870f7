"""The frames of one partition that a line of tentative batches reads besides those of the stable batches.

The line reads batch b of a writer from the stable frame if it is here, and otherwise from the writer's tentative frame.
It leaves out an absent writer: a writer that is out, or fed only by units that are out. It takes no frame from the
stable cursor. Stable frames for which the cursor has no room are lent to the line, and are read again later. If two
tentative frames have the same batch and writer, the first counts, also if it came before the line began. Source:
MECHANISMS P12, PROTOCOL 11.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.schemas.cuts import END_WATERMARK
from holdfast.schemas.frames import Header

MAX_AHEAD = 64
"""The number of batches of a writer that are kept for the line. Beyond it the oldest is dropped and the line skips it.
"""
MAX_EARLY, MAX_EARLY_BYTES = 32, 1024 * 1024
"""Limits of the frames that are kept for each partition before its line begins. Beyond them the oldest are dropped."""


class Batch(NamedTuple):
    """The share of one writer in a batch.

    watermark: the watermark after the batch, microseconds since 1970.
    payloads: the payloads that are not empty.
    clock_us: the time at which the batch was cut; 0: no operator of the job uses the time.
    """

    watermark: int
    payloads: list[memoryview]
    clock_us: int = 0


@dataclass(slots=True)
class _Making:
    """A batch of one writer that is not complete."""

    batch: int = 0
    epoch: int = 0
    parts: list[memoryview] = field(default_factory=list)


@dataclass(slots=True)
class _Kept:
    """The frames of one writer, by batch."""

    batches: dict[int, Batch] = field(default_factory=dict)
    making: _Making = field(default_factory=_Making)


class Line:
    """The frames of one partition for the line.

    done: the last batch that the line has processed; at first the batch of the fork.
    """

    def __init__(self, writers: Collection[int], done: int) -> None:
        self.done = done
        self._tentative = {writer: _Kept() for writer in writers}
        self._lent = {writer: _Kept() for writer in writers}

    def offer(self, header: Header, payload: memoryview) -> bool:
        """Takes a tentative frame; False if the batch is already here or done, or the frame is not the next part."""
        return self._take(self._tentative[header.writer], header, payload)

    def lend(self, header: Header, payload: memoryview) -> None:
        """Takes a stable frame for which the stable cursor has no room."""
        self._take(self._lent[header.writer], header, payload)

    def _take(self, kept: _Kept, header: Header, payload: memoryview) -> bool:
        if header.batch <= self.done or header.batch in kept.batches:
            return False
        made = kept.making
        if (made.batch, made.epoch) != (header.batch, header.epoch):
            made = kept.making = _Making(header.batch, header.epoch)
        if header.part != len(made.parts):
            return False  # a duplicate, or parts are missing: the writer will send the batch again, from part 0
        made.parts.append(payload)
        if len(made.parts) == header.parts:
            kept.batches[header.batch] = batch_of(header, made.parts)
            kept.making = _Making()
            if len(kept.batches) > MAX_AHEAD:
                del kept.batches[min(kept.batches)]
        return True

    def find(self, batch: int, stable: Mapping[int, Batch], absent: Set[int]) -> list[Batch] | None:
        """The shares of the writers in a batch, in the order of the writers; None if a writer is still awaited.

        Args:
            batch: the batch number.
            stable: by writer, its share in the stable cursor.
            absent: the writers for which the line does not wait.
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
        """The first batch after `batch` for which every writer that is not absent has a frame here; None if a writer
        has none.

        The frames of a writer come in order, so an earlier batch that is missing now will not come.

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
        """Drops batches up to this one, which the line has processed or skipped."""
        self.done = max(self.done, batch)
        for kept in (*self._tentative.values(), *self._lent.values()):
            kept.batches = {number: held for number, held in kept.batches.items() if number > batch}
            if kept.making.batch <= batch:
                kept.making = _Making()


class Early:
    """Tentative frames of one partition that came before its line began: their sender read of the outage first."""

    def __init__(self) -> None:
        self._frames: deque[tuple[Header, memoryview]] = deque()
        self._bytes = 0

    def keep(self, header: Header, payload: memoryview) -> bool:
        """Keeps a frame; returns False because no frame counts yet."""
        self._frames.append((header, payload))
        self._bytes += len(payload)
        while len(self._frames) > MAX_EARLY or self._bytes > MAX_EARLY_BYTES:
            self._bytes -= len(self._frames.popleft()[1])
        return False

    def hand_over(self, line: Line) -> None:
        for header, payload in self._frames:
            line.offer(header, payload)
        self._frames.clear()
        self._bytes = 0


def batch_of(header: Header, parts: Iterable[memoryview]) -> Batch:
    """The batch whose last part has this header."""
    return Batch(header.watermark, [part for part in parts if len(part)], header.clock_us)


def watermark(found: Collection[Batch]) -> int:
    """The lowest watermark of the shares; an absent writer has no share and does not hold the watermark back."""
    return min((one.watermark for one in found), default=END_WATERMARK)


def clock(found: Collection[Batch]) -> int:
    """The latest time at which a share was cut, microseconds since 1970."""
    return max((one.clock_us for one in found), default=0)


def payloads(found: Collection[Batch]) -> list[memoryview]:
    return [payload for one in found for payload in one.payloads]


def silent(senders: Mapping[str, Collection[str]], forks: Set[str], out: Set[str]) -> frozenset[str]:
    """The units that send no frame, not even a tentative one: the units that are out, and the units left without input.

    Args:
        senders: by unit, the units whose frames it reads.
        forks: the units that can work tentatively; any other unit stops when one of its senders is silent.
        out: the units that are out.
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
