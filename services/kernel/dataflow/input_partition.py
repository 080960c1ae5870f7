"""Merging of the frames of one input partition into batches: drops duplicates, finds gaps, detects divergence.

A record that is not a frame is refused and changes no position: the true frame after it is taken.
Source: PROTOCOL 4. The batch number is the clock: a batch is ready when every writer has sent a frame of it (or its
end).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field

from holdfast.schemas.cuts import END_WATERMARK, NO_WATERMARK
from holdfast.schemas.frames import FLAG_END, FLAG_TENTATIVE, Header, unpack
from holdfast.services.kernel.codecs.frames import payload_of
from holdfast.services.kernel.dataflow.line import Batch, Early, Line, batch_of, clock, payloads, watermark
from holdfast.services.kernel.errors import Divergence, FramesMissing

MAX_AHEAD_BATCHES, MAX_AHEAD_BYTES = 4_096, 96 * 1024 * 1024
"""The limits for frames kept while the frames of another writer are missing. Frames beyond them are dropped and read
again later.
"""

FOREVER = 2**62
"""A batch number after all others: an ended writer counts as received up to here."""

Refuse = Callable[[int, str], None]
"""A function called with the offset of a record that is not a frame, and the reason."""
Fits = Callable[[Header, memoryview], None]
"""A function that raises ValueError if a payload does not hold rows of the stream."""


Void = Callable[[int, int], bool]
"""A test of a writer number and an epoch."""


def _nothing(*_: object) -> None:
    pass


def _never(*_: object) -> bool:
    return False


@dataclass(slots=True)
class _Writer:
    """The frames of one writer.

    received: the last complete batch.
    making: the number of the incomplete batch; 0: none.
    count: the number of parts of the incomplete batch.
    ahead: (batch, part, parts) of the last frame before which a frame is missing.
    gap: the offset of the first such frame.
    parts: the payloads of the incomplete batch.
    batches: the complete batches that are not taken yet.
    ended: True once the writer has sent its end.
    bytes: the size of the payloads held.
    dropping: True while its next batch and all later ones are dropped for lack of room.
    epoch: the highest epoch of its frames.
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
    """A batch of one partition.

    payloads: the payloads that are not empty, in order of writer, then part.
    watermark: the lowest watermark of the writers.
    bytes: the size of the payloads.
    writers: the number of writers with a share in a tentative batch.
    clock_us: the latest time at which a share was cut, microseconds since 1970.
    """

    payloads: Sequence[memoryview]
    watermark: int
    bytes: int = 0
    writers: int = 0
    clock_us: int = 0


class InputPartition:
    """The frames of one partition, from the batch after `batch` on.

    Args:
        name: for messages, such as `topic[3]`.
        writers: the writer numbers that feed this partition.
        generation: frames of another generation are dropped.
        batch: the last batch that is done.
        offset: the offset of the first frame after that batch.
        ended: the writers that had ended by then.
        refuse: called for each record that is not a frame.
        fits: checks a payload before its frame is used.
        gap: Kafka has lost frames up to this offset: a copy that had read from a marker also found them missing. Their
            writer goes back to its own marker and sends them and all later ones again; until then later frames are
            dropped.
        strict: two different frames of one batch stop the copy; otherwise the first frame counts.
        void: returns True if the writer will send again the frames missing before a frame of this epoch.
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
        self._name = name
        self._gap = gap
        self._strict = strict
        self._refuse = refuse
        self._fits = fits
        self._generation = generation
        self._writers = {number: _Writer(received=batch, ended=number in ended) for number in sorted(writers)}
        self._done = batch
        self._next_offset = offset
        self._firsts: dict[int, int] = {}
        self._hashes: dict[tuple[int, int, int], int] = {}
        self._dropped: int | None = None
        self._line: Line | None = None
        self._early = Early()
        self.bytes = 0

    def offer(self, offset: int, frame: bytes) -> bool:
        """Takes one frame; False if it is dropped as a duplicate, or refused.

        Raises:
            FramesMissing: a batch or part is missing between the previous frame and this one.
            Divergence: a duplicate has another payload.
        """
        self._next_offset = max(self._next_offset, offset + 1)
        try:
            return self._offer(offset, frame)
        except ValueError as error:
            self._refuse(offset, str(error))
            return False

    def _offer(self, offset: int, frame: bytes) -> bool:
        """Takes one frame. Raises ValueError if the record is not a frame."""
        header = unpack(frame)
        writer = self._writers.get(header.writer)
        if header.generation != self._generation or writer is None:
            raise ValueError(f"generation {header.generation}, writer {header.writer}: not one that writes here")
        if header.part >= header.parts:
            raise ValueError(f"part {header.part} of {header.parts}")
        if header.flags & FLAG_TENTATIVE:
            payload = self._fitting(header, frame)
            return self._early.keep(header, payload) if self._line is None else self._line.offer(header, payload)
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
        """The payload of a frame. Raises ValueError if it does not hold rows of the stream."""
        payload = payload_of(frame, header)
        if len(payload):
            self._fits(header, payload)
        return payload

    # -- a line of tentative batches ----------------------------------------------------------------------------------

    def begin_line(self, batch: int) -> None:
        """Starts a line of tentative batches: frames after this batch are kept for it, too."""
        self._line = Line(tuple(self._writers), batch)
        self._early.hand_over(self._line)

    def end_line(self) -> None:
        self._line = None

    def peek(self, batch: int, absent: Set[int]) -> Merged | None:
        """The payloads of a batch for the line; the stable cursor keeps them. None if a writer is still awaited."""
        assert self._line is not None, "there is no line"
        held = ((number, writer.batches.get(batch)) for number, writer in self._writers.items())
        stable = {number: one for number, one in held if one is not None}
        found = self._line.find(batch, stable, self._silent(absent))
        if found is None:
            return None
        some = payloads(found)
        return Merged(some, watermark(found), sum(map(len, some)), len(found), clock_us=clock(found))

    def following(self, batch: int, absent: Set[int]) -> int | None:
        """The first batch after this one that the line can process; None if a writer is still awaited or no frame is
        here.
        """
        assert self._line is not None, "there is no line"
        stable = {number: writer.received for number, writer in self._writers.items()}
        return self._line.after(batch, stable, self._silent(absent))

    def silenced(self, absent: Set[int]) -> bool:
        """True if the line waits for no writer here: each is absent or has ended."""
        return self._silent(absent) >= self._writers.keys()

    def _silent(self, absent: Set[int]) -> Set[int]:
        """The writers for which the line does not wait: absent writers and ended ones."""
        return absent | {number for number, writer in self._writers.items() if writer.ended}

    def passed(self, batch: int) -> None:
        """Notes that the line has processed the batch."""
        if self._line is not None:
            self._line.advance(batch)

    # -- frames without room ------------------------------------------------------------------------------------------

    def _full(self, writer: _Writer, header: Header) -> bool:
        """True if there is no room for the writer's next batch, unless that batch is the next to be taken."""
        if header.batch != writer.received + 1 or header.part or writer.parts or header.batch <= self._done + 1:
            return False
        return header.batch > self._done + MAX_AHEAD_BATCHES or writer.bytes >= self._share

    @property
    def _share(self) -> int:
        """The most bytes kept for each writer: frames that come first in the log must leave room for the writer that is
        awaited.
        """
        return MAX_AHEAD_BYTES // len(self._writers)

    def _drop(self, writer: _Writer, offset: int) -> None:
        writer.dropping = True
        self._dropped = offset if self._dropped is None else min(offset, self._dropped)

    def rewind(self) -> int | None:
        """The offset from which to read again, once there is room for the dropped frames; None: do not read again.

        The offset is that of the first dropped frame of any writer. Frames already held arrive again as duplicates.
        """
        if self._dropped is None or not any(w.dropping and self._has_room(w) for w in self._writers.values()):
            return None
        offset, self._dropped = self._dropped, None
        self._next_offset = offset
        for writer in self._writers.values():
            writer.dropping = False
        return offset

    def _has_room(self, writer: _Writer) -> bool:
        """True if there is room for a good part of the writer's share, or no batch of the writer waits to be taken."""
        near = writer.received <= self._done + MAX_AHEAD_BATCHES // 2
        return writer.received <= self._done or (near and writer.bytes <= self._share // 2)

    @property
    def ahead(self) -> int:
        """The number of complete batches that are not taken."""
        return self.newest - self._done if self.newest < FOREVER else 0

    def _look_ahead(self, writer: _Writer, header: Header, offset: int) -> None:
        """Notes a frame before which frames are missing, or which is not a true frame of its writer.

        Raises ValueError for the first such frame, and FramesMissing if a second one follows it directly, unless the
        gap is already known.
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
        """Compares a duplicate with the first frame in the log, which counts. Hashes are kept back to the last
        marker.
        """
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
        """The frames that Kafka has lost and that a writer must send again, as text; empty if there are none."""
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
        """True if every writer has sent the batch in full. Called in every turn of a copy."""
        for writer in self._writers.values():  # noqa: SIM110 (a generator would take twice as long)
            if writer.received < batch and not writer.ended:
                return False
        return True

    def take(self, batch: int) -> Merged:
        """Returns a ready batch and forgets it."""
        merged = self.held(batch)
        for writer in self._writers.values():
            one = writer.batches.pop(batch, None)
            writer.bytes -= 0 if one is None else sum(map(len, one.payloads))
        self._done = batch
        self._firsts.pop(batch, None)
        self.bytes -= merged.bytes
        return merged

    def held(self, batch: int) -> Merged:
        """Returns a ready batch and keeps it."""
        found = [writer.batches.get(batch) or Batch(END_WATERMARK, []) for writer in self._writers.values()]
        some, at = payloads(found), watermark(found) if self._writers else NO_WATERMARK
        return Merged(some, at, sum(map(len, some)), clock_us=clock(found))

    def skip(self, batch: int, offset: int, ended: Sequence[int]) -> None:
        """Continues after a batch that another copy has processed, as if opened there, with the later frames already
        held.
        """
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
        """The writers that send no frame after the last batch taken."""
        over = ((number, writer) for number, writer in self._writers.items() if writer.ended)
        return tuple(number for number, writer in over if not writer.batches)

    @property
    def ending(self) -> bool:
        """True if the end of a writer has arrived or is already processed."""
        return any(writer.ended for writer in self._writers.values())

    def position(self) -> int:
        """The offset to read from after the last batch taken: that of the first frame, of any writer, of a later
        batch.
        """
        known = [*self._firsts.values(), *(() if self._dropped is None else (self._dropped,))]
        return min(known, default=self._next_offset)

    def seen(self) -> dict[int, int]:
        """The highest epoch among the frames received, by writer."""
        return {number: writer.epoch for number, writer in self._writers.items()}

    def forget_hashes(self, batch: int) -> None:
        """Forgets the hashes of batches up to `batch`, whose marker is valid."""
        self._hashes = {key: value for key, value in self._hashes.items() if key[1] > batch}


def _follows(before: tuple[int, int, int], header: Header) -> bool:
    """True if the frame is the next frame of its writer after the frame at `before`."""
    batch, part, parts = before
    if part + 1 < parts:
        return (header.batch, header.part) == (batch, part + 1)
    return (header.batch, header.part) == (batch + 1, 0)
