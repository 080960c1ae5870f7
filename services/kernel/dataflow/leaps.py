"""Leaps: the record that moved a source's watermark furthest, and so made later records late.

A pause in a stream is a wide leap, too. So a leap counts only once a later record is older by more than half of the
leap. Source: PROTOCOL 3.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from holdfast.schemas.leaps import Leap, widest

_PENDING = 4
"""The number of the widest leaps of each partition that wait for a later record."""


class Leaps:
    """The leaps of one source task, batch by batch.

    A batch costs one pass for its oldest and its newest time. Only if the newest is ahead by more than `least_us`, a
    second pass computes how far each record is ahead.

    Args:
        topic: the topic of the records.
        least_us: the allowed lateness: a narrower leap makes no record late.

    leap: the widest leap so far that counts.
    """

    def __init__(self, topic: str, least_us: int = 0) -> None:
        self._topic = topic
        self._least_us = least_us
        self._newest: dict[int, int] = {}
        self._pending: dict[int, list[Leap]] = {}
        self.leap: Leap | None = None

    def take(self, partition: int, times_us: np.ndarray, offset: Callable[[int], int]) -> None:
        """Takes the event times of rows of a partition, in the order of their records.

        offset: returns the offset of the record of a row.
        """
        if not len(times_us):
            return
        before, newest = self._newest.get(partition), int(times_us.max())
        self._newest[partition] = newest if before is None else max(before, newest)
        oldest = int(times_us.min())
        for one in self._pending.get(partition, ()):
            self._count(one, oldest)
        first = int(times_us[0]) if before is None else before
        if newest - first > max(self._least_us, self.leap.by_us if self.leap else 0):
            self._look(partition, times_us, offset, first)

    def forget(self) -> None:
        """Forgets the times so far, because the next batches do not follow the last one."""
        self._newest.clear()
        self._pending.clear()

    def _look(self, partition: int, times_us: np.ndarray, offset: Callable[[int], int], before: int) -> None:
        """Finds the widest leaps of a batch, and those that already count."""
        reached = np.maximum.accumulate(np.concatenate([[before], times_us]))
        by_us = reached[1:] - reached[:-1]
        least = int(np.partition(by_us, -_PENDING)[-_PENDING]) if len(by_us) > _PENDING else 0
        wide = np.flatnonzero(by_us >= max(least, self._least_us + 1))
        for at in wide[np.argsort(-by_us[wide], kind="stable")][:_PENDING].tolist():
            one = Leap(self._topic, partition, offset(at), int(times_us[at]), by_us=int(by_us[at]))
            pending = self._pending.setdefault(partition, [])
            self._pending[partition] = sorted([*pending, one], key=lambda leap: -leap.by_us)[:_PENDING]
            if at + 1 < len(times_us):
                self._count(one, int(times_us[at + 1 :].min()))

    def _count(self, one: Leap, oldest: int) -> None:
        """Counts a leap if it is wide enough.

        oldest: an event time that came after the leap.
        """
        if oldest < one.time_us - one.by_us // 2:
            self.leap = widest([self.leap, one])
