"""Reads the progress of jobs that drain: their topics come and go while the controller runs.

Source: PROTOCOL 1, `<job>.<g>.progress`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.schemas.topics import Partition
from holdfast.services.log.protocol import Log

POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class ProgressRecord:
    """A record as it was read, and the generation of its topic."""

    generation: str
    offset: int
    value: bytes | None


class DrainProgress:
    """A reader of progress topics, used by one thread at a time."""

    def __init__(self, log: Log) -> None:
        self._reader = log.reader("controller-progress")
        self._watched: Mapping[Partition, str] = {}

    def poll(self, wanted: Mapping[Partition, str]) -> list[ProgressRecord]:
        """New records in the wanted topics, each read from its start; blocks for a moment if there are any."""
        if gone := [partition for partition in self._watched if partition not in wanted]:
            self._reader.unassign(gone)
        if new := [partition for partition in wanted if partition not in self._watched]:
            self._reader.assign(dict.fromkeys(new, 0))
        self._watched = wanted
        if not wanted:
            return []
        return [
            ProgressRecord(wanted[chunk.partition], message.offset(), message.value())
            for chunk in self._reader.poll(POLL_S)
            if chunk.partition in wanted
            for message in chunk.messages
        ]

    def close(self) -> None:
        self._reader.close()
