"""Merging the frames of one input partition into batches: duplicates dropped, gaps found, divergence caught.

A record that is no frame is refused and moves nothing: the true frame behind it is taken.

Source: PROTOCOL 4. The batch number is the clock: a batch is ready when a frame of it (or an end) is there from every
writer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field

from holdfast.schemas.cuts import END_WATERMARK, NO_WATERMARK
from holdfast.schemas.frames import FLAG_END, FLAG_TENTATIVE, Header, unpack
from holdfast.services.kernel.codecs.frames import payload_of
from holdfast.services.kernel.dataflow.line import Batch, Line, batch_of, clock, payloads, watermark
from holdfast.services.kernel.errors import Divergence, FramesMissing

MAX_AHEAD_BATCHES, MAX_AHEAD_BYTES = 4_096, 96 * 1024 * 1024
"""So much is kept of what comes before the frames of a writer that is away. More is dropped, and read again later."""

FOREVER = 2**62
"""A batch number after all others: an ended writer has received everything."""

Refuse = Callable[[int, str], None]
"""Called with the offset of what is no frame, and why."""
Fits = Callable[[Header, memoryview], None]
"""Raises ValueError when a payload are no rows of the stream."""


Void = Callable[[int, int], bool]
"""Test of a writer number and an epoch."""


def _nothing(*_: object) -> None:
    pass


def _never(*_: object) -> bool:
    return False


@dataclass(slots=True)
class _Writer:
    """The frames of one writer. received: last complete batch; parts: payloads of the incomplete batch.

    count: how many parts it has. epoch: the highest under which a frame was sent. bytes: of what is held. dropping: its
    next batch was dropped, with all that follow, for want of room. ahead: (batch, part, parts) of the last frame that
    left one out; gap: offset of the first such frame.
    """

    received: int
    making: int = 0
    count: int = 0
    ahead: tuple[int, int, int] | None = None
    gap: int = -1
    parts: list[memoryview] = field(default_factory=list)
    batches: dict[int, Batch] = field(default_factory=dict)
    ended: bool = False
    bytes: int = 0
    dropping: bool = False
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class Merged:
    """A batch of one partition: payloads in writer, then part order, empty ones left out; the lowest watermark.

    bytes: of the payloads. writers: that brought them, of a tentative batch. clock_us: the latest time at which it was
    cut.
    """

    payloads: Sequence[memoryview]
    watermark: int
    bytes: int = 0
    writers: int = 0
    clock_us: int = 0


class InputPartition:
    """Frames of one partition, from the batch after `batch` on.

    Args:
        name: for messages, such as `topic[3]`.
        writers: the writer numbers that feed this partition.
        generation: frames of another generation are dropped.
        batch: the last batch that is done. offset: of the first frame behind it.
        ended: writers that have ended by then.
        refuse: called with what is no frame. fits: looks into a payload before it is believed.
        gap: up to this offset frames were found missing by a copy that had read from a marker, too: Kafka has lost
            them. Their writer knows, goes back to its own marker and sends them again, with all that follow: until
            then what is ahead of them is dropped.
        void: whether a writer sends again what comes before a frame that it has sent under this epoch.
    """

    def __init__(
        self,
        name: str,
        writers: Sequence[int],
        generation: int,
        batch: int,
        offset: int,
        ended: Sequence[int] = (),
        *,
        refuse: Refuse = _nothing,
        fits: Fits = _nothing,
        gap: int = -1,
        strict: bool = True,
        void: Void = _never,
    ) -> None:
        self._void = void
        self._name, self._gap, self._strict = name, gap, strict
        self._refuse, self._fits = refuse, fits
        self._generation = generation
        self._writers = {number: _Writer(received=batch, ended=number in ended) for number in sorted(writers)}
        self._done = batch
        self._next_offset = offset
        self._firsts: dict[int, int] = {}
        self._hashes: dict[tuple[int, int, int], int] = {}
        self._dropped: int | None = None
        self._line: Line | None = None
        self.bytes = 0

    def offer(self, offset: int, frame: bytes) -> bool:
        """Takes one frame; False if it was dropped as a duplicate, or refused.

        Raises:
            FramesMissing: a batch or part is missing before this frame and the one before it.
            Divergence: a duplicate with another payload.
        """
        self._next_offset = max(self._next_offset, offset + 1)
        try:
            return self._offer(offset, frame)
        except ValueError as error:
            self._refuse(offset, str(error))
            return False

    def _offer(self, offset: int, frame: bytes) -> bool:
        """Raises ValueError on what is no frame."""
        header = unpack(frame)
        writer = self._writers.get(header.writer)
        if header.generation != self._generation or writer is None:
            raise ValueError(f"generation {header.generation}, writer {header.writer}: not one that writes here")
        if header.part >= header.parts:
            raise ValueError(f"part {header.part} of {header.parts}")
        if header.flags & FLAG_TENTATIVE:
            return self._line is not None and self._line.offer(header, self._fitting(header, frame))
        writer.epoch = max(writer.epoch, header.epoch)
        if self._is_duplicate(writer, header):
            self._compare(header, offset, frame)
            return False
        if writer.dropping or self._full(writer, header):
            self._drop(writer, offset)
            if self._line is not None:
                self._line.lend(header, self._fitting(header, frame))
            return False
        payload = self._fitting(header, frame)
        if header.batch != writer.received + 1 or header.part != len(writer.parts):
            self._look_ahead(writer, header, offset)
            return False
        if writer.parts and header.parts != writer.count:
            raise ValueError(f"part {header.part} of {header.parts} in a batch of {writer.count}")
        self._take(writer, header, offset, payload)
        return True

    def _fitting(self, header: Header, frame: bytes) -> memoryview:
        """Raises ValueError for what are no rows of the stream."""
        payload = payload_of(frame, header)
        if len(payload):
            self._fits(header, payload)
        return payload

    # -- a line of tentative batches ----------------------------------------------------------------------------------

    def begin_line(self, batch: int) -> None:
        """From now on what comes behind the batch is there for a line of tentative batches, too."""
        self._line = Line(tuple(self._writers), batch)

    def end_line(self) -> None:
        self._line = None

    def peek(self, batch: int, absent: Set[int]) -> Merged | None:
        """Payloads of a batch for the line; it stays here for the stable cursor; None: a writer is waited for."""
        assert self._line is not None, "there is no line"
        held = ((number, writer.batches.get(batch)) for number, writer in self._writers.items())
        stable = {number: one for number, one in held if one is not None}
        found = self._line.find(batch, stable, self._silent(absent))
        if found is None:
            return None
        some = payloads(found)
        return Merged(some, watermark(found), sum(map(len, some)), len(found), clock_us=clock(found))

    def following(self, batch: int, absent: Set[int]) -> int | None:
        """The first batch behind this one that the line may have; None: a writer is waited for, or nothing is here."""
        assert self._line is not None, "there is no line"
        stable = {number: writer.received for number, writer in self._writers.items()}
        return self._line.after(batch, stable, self._silent(absent))

    def silenced(self, absent: Set[int]) -> bool:
        """Nothing is waited for here: every writer is absent, or has ended."""
        return self._silent(absent) >= self._writers.keys()

    def _silent(self, absent: Set[int]) -> Set[int]:
        """Writers that are not waited for: those that are absent, and those that have ended."""
        return absent | {number for number, writer in self._writers.items() if writer.ended}

    def passed(self, batch: int) -> None:
        """The line has done the batch."""
        if self._line is not None:
            self._line.advance(batch)

    # -- what there is no room for ------------------------------------------------------------------------------------

    def _full(self, writer: _Writer, header: Header) -> bool:
        """True if there is no room for the writer's next batch, which is not the next one to be taken."""
        if header.batch != writer.received + 1 or header.part or writer.parts or header.batch <= self._done + 1:
            return False
        return header.batch > self._done + MAX_AHEAD_BATCHES or writer.bytes >= self._share

    @property
    def _share(self) -> int:
        """Each writer has its own: those that come first in the log must leave room for the one that is waited for."""
        return MAX_AHEAD_BYTES // len(self._writers)

    def _drop(self, writer: _Writer, offset: int) -> None:
        writer.dropping = True
        self._dropped = offset if self._dropped is None else min(offset, self._dropped)

    def rewind(self) -> int | None:
        """From where to read again, once there is room for what was dropped; None: from nowhere.

        At the first frame that was dropped of any writer. What is held of others comes as duplicates.
        """
        if self._dropped is None or not any(w.dropping and self._has_room(w) for w in self._writers.values()):
            return None
        offset, self._dropped = self._dropped, None
        self._next_offset = offset
        for writer in self._writers.values():
            writer.dropping = False
        return offset

    def _has_room(self, writer: _Writer) -> bool:
        """For a good part of what it may hold; or there is nothing else to do."""
        near = writer.received <= self._done + MAX_AHEAD_BATCHES // 2
        return writer.received <= self._done or (near and writer.bytes <= self._share // 2)

    @property
    def ahead(self) -> int:
        """Batches that are here in full and not taken."""
        return self.newest - self._done if self.newest < FOREVER else 0

    def _look_ahead(self, writer: _Writer, header: Header, offset: int) -> None:
        """Frames are missing before this one; or it is none of the writer's, whose next one then fits.

        Raises ValueError for one such frame, FramesMissing once another follows on it, unless that is known.
        """
        if self._void(header.writer, header.epoch):
            return
        before, writer.ahead = writer.ahead, (header.batch, header.part, header.parts)
        if before is None:
            writer.gap = offset
        if writer.gap <= self._gap:
            return
        missing = (
            f"writer {header.writer} sent batch {header.batch} part {header.part}, "
            f"expected batch {writer.received + 1} part {len(writer.parts)}"
        )
        if before is not None and _follows(before, header):
            raise FramesMissing(self._name, offset, missing)
        raise ValueError(missing)

    def _is_duplicate(self, writer: _Writer, header: Header) -> bool:
        if writer.ended or header.batch <= writer.received:
            return True
        return header.batch == writer.making and header.part < len(writer.parts)

    def _compare(self, header: Header, offset: int, frame: bytes) -> None:
        """The first in the log counts; down to the last marker a difference is noticed, if it is a frame at all."""
        known = self._hashes.get((header.writer, header.batch, header.part))
        if known is not None and known != header.payload_hash:
            payload = payload_of(frame, header)
            if len(payload):
                self._fits(header, payload)
            text = (
                f"{self._name} offset {offset}: writer {header.writer} sent batch {header.batch} part {header.part} "
                f"twice, with different rows: an operator above is not a pure function of its input"
            )
            raise Divergence(text) if self._strict else ValueError(f"{text}; the first frame counts")

    def _take(self, writer: _Writer, header: Header, offset: int, payload: memoryview) -> None:
        self._firsts.setdefault(header.batch, offset)
        self._hashes[header.writer, header.batch, header.part] = header.payload_hash
        writer.making, writer.count, writer.ahead = header.batch, header.parts, None
        writer.parts.append(payload)
        writer.bytes += len(payload)
        self.bytes += len(payload)
        if len(writer.parts) < header.parts:
            return
        writer.batches[header.batch] = batch_of(header, writer.parts)
        writer.received = header.batch
        writer.parts = []
        writer.making = 0
        writer.ended = bool(header.flags & FLAG_END)

    @property
    def missing(self) -> str:
        """The frames that Kafka has lost and a writer has to send again; empty if there are none."""
        waiting = ((number, w) for number, w in self._writers.items() if w.ahead is not None and w.gap <= self._gap)
        return ", ".join(
            f"{self._name}: batch {writer.received + 1} part {len(writer.parts)} of writer {number}"
            for number, writer in waiting
        )

    @property
    def newest(self) -> int:
        """The highest batch that every writer has sent in full."""
        return min((FOREVER if w.ended else w.received for w in self._writers.values()), default=FOREVER)

    def ready(self, batch: int) -> bool:
        """True if every writer has sent it in full. Asked in every turn of a copy."""
        for writer in self._writers.values():  # noqa: SIM110 (a generator would take twice as long)
            if writer.received < batch and not writer.ended:
                return False
        return True

    def take(self, batch: int) -> Merged:
        """Hands out a ready batch and forgets it."""
        merged = self.held(batch)
        for writer in self._writers.values():
            one = writer.batches.pop(batch, None)
            writer.bytes -= 0 if one is None else sum(map(len, one.payloads))
        self._done = batch
        self._firsts.pop(batch, None)
        self.bytes -= merged.bytes
        return merged

    def held(self, batch: int) -> Merged:
        """A ready batch, which stays here."""
        found = [writer.batches.get(batch) or Batch(END_WATERMARK, []) for writer in self._writers.values()]
        some, at = payloads(found), watermark(found) if self._writers else NO_WATERMARK
        return Merged(some, at, sum(map(len, some)), clock_us=clock(found))

    def skip(self, batch: int, offset: int, ended: Sequence[int]) -> None:
        """Continues behind a batch that another copy has done: as if newly opened there, with the frames held since."""
        for number, writer in self._writers.items():
            writer.batches = {held: taken for held, taken in writer.batches.items() if held > batch}
            if writer.making <= batch:
                writer.making, writer.parts, writer.ahead = 0, [], None
            writer.received = max(writer.received, batch)
            writer.ended = writer.ended or number in ended
        self._done = max(self._done, batch)
        self._next_offset = max(self._next_offset, offset)
        self._dropped = None if self._dropped is None else max(self._dropped, offset)
        self._firsts = {held: first for held, first in self._firsts.items() if held > batch}
        for writer in self._writers.values():
            held = (writer.parts, *(taken.payloads for taken in writer.batches.values()))
            writer.bytes = sum(len(part) for parts in held for part in parts)
        self.bytes = sum(writer.bytes for writer in self._writers.values())
        self.forget_hashes(batch)

    @property
    def ended(self) -> tuple[int, ...]:
        """Writers of which nothing comes after the last batch taken."""
        over = ((number, writer) for number, writer in self._writers.items() if writer.ended)
        return tuple(number for number, writer in over if not writer.batches)

    @property
    def ending(self) -> bool:
        """The end of a writer is here, or done."""
        return any(writer.ended for writer in self._writers.values())

    def position(self) -> int:
        """Offset to read from after the last batch taken: at the first frame, of any writer, of a later one."""
        known = [*self._firsts.values(), *(() if self._dropped is None else (self._dropped,))]
        return min(known, default=self._next_offset)

    def seen(self) -> dict[int, int]:
        """By writer, the highest epoch under which frames were sent that came here."""
        return {number: writer.epoch for number, writer in self._writers.items()}

    def forget_hashes(self, batch: int) -> None:
        """A valid marker for `batch` has made earlier duplicates impossible to need."""
        self._hashes = {key: value for key, value in self._hashes.items() if key[1] > batch}


def _follows(before: tuple[int, int, int], header: Header) -> bool:
    """True if the frame comes right behind another one of its writer."""
    batch, part, parts = before
    if part + 1 < parts:
        return (header.batch, header.part) == (batch, part + 1)
    return (header.batch, header.part) == (batch + 1, 0)
