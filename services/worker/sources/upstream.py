"""Detects rows from a later run of a job whose results a unit reads, and reports them once.

Source: JOBS "queries" (the header `job`). A job that was updated continues behind its former run. A job that was
submitted again may have begun earlier, so its rows may come twice; the reading job cannot distinguish these cases.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.schemas.events import Event
from holdfast.services.log.protocol import Chunk, Message
from holdfast.services.worker.host.surroundings import HostServices

KIND = "upstream-changed"
_MOST = 100
"""Most jobs that are remembered; jobs beyond that are ignored."""


class Upstream:
    """Runs of jobs by topic, from the newest records that were read.

    Args:
        job, unit: the reader.
        leads: returns True if the copy leads; standbys also read runs, but report nothing.
    """

    def __init__(self, job: str, unit: str, around: HostServices, leads: Callable[[], bool]) -> None:
        self._job = job
        self._unit = unit
        self._around = around
        self._leads = leads
        self._runs: dict[tuple[str, str], str] = {}

    def look(self, chunk: Chunk) -> None:
        """Reads the run in the last record of a chunk. Reading the headers of every record would cost more than it is
        worth."""
        partition = chunk.partition
        name, _, run = _writer(chunk.messages[-1]).partition("@") if chunk.messages else ("", "", "")
        if not _submitted(run):
            return
        known = (partition.topic, name)
        before = self._runs.get(known, "")
        if before and _submitted(run) <= _submitted(before):
            return  # another partition holds rows of the former run still
        if before or len(self._runs) < _MOST:
            self._runs[known] = run
        if before and self._leads():
            detail = (
                f"{partition.topic} has rows of {name}@{run} behind those of {name}@{before}. After an update they "
                "continue; if the job was submitted again and began earlier, rows come once more: `holdfast list --all`"
            )
            event = Event(
                self._around.time_ms(), KIND, self._job, self._unit, detail=detail, topic=partition.topic,
                partition=partition.index, offset=chunk.messages[-1].offset(),
            )  # fmt: skip
            self._around.happened(event)


def _writer(message: Message) -> str:
    """The header `job`, `<name>@<generation>`; empty if no job of holdfast wrote the record."""
    for name, value in message.headers() or ():
        if name == "job":
            return value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")
    return ""


def _submitted(generation: str) -> int:
    """The order of a run among those of its name; 0 if this is not a generation."""
    number = generation.partition("-")[0]
    return int(number) + 1 if number.isascii() and number.isdigit() else 0
