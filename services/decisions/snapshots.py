"""Snapshots of a decided log: the times at which one is written, the start of a late reader, and the target of a trim.

Source: PROTOCOL 1: a snapshot `{upto, state}` states the state after all records below `upto`. It is a fact, so any
process may append it. A log is trimmed only to the `upto` of a snapshot that was read back and agreed with the log. One
rule for `assignments`, `jobs.plans` and `jobs.submit`; docs/decisions/0055-decided-logs-are-trimmed.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar
from zlib import crc32

from holdfast.schemas.topics import Partition

MAX_BYTES = 8 * 1024 * 1024
"""A larger snapshot is not written: Kafka takes records of 16 MiB."""
TRIM_EVERY_US = 60_000_000
"""Least time between two trims of one process."""


class Upto(Protocol):
    """A snapshot."""

    @property
    def upto(self) -> int: ...


S = TypeVar("S", bound=Upto)


def base_of(found: Sequence[tuple[int, S]], start: int, plausible: Callable[[S, int], bool]) -> S | None:
    """Returns the snapshot to begin with, of those found by offset if all records from `start` on are known.

    It is the last but one if there are two: the last one is compared with the records before it, so that a single
    forged or mistaken snapshot is detected.
    """
    usable = [snapshot for offset, snapshot in found if snapshot.upto >= start and plausible(snapshot, offset)]
    return usable[max(len(usable) - 2, 0)] if usable else None


def oldest_of(found: Sequence[tuple[int, S]], start: int, plausible: Callable[[S, int], bool]) -> S | None:
    """Returns the snapshot that the log was trimmed to, with which reading begins if a later one is not trusted."""
    usable = [snapshot for offset, snapshot in found if snapshot.upto >= start and plausible(snapshot, offset)]
    return min(usable, key=lambda one: one.upto, default=None)


class Pace:
    """Times at which one of several processes writes a snapshot.

    Each waits for a few records more or less than the others, so one of them is usually first. A second snapshot is
    harmless.

    Args:
        name: of the process.
        every: least number of records between two snapshots.
        many: size of the state above which more records are waited for, so that snapshots stay a small part of the log.
    """

    def __init__(self, name: str, every: int, many: int) -> None:
        self._every = every
        self._many = many
        self._later = crc32(name.encode()) % (every // 4 + 1)
        self._asked = -1

    def due(self, read: int, snapshotted: int, size: int) -> bool:
        """True if a snapshot is to be written now; it counts as written until `withdraw`.

        Args:
            read: number of records of the log so far.
            snapshotted: that number at the last snapshot that agrees.
            size: of the state.
        """
        grown = read - max(snapshotted, self._asked)
        if grown < self._every * max(1.0, size / self._many) + self._later:
            return False
        self._asked = read
        return True

    def withdraw(self) -> None:
        """Makes a snapshot due again, as the last one was, as far as is known, not appended."""
        self._asked = -1


class Trims:
    """Offsets to which one process trims a log. Times are microseconds, monotonic: setting the clock trims nothing.

    Args:
        safe_us: time from reading a snapshot back to the trim to it; None: the log is never trimmed.
    """

    def __init__(self, safe_us: int | None) -> None:
        self._safe_us = safe_us
        self._agreed: deque[tuple[int, Mapping[Partition, int]]] = deque()
        self._trimmed: Mapping[Partition, int] = {}
        self._due_us = 0

    def agreed(self, upto: Mapping[Partition, int], now_us: int) -> None:
        """Takes a snapshot that was read back and agrees with the log.

        upto: by partition, the offset below which all records are in the snapshot.
        """
        newest = self._agreed[-1][1] if self._agreed else {}
        if all(upto[partition] >= newest.get(partition, 0) for partition in upto) and upto != newest:
            self._agreed.append((now_us, upto))

    def due(self, now_us: int) -> Mapping[Partition, int] | None:
        """Returns the offsets to trim to now, of the second newest snapshot that is old enough; None: no trim is due.

        Two snapshots remain for late readers, which compare the last with the one before.
        """
        if self._safe_us is None or now_us < self._due_us:
            return None
        old = [upto for read_us, upto in self._agreed if now_us - read_us >= self._safe_us]
        if len(old) < 2 or old[-2] == self._trimmed:
            return None
        for _ in range(len(old) - 2):
            self._agreed.popleft()
        self._trimmed = old[-2]
        self._due_us = now_us + TRIM_EVERY_US
        return old[-2]

    def withdraw(self) -> None:
        """Makes the trim due again later, as it was, as far as is known, not carried out."""
        self._trimmed = {}
