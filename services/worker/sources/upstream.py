"""Jobs whose results a unit reads: a record of a later run of one is noticed, and said once.

Source: JOBS "queries" (the header `job`). A job that was updated continues behind its former run. One that was
submitted again may have begun from earlier, and then its rows come once more: the job that reads them cannot know it.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.schemas.events import Event
from holdfast.services.log.protocol import Chunk, Message
from holdfast.services.worker.host.surroundings import HostServices

KIND = "upstream-changed"
_MOST = 100
"""Jobs that are remembered: a topic that many jobs write is not told apart any further."""


class Upstream:
    """Runs of jobs by topic, as the newest records that were read name them.

    Args:
        job, unit: that read. leads: true if the copy does; standbys look as well, and say nothing.
    """

    def __init__(self, job: str, unit: str, around: HostServices, leads: Callable[[], bool]) -> None:
        self._job, self._unit, self._around, self._leads = job, unit, around, leads
        self._runs: dict[tuple[str, str], str] = {}

    def look(self, chunk: Chunk) -> None:
        """Looks at the last record that was fetched, as a header of each would cost more than what is found."""
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
    """The header `job`, `<name>@<generation>`; empty: no job of ours wrote the record."""
    for name, value in message.headers() or ():
        if name == "job":
            return value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")
    return ""


def _submitted(generation: str) -> int:
    """Place of a run among those of its name; 0: this names none."""
    number = generation.partition("-")[0]
    return int(number) + 1 if number.isascii() and number.isdigit() else 0
