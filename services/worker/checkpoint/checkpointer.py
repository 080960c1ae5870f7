"""Carries out the checkpoint runs of one copy, and takes over those of others: parts, marker, settling, pasting.

The image is always the log's state as of the last valid marker taken, whoever wrote it. Source: PROTOCOL 6. Encoding,
sweeping, settling and pasting run in pieces between batches, so the pause does not grow with the state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import msgspec

from schemas.checkpoints import CutsSnapshot, Marker, Position, decode, encode, unpack
from schemas.decided import Id
from schemas.topics import Partition
from services.kernel.errors import StateCorrupted
from services.kernel.logs.checkpoint_log import CheckpointLog, Run
from services.kernel.logs.decided import Author
from services.kernel.state.keyed import StateStore
from services.log.protocol import Appender
from services.worker.checkpoint import parts
from services.worker.checkpoint.parts import Parts
from services.worker.checkpoint.policies.policy import Kind
from services.worker.core.checkpointing import (
    Abandoned,
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

SETTLED_ENTRIES = 1_000
PIECE_MS = 1.0
JUMP_BATCHES = 256
"""A copy that processes and is this far behind another's marker goes on from there instead of catching up."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What a marker says of the unit as of the captured batch."""

    batch: int
    watermarks: dict[str, int]
    positions: list[Position]
    cuts: CutsSnapshot | None
    counts: dict[str, int]
    ended: bool
    position: int = 0


class Checkpointer:
    """Writes the runs of one unit.

    Args:
        log: the fold of the unit's partition, as restored.
        image_batch: the batch of the image.
        refuse: called with the offset of what is no record of a checkpoint log, and why.
        acked: called with the marker once it was read back as valid.
        passed: called with another copy's valid marker that the own batch has reached.
        jumped: called with one that is ahead: the state is now as of that marker.
        captured: called with the keys of a run that begins, and what kind of run it is.

    capture_ms, apply_ms: what the run under way, or else the last one, took so far to be written, and to be applied.
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
        refuse: Callable[[int, object], None],
        acked: Callable[[Marker], None],
        passed: Callable[[Marker], None],
        jumped: Callable[[Marker], None],
        captured: Callable[[Collection[bytes], Kind], None],
    ) -> None:
        self.partition = partition
        self.log = log
        self._store = store
        self._image_batch = image_batch
        self._author = author
        self._appender = appender
        self._clock_ms, self._refuse = clock_ms, refuse
        self._acked, self._passed, self._jumped, self._captured = acked, passed, jumped, captured
        self._foreign: deque[Run] = deque()
        self._pasting: Iterator[None] | None = None
        self._rotated: int | None = None
        self._core = Checkpointing()
        self._moment: Moment | None = None
        self._id: Id | None = None
        self._work: Iterator[None] = iter(())
        self._parts = Parts(partition, store, appender)
        self.kind = Kind.SWEEP
        self.capture_ms = self.apply_ms = 0.0

    @property
    def resting(self) -> bool:
        return self._core.phase is Phase.RESTING and not self._foreign

    @property
    def deciding(self) -> bool:
        """A marker is on its way."""
        return self._core.phase is Phase.DECIDING

    @property
    def working(self) -> bool:
        """There are pieces to encode or settle."""
        return self._core.phase in (Phase.ENCODING, Phase.SETTLING)

    @property
    def waiting(self) -> int:
        """Runs of other copies that are to be applied."""
        return len(self._foreign)

    @property
    def changed(self) -> int:
        """Keys that a run would hold now."""
        return self._store.changed

    @property
    def flushing(self) -> bool:
        """The marker waits for what comes before it to be acknowledged and committed."""
        return self._core.phase is Phase.FLUSHING

    def begin(self, moment: Moment, kind: Kind) -> None:
        """Captures the state as of moment.batch."""
        self._moment, self.kind, self.capture_ms = moment, kind, 0.0
        self._handle(Due(moment.batch))

    def abandon(self) -> None:
        """Gives up the run under way, unless it is valid already."""
        self._handle(Abandoned())

    def work(self) -> None:
        """Encodes or settles: one piece, and more while PIECE_MS is not over."""
        began_ms = now_ms = self._clock_ms()
        while self.working:
            if next(self._work, StopIteration) is StopIteration:
                self._handle(Encoded() if self._core.phase is Phase.ENCODING else Settled())
            now_ms, before_ms = self._clock_ms(), now_ms
            self.capture_ms += now_ms - before_ms
            if now_ms >= began_ms + PIECE_MS:
                return

    def paste(self, batch: int, asleep: bool) -> None:
        """Takes other copies' runs into the image: one piece, and more while PIECE_MS is not over.

        Args:
            batch: the last one that this copy has done. asleep: it does not process, so nothing reads the image.
        """
        began_ms = now_ms = self._clock_ms()
        while self.pastes(batch, asleep):
            if self._pasting is None:
                self.apply_ms = 0.0
            self._paste_piece(batch, asleep)
            now_ms, before_ms = self._clock_ms(), now_ms
            self.apply_ms += now_ms - before_ms
            if now_ms >= began_ms + PIECE_MS:
                return

    def awaken(self, batch: int) -> int:
        """Ends what `paste` has begun; the batch from which to go on."""
        while self._pasting is not None or (self._foreign and self.pastes(batch, True)):
            self._paste_piece(batch, True)
            batch = max(batch, self._image_batch)
        return batch

    def pastes(self, batch: int, asleep: bool) -> bool:
        """Whether `paste` has anything to do."""
        if not self._foreign or self._core.phase is not Phase.RESTING:
            return False
        ahead = self._foreign[0].marker.b - batch
        return asleep or ahead <= 0 or ahead > JUMP_BATCHES

    def _paste_piece(self, batch: int, asleep: bool) -> None:
        marker = self._foreign[0].marker
        ahead = marker.b > batch
        if self._pasting is None:
            if marker.a > self._image_batch:
                raise StateCorrupted(f"a run from {marker.a} does not fit an image as of {self._image_batch}")
            self._pasting = self._paste_run(self._foreign[0])
        # What is ahead of a copy that processes must not be seen half: its own batches read the image in between.
        while next(self._pasting, StopIteration) is not StopIteration:
            if asleep or not ahead:
                return
        self._pasting = None
        self._foreign.popleft()
        self._image_batch = marker.b
        self._store.adopt(marker.tables)
        if ahead:
            self._rotated = None
            self._store.forget()
            self._jumped(marker)
        else:
            if self._rotated is None:
                self._store.capture()
                self._rotated = batch
            self._passed(marker)

    def _paste_run(self, run: Run) -> Iterator[None]:
        """The run into the image, and what was changed up to a batch that the image then has out of memory."""
        yield from self._apply_run(run)
        if self._rotated is not None and self._rotated <= run.marker.b:
            yield from self._settle_pieces()
            self._rotated = None

    def _apply_run(self, run: Run) -> Iterator[None]:
        """The delta; what a sweep slice holds is in the image already."""
        for part in run.parts:
            entries = [] if part.sweep else unpack(part.entries)
            for first in range(0, len(entries), parts.PIECE_ENTRIES):
                self._store.image.apply(entries[first : first + parts.PIECE_ENTRIES])
                yield

    def flushed(self, batch: int) -> None:
        """Everything up to `batch` is acknowledged and committed."""
        if self.flushing:
            self._handle(Flushed(batch))

    def read(self, offset: int, value: bytes) -> None:
        """Takes a record of the unit's partition, ours or another copy's; what cannot be read is invalid."""
        try:
            record = decode(value)
        except msgspec.DecodeError as error:
            self._refuse(offset, error)
            return
        run = self.log.read(offset, record)
        if isinstance(record, Marker) and record.id == self._id and self.deciding:
            self._handle(MarkerRead(valid=run is not None))
        elif run is not None:
            self.abandon()
            self._foreign.append(run)

    def _handle(self, event: Event) -> None:
        for action in self._core.handle(event):
            _DO[action](self)

    def _capture(self) -> None:
        if self._rotated is not None:
            self._rotated = None
            self._store.thaw()
        capture = self._store.capture()
        self._captured(capture, self.kind)
        self._id = self._author.next()
        self._parts.begin(self._id)
        self._work = self._parts.encode(capture, self.log.cursor, self.kind is Kind.SWEEP)

    def _propose(self) -> None:
        moment = self._moment
        assert moment is not None
        assert self._id is not None
        marker = Marker(
            id=self._id,
            prev=self.log.last_id,
            parts=self._parts.count,
            a=self._image_batch,
            b=moment.batch,
            sweep_from=self._parts.swept[0],
            sweep_to=self._parts.swept[1],
            tables=self._store.names,
            watermarks=moment.watermarks,
            positions=moment.positions,
            cuts=moment.cuts,
            counts=moment.counts,
            ended=moment.ended,
            position=moment.position,
        )
        self._append(encode(marker))

    def _append(self, marker: bytes) -> None:
        """Again if Kafka may have lost it: of two the log counts one."""

        def appended(error: Exception | None, _: int) -> None:
            if error is not None:
                self._append(marker)

        self._appender.append(self.partition, marker, done=appended)

    def _ack(self) -> None:
        assert self.log.last is not None
        self._acked(self.log.last)

    def _settle(self) -> None:
        self._work = self._apply()

    def _apply(self) -> Iterator[None]:
        while self._parts.pieces:
            self._store.image.apply(self._parts.pieces.popleft())
            yield
        yield from self._settle_pieces()
        assert self._moment is not None
        self._image_batch = self._moment.batch

    def _settle_pieces(self) -> Iterator[None]:
        while self._store.settle_piece(SETTLED_ENTRIES):
            yield

    def _thaw(self) -> None:
        self._parts.forget()
        self._store.thaw()


_DO: dict[Action, Callable[[Checkpointer], None]] = {
    Action.CAPTURE: Checkpointer._capture,
    Action.PROPOSE: Checkpointer._propose,
    Action.ACK: Checkpointer._ack,
    Action.SETTLE: Checkpointer._settle,
    Action.THAW: Checkpointer._thaw,
}
