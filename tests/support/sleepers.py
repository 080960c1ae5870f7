"""Workers of a cluster in memory that have nothing to do take no turns.

A turn without news, before anything is due, changes nothing: `Worker.turn` says whether it did something and when time
alone makes the next one due, which is what the real loop waits by. Only the number of turns differs; the tests in
tests/scenario/test_sleepers.py compare whole histories with and without.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.log.memory import MemoryLog, MemoryTransactor
from holdfast.services.log.memory_records import Stored
from holdfast.services.worker.host.topic_watch import TopicWatch
from holdfast.services.worker.process.loop import Worker

LONGEST_MS = 50
"""A worker turns at least so often: as the real loop, which waits for 100 ms at most while there are data."""


class ChangingLog(MemoryLog):
    """changes: grows with whatever may concern a reader."""

    changes = 0

    def create(self, topics: Iterable[TopicSpec]) -> None:
        self.changes += 1
        super().create(topics)

    def grow(self, topic: str, partitions: int) -> None:
        self.changes += 1
        super().grow(topic, partitions)

    def delete(self, names: Iterable[str]) -> None:
        self.changes += 1
        super().delete(names)

    def configure(self, topics: Iterable[TopicSpec]) -> None:
        self.changes += 1
        super().configure(topics)

    def trim(self, upto: Mapping[Partition, int]) -> None:
        self.changes += 1
        super().trim(upto)

    def stored(self, partition: Partition) -> Stored:
        """Whoever asks for it may change it."""
        self.changes += 1
        return super().stored(partition)

    def led(self, partition: Partition) -> Stored:
        before = self.changes
        found = super().led(partition)
        self.changes = before  # to be read
        return found

    def take_over(self, transactional_id: str, holder: MemoryTransactor) -> None:
        self.changes += 1
        super().take_over(transactional_id, holder)


class Sleepers:
    """asleep: of each worker that has nothing to do, the log as it was then and when it turns again, in ms.

    taken: turns that were not left out.
    """

    def __init__(self, log: ChangingLog) -> None:
        self._log = log
        self._asleep: dict[int, tuple[Worker, tuple[int, int], float]] = {}
        self.taken = 0

    def turn(self, worker: Worker, now_ms: int) -> None:
        """Takes a turn if there may be something to do."""
        if now_ms < self._wakes_ms(worker):
            return
        self.taken += 1
        before = self._state()
        came = worker.turn()
        if came or before != self._state():
            self._asleep.pop(id(worker), None)
        else:
            due_ms = min(worker.next_deadline, watched_ms(worker._watch), now_ms + LONGEST_MS)
            self._asleep[id(worker)] = worker, before, due_ms

    def idle_until(self, workers: Iterable[Worker], now_ms: int) -> int:
        """The last millisecond from `now_ms` on in which none of the workers has anything to do."""
        wakes_ms = min(map(self._wakes_ms, workers), default=-math.inf)
        return now_ms if wakes_ms <= now_ms + 1 else math.ceil(wakes_ms) - 1

    def _wakes_ms(self, worker: Worker) -> float:
        asleep = self._asleep.get(id(worker))
        if asleep is None or asleep[1] != self._state() or not _rests(worker):
            return -math.inf
        return asleep[2]

    def _state(self) -> tuple[int, int]:
        return self._log.changes, len(self._log.away)


def _rests(worker: Worker) -> bool:
    """Nothing is under way beside its loop: a call may take a number of turns."""
    return all(blocking.look_ms() == math.inf for blocking in (*worker._blocking, worker._watch._blocking))


def watched_ms(watch: TopicWatch) -> float:
    """Time at which it asks again for the topics that copies look at."""
    return watch._due_ms if watch._looked_ms else math.inf
