"""Drives a replica by polling a Log's reader: for `holdfast try` and tests, where one thread does everything.

Source: PROTOCOL 1: a replica reads assignments, plans and commands from a snapshot on.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.decisions.standings import EVERY
from holdfast.services.log.late.aged import poll_aged
from holdfast.services.log.late.assignments import read_standings
from holdfast.services.log.late.backlog import Backlog
from holdfast.services.log.late.jobs import feed_kept, positions, read_jobs
from holdfast.services.log.late.trims import trim_due
from holdfast.services.log.protocol import Log
from holdfast.services.recovery.replica import Replica


class PolledReplica:
    """A replica, and its readers.

    Args:
        name: never used twice.
        beat_ms: interval of the workers' heartbeats.
        now_us: monotonic clock; `turn` is to be called at least every 50 ms of it.
        calm_ms, snapshot_every, safe_s: as of the replica.
    """

    def __init__(
        self,
        name: str,
        log: Log,
        topics: ClusterTopics,
        beat_ms: int,
        now_us: Callable[[], int],
        *,
        calm_ms: float | None = None,
        snapshot_every: int = EVERY,
        safe_s: float | None = None,
    ) -> None:
        self._log = log
        self._now_us = now_us
        self._beats = Partition(topics.heartbeats, 0)
        assigned, happened = Partition(topics.assignments, 0), Partition(topics.events, 0)
        standings = read_standings(log, assigned)
        jobs = read_jobs(log, topics)
        begins = log.offsets([self._beats], "start") | positions(log, topics, jobs)
        begins |= {assigned: standings.next} | log.offsets([happened], "end")
        self._reader = log.reader(name)
        self._reader.assign(begins)
        self.replica = Replica(
            name,
            topics,
            log.appender(name),
            Backlog.of(log, begins),
            beat_ms=beat_ms,
            now_us=now_us,
            calm_ms=calm_ms,
            begun=standings,
            snapshot_every=snapshot_every,
            safe_s=safe_s,
        )
        feed_kept(topics, jobs, self.replica.feed)
        self.replica.trimmed({})

    def turn(self) -> bool:
        """Reads the records that are there and acts on them; True if any record was read."""
        self.replica.echo()
        came = False
        for chunk in poll_aged(self._reader, self._log, [self._beats], 0):
            came |= bool(chunk.messages)
            for message in chunk.messages:
                self.replica.read(chunk.partition, message.offset(), message.timestamp()[1], message.value())
        self.replica.turn()
        trim_due(self._log, self.replica.trims, self._now_us())
        return came

    def close(self) -> None:
        self._reader.close()
