"""Computes the limit for the trimming of a data topic: the minimum of the positions that its readers have acknowledged.

Source: PROTOCOL 7, MECHANISMS S2. The limit is never a position of the trimmer's own frames, because unread frames of
another writer may be before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.schemas.progress import Progress
from holdfast.schemas.topics import Partition


def acknowledged(
    partition: Partition, readers: Iterable[str], progress: Mapping[str, Progress], batch: int = 2**62
) -> int:
    """The offset below which no reader needs the partition; 0 while some reader has acknowledged nothing.

    `batch` is the last batch that the writer has done; no reader can have acknowledged a later one.
    """
    positions = [_position(partition, progress.get(reader), batch) for reader in readers]
    return min(positions, default=0)


def _position(partition: Partition, progress: Progress | None, batch: int) -> int:
    if progress is None or progress.acked > batch:
        return 0
    for position in progress.positions:
        if position.topic == partition.topic and position.partition == partition.index:
            return position.offset
    return 0


def consumed(
    partition: Partition,
    readers: Mapping[str, int],
    progress: Mapping[str, Progress],
    read: int,
    batch: int = 2**62,
) -> int:
    """The offset below which no reader needs the partition if only sources retain: the minimum of the readers' newest
    markers.

    Args:
        readers: line of each unit that reads the partition.
        read: offset up to which `assignments` was read here. A unit whose progress has read no further got only frames
            sent under changes that are known here, and only a later change makes a unit begin again at an earlier
            place.
        batch: last batch that the writer has done.
    """
    return min((_newest(partition, progress.get(unit), line, read, batch) for unit, line in readers.items()), default=0)


def _newest(partition: Partition, progress: Progress | None, line: int, read: int, batch: int) -> int:
    if progress is None or progress.line != line or progress.read > read or progress.marked > batch:
        return _position(partition, progress, batch)
    at = (p.offset for p in progress.newest if (p.topic, p.partition) == (partition.topic, partition.index))
    return max(next(at, 0), _position(partition, progress, batch))


def later(a: Progress, b: Progress) -> Progress:
    """The maximum of two progress records of one unit, of which b is the newer one. If their lines differ, the record
    of the later line."""
    if a.line != b.line:
        return max(a, b, key=lambda one: one.line)
    acked = a if a.acked >= b.acked else b
    done = a if a.processed >= b.processed else b
    durable = b if b.durable >= a.durable else a
    return Progress(
        unit=a.unit,
        processed=done.processed,
        acked=acked.acked,
        positions=acked.positions,
        watermark=done.watermark,
        records=done.records,
        late=done.late,
        dead=done.dead,
        lost=done.lost,
        ended=a.ended or b.ended,
        late_dropped=done.late_dropped,
        leap=done.leap,
        retained=b.retained if b.processed >= a.processed else a.retained,
        line=a.line,
        marked=max(a.marked, b.marked),
        marks=durable.marks,
        since=durable.since,
        arrived=max(a.arrived, b.arrived),
        arrived_ms=b.arrived_ms if b.arrived >= a.arrived else a.arrived_ms,
        newest=durable.newest,
        read=durable.read,
        rests=max(a.rests, b.rests),
    )
