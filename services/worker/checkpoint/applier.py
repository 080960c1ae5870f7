"""Applies the checkpoint runs of other copies to the image of this copy.

Source: PROTOCOL 6, MECHANISMS C6. A suspended copy applies every run on arrival. A copy that processes applies a run
when its own batch has reached the marker; if the marker is far ahead, the copy jumps there.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator

from holdfast.schemas.checkpoints import KEYS, Marker, unpack
from holdfast.services.decisions.checkpoint_log import Run
from holdfast.services.kernel.errors import StateCorrupted
from holdfast.services.kernel.state.values import bytes_of
from holdfast.services.worker.checkpoint import parts
from holdfast.services.worker.checkpoint.pieces import timed_pieces
from holdfast.services.worker.checkpoint.unit_image import UnitImage
from holdfast.services.worker.core.spent import Spent

JUMP_BATCHES = 256
"""Distance to another copy's marker, in batches, from which a copy that processes continues from the marker instead of
catching up."""


class Applier:
    """Applies runs one after the other, in the order of the log.

    Args:
        passed: called with a marker that the copy's own batch has reached.
        jumped: called with a marker ahead of the copy; the state is now as of that marker.
        spent: costs of the copy so far.

    Attributes:
        apply_ms: cost of the run under way, or otherwise of the last run, in milliseconds.
    """

    def __init__(
        self,
        image: UnitImage,
        clock_ms: Callable[[], float],
        passed: Callable[[Marker], None],
        jumped: Callable[[Marker], None],
        spent: Spent,
    ) -> None:
        self._image = image
        self._clock_ms = clock_ms
        self._spent = spent
        self._passed = passed
        self._jumped = jumped
        self._runs: deque[Run] = deque()
        self._read_ms: deque[float] = deque()
        self._applying: Iterator[None] | None = None
        self.apply_ms = 0.0

    @property
    def waiting(self) -> int:
        """The number of runs that wait, including the run under way."""
        return len(self._runs)

    @property
    def since_ms(self) -> float:
        """The time since which the oldest run waits; math.inf if no run waits."""
        return self._read_ms[0] if self._read_ms else math.inf

    @property
    def halfway(self) -> bool:
        """True if a run is applied in part, so that the image is as of no batch."""
        return self._applying is not None

    def add(self, run: Run) -> None:
        """Adds a valid run of another copy."""
        self._runs.append(run)

    def note_arrivals(self, now_ms: float) -> None:
        """Notes `now_ms` as the arrival time of the runs that were added since the last call."""
        self._read_ms.extend([now_ms] * (len(self._runs) - len(self._read_ms)))

    def due(self, batch: int, suspended: bool) -> bool:
        """True if `apply` has work to do."""
        if not self._runs:
            return False
        ahead = self._runs[0].marker.b - batch
        return suspended or ahead <= 0 or ahead > JUMP_BATCHES

    def apply(self, batch: int, suspended: bool) -> None:
        """Applies due runs for about PIECE_MS.

        Args:
            batch: last batch that this copy has done.
            suspended: True if the copy does not process, so that nothing reads the image.
        """

        def piece() -> None:
            if self._applying is None:
                self.apply_ms = 0.0
            self._piece(batch, suspended)

        for took_ms in timed_pieces(self._clock_ms, lambda: self.due(batch, suspended), piece):
            self.apply_ms += took_ms
            self._spent.apply_ms += took_ms

    def finish(self, batch: int) -> None:
        """Applies every waiting run, for a suspended copy that is about to process."""
        began_ms = self._clock_ms()
        while self._runs:
            self._piece(batch, suspended=True)
            batch = max(batch, self._image.batch)
        self._spent.apply_ms += self._clock_ms() - began_ms

    def _piece(self, batch: int, suspended: bool) -> None:
        marker = self._runs[0].marker
        ahead = marker.b > batch
        if self._applying is None:
            if marker.a > self._image.batch:
                raise StateCorrupted(f"a run from {marker.a} does not fit an image as of {self._image.batch}")
            self._applying = self._apply_run(self._runs[0])
        # A copy that processes applies a run ahead of it as a whole: its own batches read the image in between.
        while next(self._applying, StopIteration) is not StopIteration:
            if suspended or not ahead:
                return
        self._applying = None
        self._runs.popleft()
        if self._read_ms:
            self._read_ms.popleft()
        self._spent.applies += 1
        self._image.batch = marker.b
        self._image.store.adopt(marker.tables)
        if ahead:
            self._image.replaced(marker.counts.get(KEYS, 0))
            self._jumped(marker)
        else:
            self._image.freeze(batch)
            self._passed(marker)

    def _apply_run(self, run: Run) -> Iterator[None]:
        yield from self._apply_delta(run)
        yield from self._image.settle_up_to(run.marker.b)

    def _apply_delta(self, run: Run) -> Iterator[None]:
        """Applies the changes of a run, a piece at a time. The image holds the entries of a sweep slice already."""
        for part in run.parts:
            entries = [] if part.sweep else unpack(part.entries)
            for first in range(0, len(entries), parts.PIECE_ENTRIES):
                piece = entries[first : first + parts.PIECE_ENTRIES]
                self._spent.entry.add(piece, bytes_of(piece))
                self._image.apply(piece)
                yield
