"""Snapshots of a decided log: when one is written, where a late reader begins, and up to where the log is trimmed.

Source: PROTOCOL 1: a snapshot `{upto, state}` states the state after all records below `upto`: a fact, so anybody may
append it. A log is trimmed only to the `upto` of a snapshot that was read back and agreed with the log. One rule for
`assignments`, `jobs.plans` and `jobs.submit`; docs/decisions/0055-decided-logs-are-trimmed.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar
from zlib import crc32

from holdfast.schemas.topics import Partition

MAX_BYTES = 8 * 1024 * 1024
"""A larger snapshot is not written: Kafka takes records of 16 MiB."""
SAFE_S = 600.0
"""A snapshot is trimmed to when it was read back so long ago: readers that began below it are done by then."""
TRIM_EVERY_US = 60_000_000
"""Between two trims of one process."""


class Upto(Protocol):
    """A snapshot."""

    @property
    def upto(self) -> int: ...


S = TypeVar("S", bound=Upto)


def base_of(found: Sequence[tuple[int, S]], start: int, plausible: Callable[[S, int], bool]) -> S | None:
    """The snapshot to begin with, of those found by offset where all records from `start` on are known.

    The last but one, where there are two: the last is compared with what the records behind it give, so that a single
    one that is forged or mistaken is found out.
    """
    usable = [snapshot for offset, snapshot in found if snapshot.upto >= start and plausible(snapshot, offset)]
    return usable[max(len(usable) - 2, 0)] if usable else None


def oldest_of(found: Sequence[tuple[int, S]], start: int, plausible: Callable[[S, int], bool]) -> S | None:
    """The one that the log was trimmed to: where a later one is not to be believed, reading begins with it."""
    usable = [snapshot for offset, snapshot in found if snapshot.upto >= start and plausible(snapshot, offset)]
    return min(usable, key=lambda one: one.upto, default=None)


class Pace:
    """Times at which one of several processes writes a snapshot.

    Each waits for a few records more or less than the others, so one of them is usually first. A second one is
    harmless.

    Args:
        name: of the process.
        every: records between two snapshots, at least.
        many: with a larger state the more records, so that snapshots stay a small part of the log.
    """

    def __init__(self, name: str, every: int, many: int) -> None:
        self._every, self._many = every, many
        self._later = crc32(name.encode()) % (every // 4 + 1)
        self._asked = -1

    def due(self, read: int, snapshotted: int, size: int) -> bool:
        """True if a snapshot is to be written now; it counts as written until `withdraw`.

        Args:
            read: records of the log so far.
            snapshotted: as of the last snapshot that agrees.
            size: of the state.
        """
        grown = read - max(snapshotted, self._asked)
        if grown < self._every * max(1.0, size / self._many) + self._later:
            return False
        self._asked = read
        return True

    def withdraw(self) -> None:
        """Makes it due again: it was not appended, as far as anybody knows."""
        self._asked = -1


class Trims:
    """Up to where one process trims a log. Times are microseconds, monotonic: no clock that is set trims anything.

    Args:
        safe_us: age of a snapshot, since it was read back, at which it is trimmed to; None: nothing is ever trimmed.
    """

    def __init__(self, safe_us: int | None) -> None:
        self._safe_us = safe_us
        self._agreed: deque[tuple[int, Mapping[Partition, int]]] = deque()
        self._trimmed: Mapping[Partition, int] = {}
        self._due_us = 0

    def agreed(self, upto: Mapping[Partition, int], now_us: int) -> None:
        """A snapshot was read back that says what the log gives. upto: by partition, all below is in it."""
        newest = self._agreed[-1][1] if self._agreed else {}
        if all(upto[partition] >= newest.get(partition, 0) for partition in upto) and upto != newest:
            self._agreed.append((now_us, upto))

    def due(self, now_us: int) -> Mapping[Partition, int] | None:
        """Up to where to trim now, the second newest snapshot that is old enough; None: nowhere.

        Two remain for late readers, who compare the last with the one before.
        """
        if self._safe_us is None or now_us < self._due_us:
            return None
        old = [upto for read_us, upto in self._agreed if now_us - read_us >= self._safe_us]
        if len(old) < 2 or old[-2] == self._trimmed:
            return None
        for _ in range(len(old) - 2):
            self._agreed.popleft()
        self._trimmed, self._due_us = old[-2], now_us + TRIM_EVERY_US
        return old[-2]

    def withdraw(self) -> None:
        """The trim was not carried out, as far as anybody knows: it is due again, later."""
        self._trimmed = {}
