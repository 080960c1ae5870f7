"""A process that starts late begins to read `assignments` at a snapshot near the end, not at the first record.

Source: PROTOCOL 1. Snapshots lie in the topic itself, one every few thousand records, and are searched from the end in
ever larger stretches, as `last` does: no second topic that says where they are can disagree with this one. Measured
with 150,000 assignments: reading all of them took a controller 45 s record by record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import structlog

from schemas import assignments
from schemas.assignments import Assignment, Snapshot
from schemas.topics import Partition
from services.kernel.logs.standings import Standings, base_of, begun
from services.log.protocol import Log, Message

FIRST_STRETCH, LAST_STRETCH = 4_096, 65_536
"""Records read from the end at first, and at most: a log without a snapshot in so many is read from its start."""
_MARK = b'"snapshot":{'

_log = structlog.get_logger()


def read_standings(log: Log, partition: Partition) -> Standings:
    """The state of every unit now; reading continues at its `next`. Raises Retriable."""
    start, end = (log.offsets([partition], at)[partition] for at in ("start", "end"))
    begin, stretch = end, FIRST_STRETCH
    while begin > start and stretch <= LAST_STRETCH:
        begin, stretch = max(start, end - stretch), stretch * 4
        messages = list(log.scan(partition, begin))
        base = base_of(_snapshots(messages), begin)
        if base is not None:
            standings = begun(_from(messages, base.upto), base)
            if standings is not None:
                return standings
            _log.error("a snapshot differs from what the log gives; none is believed", at=str(partition))
            break
    return _folded(log, partition, start)


def _folded(log: Log, partition: Partition, start: int) -> Standings:
    standings = Standings(next=start, since=start)
    for offset, record in _decoded(log.scan(partition, start)):
        standings.read(offset, record)
        if record.snapshot is not None:
            standings.check(offset, record.snapshot)
    return standings


def _snapshots(messages: Sequence[Message]) -> list[tuple[int, Snapshot]]:
    likely = (message for message in messages if _MARK in (message.value() or b""))
    return [(offset, record.snapshot) for offset, record in _decoded(likely) if record.snapshot is not None]


def _from(messages: Sequence[Message], upto: int) -> Iterator[tuple[int, Assignment]]:
    return _decoded(message for message in messages if message.offset() >= upto)


def _decoded(messages: Iterator[Message]) -> Iterator[tuple[int, Assignment]]:
    """Leaves out what cannot be read, as every reader does."""
    for message in messages:
        try:
            yield message.offset(), assignments.decode(message.value() or b"")
        except msgspec.DecodeError:
            continue
