"""Checks of a Kafka client's answers: an answer that cannot be true does not count.

A client without an answer may return an impossible offset: librdkafka 2.16 lists -1001 without an error for a partition
whose leader has just died, for up to 20 s. Counted as a value, that offset made a position read as "nothing was
delivered" and ended a drain before its source. A broker that has fallen behind answers with an old state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

from holdfast.schemas.topics import Partition
from holdfast.services.kernel.errors import Retriable

MAX_KNOWN = 20_000
"""The largest number of partitions whose end a process remembers; beyond it the oldest entry is dropped."""

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Moved(Retriable):
    """Kafka gave no answer or an impossible one, because leadership moves or the leader has restarted: ask again."""


class WentBack(Moved):
    """The answered end is below a known end: the broker no longer leads, or the log has lost its tail."""

    def __init__(self, partition: Partition, end: int, known: int) -> None:
        self.partition = partition
        self.end = end
        self.known = known
        super().__init__(f"{partition}: its end is said to be {end}, but {known} was seen")


class Unacknowledged(Retriable):
    """Records are not acknowledged yet and stay on their way to Kafka: ask again for their acknowledgement."""


class EndsSeen:
    """The ends of partitions that this process has seen: a lower answer later is old, or the log has lost its tail.

    Any thread may read or write. Of two writes at the same time the lower end may stay, which is also true.
    """

    def __init__(self) -> None:
        self._stable: dict[Partition, int] = {}
        self._appenders: list[dict[Partition, int]] = []
        self._void: dict[Partition, int] = {}

    def stable(self, partition: Partition) -> int:
        """The offset below which every record is known to be stable, from reads and answers; 0 if none is known."""
        return self._stable.get(partition, 0)

    def appended(self, partition: Partition) -> int:
        """The offset behind the last record acknowledged to an appender of this process, stable or not."""
        end = max((offsets.get(partition, -1) for offsets in self._appenders), default=-1) + 1
        return end if end > self._void.get(partition, 0) else 0

    def read(self, partition: Partition, end: int) -> None:
        """Records that every offset of the partition below `end` is stable."""
        if end > self._stable.get(partition, 0):
            if len(self._stable) >= MAX_KNOWN and partition not in self._stable:
                self._stable.pop(next(iter(self._stable)), None)
            self._stable[partition] = end

    def opened(self, acknowledged: dict[Partition, int]) -> None:
        """Adds the record of an appender: the offset last acknowledged, by partition; the appender updates it."""
        self._appenders = [*self._appenders, acknowledged]

    def closed(self, acknowledged: dict[Partition, int]) -> None:
        self._appenders = [one for one in self._appenders if one is not acknowledged]

    def forget(self, topics: Collection[str]) -> None:
        """Drops the known ends of the topics, because they were deleted or have lost their tail."""
        for partition in [p for p in self._stable.copy() if p.topic in topics]:
            self._stable.pop(partition, None)
        for appender in self._appenders:
            for topic, index in appender.copy():
                if topic in topics:
                    where = Partition(topic, index)
                    self._void[where] = max(self.appended(where), self._void.get(where, 0))


def all_of(what: str, asked: Iterable[_Key], answers: Mapping[_Key, _Value]) -> Mapping[_Key, _Value]:
    """Returns the answers if each asked key has one. Raises Moved otherwise."""
    missing = [str(one) for one in asked if one not in answers]
    if missing:
        raise Moved(f"{what}: no answer for {', '.join(missing[:3])} ({len(missing)} missing)")
    return answers


def offset(partition: Partition, answered: object, least: int = 0) -> int:
    """Returns an answered offset that the partition can have. Raises Moved for any other.

    least: the lowest offset that counts; -1 where "none" is an answer.
    """
    if not isinstance(answered, int) or answered < least:
        raise Moved(f"{partition}: its leader is away, or has just changed (its offset is said to be {answered})")
    return answered


def bounds(partition: Partition, *ends: int) -> None:
    """Raises Moved unless start, last stable offset and end are in ascending order."""
    if sorted(ends) != list(ends):
        raise Moved(f"{partition}: start and end are said to be {', '.join(map(str, ends))}")


def partitions(topic: str, indices: Collection[int]) -> int:
    """Returns the number of partitions of a topic whose metadata list these indices. Raises Moved for a gap."""
    if not indices or set(indices) != set(range(len(indices))):
        raise Moved(f"{topic}: only partitions {sorted(indices)} are listed")
    return len(indices)
