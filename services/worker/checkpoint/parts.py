"""A run's parts: the delta that was captured, then the sweep's next slice of the image, encoded a piece at a time.

Source: PROTOCOL 6. The sweep rewrites a slice with every run, so that the log never needs what lies before the last
complete cycle of slices.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from holdfast.schemas.checkpoints import Entry, Part, encode, pack
from holdfast.schemas.decided import Id
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.state.keyed import Capture, StateStore, bytes_of
from holdfast.services.log.protocol import Appender
from holdfast.services.worker.core.spent import Spent

PIECE_ENTRIES, PIECE_BYTES = 250, 16 * 1024
"""Measured: the image takes up to 4 us for an entry that it is given, and 1.5 us for one that is read."""
PART_ENTRIES, PART_BYTES = 2_000, 512 * 1024
SWEEP_BYTES = 64 * 1024


@dataclass(slots=True)
class _Gathered:
    """Entries that wait for their part; bytes: of keys and values."""

    entries: list[Entry] = field(default_factory=list)
    bytes: int = 0

    def add(self, piece: Sequence[Entry]) -> None:
        self.entries += piece
        self.bytes += bytes_of(piece)

    @property
    def full(self) -> bool:
        return len(self.entries) >= PART_ENTRIES or self.bytes >= PART_BYTES

    def take(self) -> list[Entry]:
        entries, self.entries, self.bytes = self.entries, [], 0
        return entries


class Parts:
    """Writes the parts of one unit's runs, one run after the other.

    count: parts of this run so far. swept: from which key to which the run's slice goes. pieces: the delta, which the
    image takes once the run counts.
    """

    def __init__(self, partition: Partition, store: StateStore, appender: Appender, spent: Spent) -> None:
        self._partition, self._store, self._appender, self._spent = partition, store, appender, spent
        self._id: Id | None = None
        self.count = 0
        self.swept: tuple[bytes, bytes | None] = (b"", None)
        self.pieces: deque[list[Entry]] = deque()
        self._swept_bytes = 0

    def begin(self, id: Id) -> None:
        """The next parts are of this run."""
        self._id, self.count, self.pieces = id, 0, deque()

    def forget(self) -> None:
        """The run does not count."""
        self.pieces = deque()

    def encode(self, capture: Capture, cursor: bytes, sweep: bool) -> Iterator[None]:
        """Delta parts, then the slice from the cursor on: what the image holds there and the delta does not.

        Args:
            sweep: the run is a sweep, and not a refresh between two.
        """
        gathered = _Gathered()
        packed = 0
        while piece := capture.piece(PIECE_ENTRIES, PIECE_BYTES):
            self.pieces.append(piece)
            self._spent.entry.add(piece)
            gathered.add(piece)
            if gathered.full:
                packed += self._part(gathered.take(), sweep=False)
            yield
        if gathered.entries:
            packed += self._part(gathered.take(), sweep=False)
            yield
        yield from self._encode_slice(capture, cursor, self._slice_bytes(packed, sweep))

    def _encode_slice(self, capture: Capture, start: bytes, size: int) -> Iterator[None]:
        """About `size` bytes of the image; it stays as it is until the marker is valid."""
        stop: bytes | None = start
        gathered = _Gathered()
        while stop is not None and size > 0:
            piece, stop = self._store.image.slice(stop, min(size, PIECE_BYTES))
            size -= bytes_of(piece)
            self._spent.entry.add(piece)
            gathered.add([entry for entry in piece if entry[0] not in capture])
            if gathered.full:
                self._part(gathered.take(), sweep=True)
            yield
        if gathered.entries:
            self._part(gathered.take(), sweep=True)
        self.swept = (start, stop)

    def _slice_bytes(self, delta_bytes: int, sweep: bool) -> int:
        """Size of a slice: as much as the delta, so that the log stays in proportion; from sweep to sweep at least
        SWEEP_BYTES.
        """
        least = max(SWEEP_BYTES - self._swept_bytes, 0) if sweep else 0
        wanted = max(least, delta_bytes)
        self._swept_bytes = 0 if sweep else self._swept_bytes + wanted
        return wanted

    def _part(self, entries: list[Entry], sweep: bool) -> int:
        assert self._id is not None
        packed = pack(entries)
        record = encode(Part(self._id, self.count, sweep, packed))
        self._spent.appended(len(record))
        self._appender.append(self._partition, record)
        self.count += 1
        return len(packed)
