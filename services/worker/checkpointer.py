"""Carries out the checkpoint runs of one copy: parts, marker, settling, and the trim of the checkpoint log itself.

Source: PROTOCOL 6. Encoding and settling run in pieces between batches, so the pause does not grow with the state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from schemas.checkpoints import CutsSnapshot, Entry, Marker, Part, Position, decode, encode, pack
from schemas.decided import Id
from schemas.topics import Partition
from services.kernel.checkpoint_log import CheckpointLog
from services.kernel.decided import Author
from services.kernel.state import Capture, StateStore
from services.log.protocol import Appender
from services.worker.core.checkpointing import (
    Action,
    Checkpointing,
    Due,
    Encoded,
    Event,
    Flushed,
    MarkerRead,
    Phase,
    Settled,
)

PIECE_ENTRIES = 1_000
PIECE_MS = 2.0
PART_ENTRIES = 5_000
SWEEP_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Moment:
    """What a marker says of the unit as of the captured batch."""

    batch: int
    watermarks: dict[str, int]
    positions: list[Position]
    cuts: CutsSnapshot | None
    counts: dict[str, int]
    ended: bool


class Checkpointer:
    """Writes the runs of one unit.

    Args:
        log: the fold of the unit's partition, as restored.
        image_batch: the batch of the image.
        acked: called with the marker once it was read back as valid.
    """

    def __init__(
        self,
        partition: Partition,
        log: CheckpointLog,
        store: StateStore,
        image_batch: int,
        author: Author,
        appender: Appender,
        clock_ms: Callable[[], float],
        acked: Callable[[Marker], None],
    ) -> None:
        self.partition = partition
        self.log = log
        self._store = store
        self._image_batch = image_batch
        self._author = author
        self._appender = appender
        self._clock_ms = clock_ms
        self._acked = acked
        self._core = Checkpointing()
        self._moment: Moment | None = None
        self._id: Id | None = None
        self._work: Iterator[None] = iter(())
        self._parts = 0
        self._entries: list[list[Entry]] = []
        self._sweep: tuple[bytes, bytes | None] = (b"", None)
        self.longest_ms = 0.0

    @property
    def resting(self) -> bool:
        return self._core.phase is Phase.RESTING

    @property
    def deciding(self) -> bool:
        """A marker is on its way."""
        return self._core.phase is Phase.DECIDING

    @property
    def working(self) -> bool:
        """There are pieces to encode or settle."""
        return self._core.phase in (Phase.ENCODING, Phase.SETTLING)

    def begin(self, moment: Moment) -> None:
        """Captures the state as of moment.batch."""
        self._moment = moment
        self._handle(Due(moment.batch))

    def work(self) -> None:
        """Encodes or settles for at most PIECE_MS."""
        started = self._clock_ms()
        while self.working and self._clock_ms() - started < PIECE_MS:
            if next(self._work, StopIteration) is StopIteration:
                self._handle(Encoded() if self._core.phase is Phase.ENCODING else Settled())
        self.longest_ms = max(self.longest_ms, self._clock_ms() - started)

    def flushed(self, batch: int) -> None:
        """Everything up to `batch` is acknowledged and committed."""
        if self._core.phase is Phase.FLUSHING:
            self._handle(Flushed(batch))

    def read(self, offset: int, value: bytes) -> None:
        """Takes a record of the unit's partition, ours or another copy's; what cannot be read is invalid."""
        try:
            record = decode(value)
        except msgspec.DecodeError:
            return
        run = self.log.read(offset, record)
        if isinstance(record, Marker) and record.id == self._id:
            self._handle(MarkerRead(valid=run is not None))

    def _handle(self, event: Event) -> None:
        for action in self._core.handle(event):
            _DO[action](self)

    def _capture(self) -> None:
        capture = self._store.capture()
        self._id = self._author.next()
        self._parts = 0
        self._entries = []
        self._work = self._encode(capture)

    def _encode(self, capture: Capture) -> Iterator[None]:
        """Delta parts, then the sweep's next slice: what the image holds there and the delta does not."""
        gathered: list[Entry] = []
        size = 0
        while piece := capture.piece(PIECE_ENTRIES):
            gathered += piece
            if len(gathered) >= PART_ENTRIES:
                size += self._part(gathered, sweep=False)
                gathered = []
            yield
        if gathered:
            size += self._part(gathered, sweep=False)
            yield
        start = self.log.cursor
        slice_, stop = self._store.image.slice(start, max(SWEEP_BYTES, size))
        self._sweep = (start, stop)
        kept: list[Entry] = [(key, value) for key, value in slice_ if not capture.holds(key)]
        for first in range(0, len(kept), PART_ENTRIES):
            self._part(kept[first : first + PART_ENTRIES], sweep=True)
            yield

    def _part(self, entries: list[Entry], sweep: bool) -> int:
        assert self._id is not None
        packed = pack(entries)
        self._appender.append(self.partition, encode(Part(self._id, self._parts, sweep, packed)))
        self._parts += 1
        if not sweep:
            self._entries.append(entries)
        return len(packed)

    def _propose(self) -> None:
        moment = self._moment
        assert moment is not None
        assert self._id is not None
        marker = Marker(
            id=self._id,
            prev=self.log.last_id,
            parts=self._parts,
            a=self._image_batch,
            b=moment.batch,
            sweep_from=self._sweep[0],
            sweep_to=self._sweep[1],
            tables=self._store.names,
            watermarks=moment.watermarks,
            positions=moment.positions,
            delivered=moment.batch,
            cuts=moment.cuts,
            counts=moment.counts,
            ended=moment.ended,
        )
        self._appender.append(self.partition, encode(marker))

    def _ack(self) -> None:
        assert self.log.last is not None
        self._acked(self.log.last)

    def _settle(self) -> None:
        self._work = self._apply()

    def _apply(self) -> Iterator[None]:
        for entries in self._entries:
            for first in range(0, len(entries), PIECE_ENTRIES):
                self._store.image.apply(entries[first : first + PIECE_ENTRIES])
                yield
        self._entries = []
        self._store.settle()
        assert self._moment is not None
        self._image_batch = self._moment.batch

    def _thaw(self) -> None:
        self._entries = []
        self._store.thaw()


_DO: dict[Action, Callable[[Checkpointer], None]] = {
    Action.CAPTURE: Checkpointer._capture,
    Action.PROPOSE: Checkpointer._propose,
    Action.ACK: Checkpointer._ack,
    Action.SETTLE: Checkpointer._settle,
    Action.THAW: Checkpointer._thaw,
}
