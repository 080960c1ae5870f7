"""Records of one partition of a user's topic, from their fetch until they are processed.

Source: PROTOCOL 3.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field

from holdfast.services.kernel.codecs.metadata import NOTHING_WANTED, Headers, Wanted
from holdfast.services.kernel.dataflow.cut_records import Records
from holdfast.services.kernel.dataflow.source_records import Key
from holdfast.services.log.protocol import Chunk


@dataclass(slots=True)
class Waiting:
    """Fetched records of one partition that are not processed yet.

    Attributes:
        position: first offset that is not processed.
        cut: first offset without a cut.
        fetched: first offset that is not fetched.
        end, met: last and first end of the partition that the reader has met.
        offsets, values, stamps: columns of the records; metadata_keys and headers as far as needed.
        keys: keys of deletions in a table, by offset.
        bytes: approximate size, cheap to keep.
        gone: ranges that the log had lost before they were fetched and that no cut names as lost yet.
        jumped: True if a range that a cut names as lost was passed without being read.
    """

    position: int
    cut: int
    fetched: int
    table: bool = False
    wanted: Wanted = NOTHING_WANTED
    end: int = -1
    met: int = -1
    offsets: list[int] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    stamps: list[int] = field(default_factory=list)
    keys: dict[int, Key] = field(default_factory=dict)
    metadata_keys: list[bytes | None] = field(default_factory=list)
    headers: list[Headers] = field(default_factory=list)
    bytes: int = 0
    gone: list[tuple[int, int]] = field(default_factory=list)
    jumped: bool = False

    def offer(self, chunk: Chunk) -> None:
        offsets = [message.offset() for message in chunk.messages]
        new = bisect_left(offsets, self.fetched)
        if new < len(offsets):
            messages = chunk.messages[new:] if new else chunk.messages
            values = [message.value() for message in messages]
            self.offsets += offsets[new:]
            self.values += values
            self.stamps += [message.timestamp()[1] for message in messages]
            if self.table and None in values:
                self.keys |= {message.offset(): message.key() for message in messages if message.value() is None}
            if self.wanted.keys:
                self.metadata_keys += [message.key() for message in messages]
            if self.wanted.headers:
                self.headers += [message.headers() for message in messages]
            self.bytes += size(values)
            self.fetched = offsets[-1] + 1
        if chunk.end is not None:
            self.end = max(self.end, chunk.end)
            self.met = chunk.end if self.met < 0 else self.met

    @property
    def at_end(self) -> bool:
        """True if the reader has met the end of the partition behind its records."""
        return self.end >= self.fetched

    @property
    def rests(self) -> bool:
        """True if everything up to the end is cut."""
        return self.at_end and not self.uncut and not self.gone

    @property
    def uncut(self) -> int:
        """The number of records without a cut."""
        return len(self.offsets) - bisect_left(self.offsets, self.cut)

    @property
    def oldest_ms(self) -> int | None:
        """The stamp of the first record without a cut; None if there is none."""
        first = bisect_left(self.offsets, self.cut)
        return self.stamps[first] if first < len(self.stamps) else None

    def holds(self, stop: int) -> bool:
        """True if every record below `stop` is here."""
        return (self.fetched >= stop or self.end >= stop) and not any(start < stop for start, _ in self.gone)

    def lose(self, start: int) -> None:
        """Notes that the log now begins at `start`, so that records before it that are not here are gone."""
        if start > self.fetched:
            self.gone.append((self.fetched, start))
            self.fetched = start

    @property
    def lost(self) -> int:
        """The offset up to which all records without a cut are gone; `cut` if the next one is here."""
        if not self.gone:
            return self.cut
        start, stop = self.gone[0]
        here = bisect_left(self.offsets, start) - bisect_left(self.offsets, self.cut)
        return self.cut if here > 0 else stop

    def found_lost(self, start: int, stop: int) -> None:
        """Drops a range that a cut names as lost from the ranges to report."""
        pieces = ((first, min(last, start), max(first, stop), last) for first, last in self.gone)
        both = (piece for first, until, since, last in pieces for piece in ((first, until), (since, last)))
        self.gone = [(first, last) for first, last in both if first < last]

    def loaded(self, stop: int) -> bool:
        """True if the records below `stop` include all that existed when the reader first met an end.

        The newest end does not count, because a partition with constant writes may never reach it.
        """
        return self.met >= 0 and bisect_left(self.offsets, self.met) <= bisect_left(self.offsets, stop)

    def records(self, start: int, stop: int) -> Records:
        """Records between two offsets."""
        some = slice(bisect_left(self.offsets, start), bisect_left(self.offsets, stop))
        keys = self._keys_of(some) if self.keys else self.keys
        about = self.metadata_keys[some], self.headers[some]
        return Records(self.offsets[some], self.values[some], self.stamps[some], keys, *about)

    def weight(self, start: int, stop: int) -> int:
        """The approximate bytes of the records here between two offsets."""
        count = bisect_left(self.offsets, stop) - bisect_left(self.offsets, start)
        return self.bytes * count // max(1, len(self.offsets))

    def _keys_of(self, some: slice) -> dict[int, Key]:
        """Keys of the deletions in a slice of the records, by position in the slice."""
        places = {offset: bisect_left(self.offsets, offset) for offset in self.keys}
        return {at - some.start: self.keys[offset] for offset, at in places.items() if some.start <= at < some.stop}

    def drop(self, stop: int) -> None:
        gone = bisect_left(self.offsets, stop)
        self.bytes -= self.bytes * gone // max(1, len(self.offsets))
        del self.offsets[:gone], self.values[:gone], self.stamps[:gone], self.metadata_keys[:gone], self.headers[:gone]
        if self.keys:
            self.keys = {offset: key for offset, key in self.keys.items() if offset >= stop}
        self.position = stop
        self.gone = [(max(start, stop), last) for start, last in self.gone if last > stop]
        self.jumped |= self.fetched < stop
        self.fetched = max(self.fetched, stop)


def size(values: Iterable[bytes | None]) -> int:
    """The total bytes of these values."""
    return sum(map(len, filter(None, values)))
