"""Writes the checkpoint runs of one copy: capture, parts, marker. When the marker is read back as valid, the run is
settled.

Source: PROTOCOL 6. core/checkpoint_run.py holds the order of the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from holdfast.schemas.checkpoints import Marker, Position, encode
from holdfast.schemas.cuts import CutsSnapshot, Gap
from holdfast.schemas.decided import Id
from holdfast.schemas.leaps import Leap
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.checkpoint_log import CheckpointLog
from holdfast.services.decisions.decided import Author
from holdfast.services.log.protocol import Appender
from holdfast.services.worker.checkpoint.parts import Parts
from holdfast.services.worker.checkpoint.pieces import timed_pieces
from holdfast.services.worker.checkpoint.policies.policy import Kind
from holdfast.services.worker.checkpoint.unit_image import UnitImage
from holdfast.services.worker.core.checkpoint_run import (
    Abandoned,
    Action,
    CheckpointRun,
    Due,
    Encoded,
    Event,
    Flushed,
    MarkerRead,
    Phase,
    Settled,
)
from holdfast.services.worker.core.spent import Spent


@dataclass(frozen=True, slots=True)
class Moment:
    """The content of a marker: the unit as of the captured batch. `holds` are the marker's fields aligned and held;
    `seen` is its field of that name."""

    batch: int
    watermarks: dict[str, int]
    positions: list[Position]
    cuts: CutsSnapshot | None
    counts: dict[str, int]
    ended: bool
    leap: Leap | None = None
    position: int = 0
    raised: int = 0
    kept: dict[str, int] = field(default_factory=dict)
    holds: tuple[bool, int | None] = (False, None)
    gap: Gap | None = None
    seen: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WrittenLog:
    """The checkpoint log of a unit as a copy writes it."""

    partition: Partition
    log: CheckpointLog
    """The fold of the partition, as far as the copy has read it."""
    author: Author
    appender: Appender
    clock_ms: Callable[[], float]


class LogWriter:
    """Writes runs one after the other.

    Args:
        acked: called with the marker when it is read back as valid.
        captured: called with the keys and the kind of a run that begins.
        spent: costs of the copy so far.

    Attributes:
        kind: kind of the run under way, or otherwise of the last run.
        capture_ms: cost of that run so far, milliseconds.
    """

    def __init__(
        self,
        written: WrittenLog,
        image: UnitImage,
        acked: Callable[[Marker], None],
        captured: Callable[[Collection[bytes], Kind], None],
        spent: Spent,
    ) -> None:
        self._written = written
        self._log = written.log
        self._image = image
        self._acked = acked
        self._captured = captured
        self._spent = spent
        self._core = CheckpointRun()
        self._moment: Moment | None = None
        self._id: Id | None = None
        self._work: Iterator[None] = iter(())
        self._parts = Parts(written.partition, image.store, written.appender, spent)
        self.kind = Kind.SWEEP
        self.capture_ms = 0.0

    # -- how it stands ------------------------------------------------------------------------------------------------

    @property
    def phase(self) -> Phase:
        return self._core.phase

    @property
    def resting(self) -> bool:
        """True if no run is under way."""
        return self._core.phase is Phase.RESTING

    @property
    def working(self) -> bool:
        """True if there are pieces to encode or settle."""
        return self._core.phase in (Phase.ENCODING, Phase.SETTLING)

    @property
    def flushing(self) -> bool:
        """True if the marker waits until everything before it is acknowledged and committed."""
        return self._core.phase is Phase.FLUSHING

    @property
    def deciding(self) -> bool:
        """True if a marker was appended and is not read back yet."""
        return self._core.phase is Phase.DECIDING

    # -- what happens to a run ----------------------------------------------------------------------------------------

    def begin(self, moment: Moment, kind: Kind) -> None:
        """Captures the state as of moment.batch. On a new line, a record with the start of the line is appended
        first.
        """
        if self._log.unrecorded is not None:
            self._append(encode(self._log.unrecorded))
        self._moment = moment
        self.kind = kind
        self.capture_ms = 0.0
        self._handle(Due(moment.batch))

    def work(self) -> None:
        """Encodes or settles for about PIECE_MS."""
        if not self.working:
            return
        for took_ms in timed_pieces(self._written.clock_ms, lambda: self.working, self._piece):
            self.capture_ms += took_ms
            self._spent.capture_ms += took_ms

    def flushed(self, batch: int) -> None:
        """Reports that everything up to `batch` is acknowledged and committed."""
        if self.flushing:
            self._handle(Flushed(batch))

    def awaits(self, marker: Marker) -> bool:
        """True if `marker` is the marker that the run waits for."""
        return self.deciding and marker.id == self._id

    def read_back(self, valid: bool) -> None:
        """Reports that the awaited marker was read."""
        self._handle(MarkerRead(valid))

    def abandon(self) -> None:
        """Gives up the run under way, unless it is valid already."""
        self._handle(Abandoned())

    def _piece(self) -> None:
        if next(self._work, StopIteration) is StopIteration:
            self._handle(Encoded() if self.phase is Phase.ENCODING else Settled())

    # -- actions ------------------------------------------------------------------------------------------------------

    def _handle(self, event: Event) -> None:
        for action in self._core.handle(event):
            _DO[action](self)

    def _capture(self) -> None:
        capture = self._image.capture()
        self._spent.began_run()
        self._captured(capture, self.kind)
        self._id = self._written.author.next()
        self._parts.begin(self._id)
        self._work = self._parts.encode(capture, self._log.cursor, self.kind is Kind.SWEEP)

    def _propose(self) -> None:
        moment = self._moment
        assert moment is not None
        assert self._id is not None
        marker = Marker(
            id=self._id,
            prev=self._log.last_id,
            parts=self._parts.count,
            a=self._image.batch,
            b=moment.batch,
            sweep_from=self._parts.swept[0],
            sweep_to=self._parts.swept[1],
            tables=self._image.store.names,
            watermarks=moment.watermarks,
            positions=moment.positions,
            cuts=moment.cuts,
            counts=moment.counts,
            ended=moment.ended,
            leap=moment.leap,
            position=moment.position,
            raised=moment.raised,
            kept=moment.kept,
            line=self._log.line,
            aligned=moment.holds[0],
            held=moment.holds[1],
            gap=moment.gap,
            seen=moment.seen,
        )
        record = encode(marker)
        self._spent.appended(len(record))
        self._append(record)

    def _append(self, record: bytes) -> None:
        """Appends a record, and appends it again if Kafka may have lost it. The fold counts only one of two equal
        records."""

        def appended(error: Exception | None, _: int) -> None:
            if error is not None:
                self._append(record)

        self._written.appender.append(self._written.partition, record, done=appended)

    def _ack(self) -> None:
        assert self._log.last is not None
        self._acked(self._log.last)

    def _settle(self) -> None:
        self._work = self._settle_run()

    def _settle_run(self) -> Iterator[None]:
        """Writes the run's delta into the image, then removes it from memory."""
        while self._parts.pieces:
            self._image.apply(self._parts.pieces.popleft())
            yield
        yield from self._image.settle()
        assert self._moment is not None
        self._image.batch = self._moment.batch

    def _thaw(self) -> None:
        self._parts.forget()
        self._image.store.thaw()


_DO: dict[Action, Callable[[LogWriter], None]] = {
    Action.CAPTURE: LogWriter._capture,
    Action.PROPOSE: LogWriter._propose,
    Action.ACK: LogWriter._ack,
    Action.SETTLE: LogWriter._settle,
    Action.THAW: LogWriter._thaw,
}
