"""Readiness: a supervisor is ready once its controller answers and each of its workers has given a sign of life.

The probe is a command for a job whose name is impossible; the controller's refusal is the answer. The same reader may
hear that a worker elsewhere has a name of ours.
"""

from __future__ import annotations

import msgspec

from holdfast.schemas import commands, events, heartbeats
from holdfast.schemas.commands import Command
from holdfast.schemas.heartbeats import Heartbeat
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.log.protocol import Log
from holdfast.services.node.members.clashes import Neighbours

CONTROLLER = "controller"
NO_JOB = "?"
"""Prefix of the job names that probes ask for; no job can have it."""
ANSWER_S = 5.0


class Readiness:
    """Listens from now on, and asks the controller.

    Args:
        probe: unique, for the name in question; empty: there is no controller here, so none is asked.
        neighbours: given all heartbeats.
    """

    def __init__(self, log: Log, topics: ClusterTopics, probe: str, neighbours: Neighbours) -> None:
        self._neighbours = neighbours
        self.stranger: Heartbeat | None = None
        self._events = Partition(topics.events, 0)
        self._name = NO_JOB + probe
        self._reader = log.reader("readiness")
        self._reader.assign(log.offsets([Partition(topics.heartbeats, 0), self._events], "end"))
        self._heard: set[str] = set()
        self._expected = {CONTROLLER} if probe else set[str]()
        if probe:
            self._ask(log, topics)

    def _ask(self, log: Log, topics: ClusterTopics) -> None:
        appender = log.appender("readiness")
        appender.append(Partition(topics.submit, 0), commands.encode(Command("resume", self._name)))
        appender.flush(ANSWER_S)
        appender.close()

    def poll(self, timeout_s: float) -> None:
        for chunk in self._reader.poll(timeout_s):
            for message in chunk.messages:
                self._hear(chunk.partition, message.value() or b"")

    def missing(self, workers: set[str]) -> list[str]:
        return sorted((self._expected | workers) - self._heard)

    def reached(self, workers: set[str]) -> bool:
        return not self.missing(workers)

    def close(self) -> None:
        self._reader.close()

    def _hear(self, partition: Partition, value: bytes) -> None:
        try:
            if partition == self._events:
                self._heard |= {CONTROLLER} if events.decode(value).job == self._name else set()
            elif isinstance(beat := heartbeats.decode(value), Heartbeat):
                self.stranger = self._neighbours.read(value) or self.stranger
                self._heard.add(beat.worker)
        except msgspec.DecodeError:
            pass  # a record that this process cannot decode
