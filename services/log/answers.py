"""Checks of a Kafka client's answers: an answer that cannot be true does not count.

A client that has no answer may say so by an offset that is none: librdkafka 2.16 lists -1001 without an error for a
partition whose leader has just died, for up to 20 s. Where that counted as a value, a position was read as "nothing was
delivered" and a drain ended before its source. And a broker that has fallen behind answers with an old state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

from holdfast.schemas.topics import Partition
from holdfast.services.kernel.errors import Retriable

MAX_KNOWN = 20_000
"""Partitions of which a process remembers the end; beyond that it forgets those that it has known longest."""

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Moved(Retriable):
    """No answer, or an impossible one: another broker leads, or the same in another life, or none: ask again."""


class WentBack(Moved):
    """An end below one that is known: a leader that is no longer one, or a log that has lost its tail."""

    def __init__(self, partition: Partition, end: int, known: int) -> None:
        self.partition, self.end, self.known = partition, end, known
        super().__init__(f"{partition}: its end is said to be {end}, but {known} was seen")


class Unacknowledged(Retriable):
    """Records are on their way, and stay so: ask again whether they were acknowledged."""


class EndsSeen:
    """The ends that this process has seen partitions to have: a later answer below one of them is old, or bad news.

    Any thread may read or write; of two writes at once the lower end may stay, which is also true.
    """

    def __init__(self) -> None:
        self._stable: dict[Partition, int] = {}
        self._appenders: list[dict[Partition, int]] = []
        self._void: dict[Partition, int] = {}

    def stable(self, partition: Partition) -> int:
        """Below it everything was stable: read, or below an end that was answered. 0: nothing is known."""
        return self._stable.get(partition, 0)

    def appended(self, partition: Partition) -> int:
        """Behind the last record that was acknowledged to an appender of this process, stable or not."""
        end = max((offsets.get(partition, -1) for offsets in self._appenders), default=-1) + 1
        return end if end > self._void.get(partition, 0) else 0

    def read(self, partition: Partition, end: int) -> None:
        """Everything below `end` is there and stable."""
        if end > self._stable.get(partition, 0):
            if len(self._stable) >= MAX_KNOWN and partition not in self._stable:
                self._stable.pop(next(iter(self._stable)), None)
            self._stable[partition] = end

    def opened(self, acknowledged: dict[Partition, int]) -> None:
        """An appender's own record, which it keeps up to date: the offset last acknowledged, by partition."""
        self._appenders = [*self._appenders, acknowledged]

    def closed(self, acknowledged: dict[Partition, int]) -> None:
        self._appenders = [one for one in self._appenders if one is not acknowledged]

    def forget(self, topics: Collection[str]) -> None:
        """Forgets what is known of the topics: they were deleted, or have lost their tail."""
        for partition in [p for p in self._stable.copy() if p.topic in topics]:
            self._stable.pop(partition, None)
        for appender in self._appenders:
            for topic, index in appender.copy():
                if topic in topics:
                    where = Partition(topic, index)
                    self._void[where] = max(self.appended(where), self._void.get(where, 0))


def all_of(what: str, asked: Iterable[_Key], answers: Mapping[_Key, _Value]) -> Mapping[_Key, _Value]:
    """The answers, one for each that was asked."""
    missing = [str(one) for one in asked if one not in answers]
    if missing:
        raise Moved(f"{what}: no answer for {', '.join(missing[:3])} ({len(missing)} missing)")
    return answers


def offset(partition: Partition, answered: object, least: int = 0) -> int:
    """An offset that a partition can have. least: -1 where "none" is an answer."""
    if not isinstance(answered, int) or answered < least:
        raise Moved(f"{partition}: its leader is away, or has just changed (its offset is said to be {answered})")
    return answered


def bounds(partition: Partition, *ends: int) -> None:
    """Start, last stable offset, end: each at or behind the one before."""
    if sorted(ends) != list(ends):
        raise Moved(f"{partition}: start and end are said to be {', '.join(map(str, ends))}")


def partitions(topic: str, indices: Collection[int]) -> int:
    """The number of partitions of a topic whose metadata list these."""
    if not indices or set(indices) != set(range(len(indices))):
        raise Moved(f"{topic}: only partitions {sorted(indices)} are listed")
    return len(indices)
