"""Processes of two releases: nobody writes what a process that lives cannot read; and deliberate bugs of that rule.

Source: decision 0078. Under profile `formats` replicas and controllers are of the release that reads SECOND; workers
are of the one before, until they start again as new ones. Under profiles `budget`, `clocked`, `asks` and `updates` all
processes read SECOND, since jobs of these are planned with nothing less; under every other one they read FIRST alone,
so that no history has a format to raise.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from unittest import mock

from holdfast.schemas import assignments, formats, heartbeats
from holdfast.schemas.frames import unpack
from holdfast.schemas.heartbeats import Exit, Heartbeat
from holdfast.services.recovery.core import formats as deciding
from holdfast.services.recovery.core.formats import Readers
from holdfast.services.recovery.core.unit.facts import proving
from tests.simulation.kafka.broker import Written
from tests.simulation.kafka.names import TOPICS, kind_of
from tests.simulation.profiles import PROFILES

SECOND = formats.FIRST + 1
LIVE_US, AT_ONCE_US = 1_500_000, 300_000
"""A history is short."""
NEVER = 1_000_000
"""So many batches without anything count as one: nothing that is odd shows in them, and a history has few others."""
SLACK_US = 300_000
"""A replica counts from when it reads a heartbeat."""


class reading:
    """Block whose work is done by a process that reads up to this format. Entered in every turn of a worker."""

    def __init__(self, newest: int) -> None:
        self._newest, self._before = newest, newest

    def __enter__(self) -> None:
        self._before, formats.NEWEST = formats.NEWEST, self._newest

    def __exit__(self, *of: object) -> None:
        formats.NEWEST = self._before


@contextmanager
def released(profile: str) -> Iterator[None]:
    """The release of all processes that nothing else is said of."""
    drawn = PROFILES[profile]
    at_once = profile == "budget" or drawn.tentative or drawn.clocked or drawn.asks or drawn.updates
    newest = reading(SECOND if profile == "formats" or at_once else formats.FIRST)
    idle, live_us = mock.patch.object(proving, "IDLE", NEVER), AT_ONCE_US if at_once else LIVE_US
    with newest, idle, mock.patch.object(deciding, "LIVE_US", live_us):
        yield


def check(written: list[Written]) -> Iterator[str]:
    """The format rises only when every worker that lives reads it, and no frame is of a later one than was decided."""
    now, heard = formats.FIRST, dict[str, tuple[int, int]]()
    for one in written:
        if one.partition.topic == TOPICS.heartbeats:
            record = heartbeats.decode(one.value)
            if isinstance(record, Heartbeat):
                heard[record.worker] = record.reads, one.time_us
            elif isinstance(record, Exit):
                heard.pop(record.worker, None)
        elif one.partition.topic == TOPICS.assignments:
            decided = assignments.decode(one.value)
            if decided.replications and now < formats.PLANS:
                yield f"format: {decided.author} made a replication plan, and the cluster writes {now}"
            if decided.format > now:
                now = decided.format
                old = sorted(name for name, (reads, at) in heard.items() if _old(reads, now, one.time_us - at))
                if old:
                    yield f"format: {now} is written from now on, and {old} read less"
        elif kind_of(one.partition.topic) == "data" and (version := unpack(one.value).version) > now:
            yield f"format: {one.author} sent a frame of format {version}, and the cluster writes {now}"


def _old(reads: int, format: int, silent_us: int) -> bool:
    return reads < format and silent_us < LIVE_US - SLACK_US


# -- bugs -------------------------------------------------------------------------------------------------------------


def format_raised_at_once() -> AbstractContextManager[object]:
    """A replica that reads a newer format lets everybody write it."""

    def due(self: Readers, now: int, now_us: int) -> int:
        return formats.NEWEST if now < formats.NEWEST and self.began_us is not None else 0

    return mock.patch.object(Readers, "due", due)


def _newest(cluster: int) -> int:
    return formats.NEWEST


def newest_format_written() -> AbstractContextManager[object]:
    """A process writes the newest format that it knows itself."""
    return mock.patch.object(formats, "written", _newest)
