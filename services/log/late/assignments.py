"""Standings of units for a process that starts late, from a snapshot of `assignments`.

Source: PROTOCOL 1 and 8.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from holdfast.schemas import assignments, formats
from holdfast.schemas.assignments import Snapshot
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.standings import Standings, plausible
from holdfast.services.kernel.errors import OtherFormat
from holdfast.services.log.late.start import Decided, read_late
from holdfast.services.log.protocol import Log, Message

FIRST_STRETCH = 4_096


def read_standings(log: Log, partition: Partition) -> Standings:
    """The present state of every unit; reading continues at its `next`. Raises Retriable,
    StateCorrupted, OtherFormat.
    """
    standings = read_late(log, partition, ASSIGNMENTS)
    if why := formats.too_old(standings.assigned.format):
        raise OtherFormat(why)
    return standings


def _snapshot(message: Message) -> Snapshot | None:
    try:
        return assignments.decode(message.value() or b"").snapshot
    except msgspec.DecodeError:
        return None


def _begin(snapshot: Snapshot | None) -> Standings:
    return Standings() if snapshot is None else Standings.of(snapshot)


def _read(standings: Standings, message: Message) -> None:
    """Adds a record to the standings; a record that cannot be decoded is skipped, as by every reader."""
    with suppress(msgspec.DecodeError):
        standings.read(message.offset(), assignments.decode(message.value() or b""))


ASSIGNMENTS: Decided[Snapshot, Standings] = Decided(
    b'"snapshot":{', _snapshot, plausible, _begin, read=_read, stretch=FIRST_STRETCH
)
