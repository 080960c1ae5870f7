"""Encodes the parts of a run, a piece at a time: the captured delta, then the next sweep slice of the image.

Source: PROTOCOL 6. The sweep rewrites a slice with every run, so the log never needs records from before the last
complete cycle of slices.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from holdfast.schemas.checkpoints import Entry, Part, encode, pack
from holdfast.schemas.decided import Id
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.state.store import Capture, StateStore
from holdfast.services.kernel.state.values import bytes_of
from holdfast.services.log.protocol import Appender
from holdfast.services.worker.core.spent import Spent

PIECE_ENTRIES, PIECE_BYTES = 250, 16 * 1024
"""Most entries and bytes of a piece. Measured: the image takes up to 4 us to write an entry, and 1.5 us to read one."""
PART_ENTRIES, PART_BYTES = 2_000, 512 * 1024
SWEEP_BYTES = 64 * 1024


@dataclass(slots=True)
class _Gathered:
    """Entries that wait for their part.

    Attributes:
        entries: keys and values.
        bytes: size of keys and values.
    """

    entries: list[Entry] = field(default_factory=list)
    bytes: int = 0

    def add(self, piece: Sequence[Entry], size: int) -> None:
        self.entries += piece
        self.bytes += size

    @property
    def full(self) -> bool:
        return len(self.entries) >= PART_ENTRIES or self.bytes >= PART_BYTES

    def take(self) -> list[Entry]:
        entries, self.entries, self.bytes = self.entries, [], 0
        return entries


class Parts:
    """Writes the parts of one unit's runs, one run after the other.

    Attributes:
        count: number of parts of this run so far.
        swept: first and last key of the run's slice.
        pieces: the delta, which is applied to the image when the run is valid.
    """

    def __init__(self, partition: Partition, store: StateStore, appender: Appender, spent: Spent) -> None:
        self._partition = partition
        self._store = store
        self._appender = appender
        self._spent = spent
        self._id: Id | None = None
        self.count = 0
        self.swept: tuple[bytes, bytes | None] = (b"", None)
        self.pieces: deque[list[Entry]] = deque()
        self._swept_bytes = 0

    def begin(self, id: Id) -> None:
        """Starts a run; the next parts belong to it."""
        self._id = id
        self.count = 0
        self.pieces = deque()

    def forget(self) -> None:
        """Drops the delta of a run that is not valid."""
        self.pieces = deque()

    def encode(self, capture: Capture, cursor: bytes, sweep: bool) -> Iterator[None]:
        """Writes the delta, then the slice of the image from the cursor on without the keys of the delta.

        Args:
            cursor: key at which the slice begins.
            sweep: True for a sweep, False for a refresh between two sweeps.
        """
        gathered = _Gathered()
        packed = 0
        while piece := capture.piece(PIECE_ENTRIES, PIECE_BYTES):
            self.pieces.append(piece)
            size = bytes_of(piece)
            self._spent.entry.add(piece, size)
            gathered.add(piece, size)
            if gathered.full:
                packed += self._part(gathered.take(), sweep=False)
            yield
        if gathered.entries:
            packed += self._part(gathered.take(), sweep=False)
            yield
        yield from self._encode_slice(capture, cursor, self._slice_bytes(packed, sweep))

    def _encode_slice(self, capture: Capture, start: bytes, size: int) -> Iterator[None]:
        """Writes about `size` bytes of the image. The image does not change before the marker is valid."""
        stop: bytes | None = start
        gathered = _Gathered()
        while stop is not None and size > 0:
            piece, stop = self._store.image.slice(stop, min(size, PIECE_BYTES))
            taken = bytes_of(piece)
            size -= taken
            self._spent.entry.add(piece, taken)
            others = capture.others(piece)
            gathered.add(others, taken if others is piece else bytes_of(others))
            if gathered.full:
                self._part(gathered.take(), sweep=True)
            yield
        if gathered.entries:
            self._part(gathered.take(), sweep=True)
        self.swept = (start, stop)

    def _slice_bytes(self, delta_bytes: int, sweep: bool) -> int:
        """The size of a slice in bytes: the size of the delta, so that the log stays in proportion; at least
        SWEEP_BYTES from one sweep to the next."""
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
