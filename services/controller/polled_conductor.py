"""Drives a conductor by polling a Log's reader: for `holdfast try` and tests, where one thread does everything.

Source: PROTOCOL 1: a controller reads assignments, plans and commands from a snapshot on.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.schemas.topics import Partition
from holdfast.services.controller.conductor import Conductor, Kind
from holdfast.services.controller.drain_progress import DrainProgress
from holdfast.services.log.late.aged import poll_aged
from holdfast.services.log.late.assignments import read_standings
from holdfast.services.log.late.jobs import positions, read_jobs
from holdfast.services.log.protocol import Chunk, Log

TICK_MS = 100
"""Time between two ticks, as in the service (app.py)."""


class PolledConductor:
    """Reads the cluster's topics, and the progress of jobs that drain.

    decided: the offset at which it began to read `assignments`.
    """

    def __init__(self, conductor: Conductor, log: Log, time_ms: Callable[[], int]) -> None:
        self._conductor = conductor
        self._log = log
        self._time_ms = time_ms
        self._kinds = conductor.topics()
        self._beats = [partition for partition, kind in self._kinds.items() if kind is Kind.HEARTBEATS]
        self._watching = DrainProgress(log)
        self._ticked_ms = 0
        self._behind: set[Partition] = set(self._kinds)
        self._reader = log.reader("controller")
        assigned = Partition(conductor.cluster.assignments, 0)
        standings = read_standings(log, assigned)
        jobs = read_jobs(log, conductor.cluster)
        conductor.begin(standings, jobs)
        self.decided = standings.next
        begins = positions(log, conductor.cluster, jobs) | {assigned: standings.next}
        self._reader.assign(log.offsets(self._beats, "start") | begins)

    def turn(self, timeout_s: float = 0.0) -> bool:
        """Reads the records that are there and carries out the actions that follow; True if any record was read."""
        came = False
        for chunk in poll_aged(self._reader, self._log, self._beats, timeout_s):
            came |= bool(chunk.messages)
            self._feed(chunk)
        for record in self._watching.poll(self._conductor.progress_topics()):
            came = True
            self._conductor.feed_progress(record.generation, record.offset, record.value)
        self._tick()
        self._conductor.run()
        return came

    @property
    def next_deadline_ms(self) -> int:
        """Time of day at which the next turn is due by time alone."""
        return self._ticked_ms + TICK_MS

    def close(self) -> None:
        self._reader.close()
        self._watching.close()
        self._conductor.effects.close()

    def _tick(self) -> None:
        now_ms = self._time_ms()
        if now_ms - self._ticked_ms >= TICK_MS:
            self._ticked_ms = now_ms
            self._conductor.tick(now_ms)

    def _feed(self, chunk: Chunk) -> None:
        kind = self._kinds[chunk.partition]
        for message in chunk.messages:
            self._conductor.feed(kind, message.offset(), message.timestamp()[1], message.value())
        if chunk.end is not None and chunk.partition in self._behind:
            self._behind.discard(chunk.partition)
            if not self._behind:
                self._conductor.caught_up()
