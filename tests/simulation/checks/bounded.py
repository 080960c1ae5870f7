"""`retain_bytes`, in histories so small that a job reaches it: what lies in its data topics for readers stays bounded.

Judged by the log alone: the bytes of frames that a reader has not acknowledged, whatever leaders say of them.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from unittest import mock

import msgspec

from holdfast.schemas import cuts, progress
from holdfast.schemas.cuts import Cut
from holdfast.schemas.frames import unpack
from holdfast.schemas.plans import Plan
from holdfast.schemas.progress import Progress
from holdfast.schemas.topics import JobTopics, Partition
from holdfast.services.worker.core.retained import Bound, Retained
from holdfast.services.worker.host import job
from tests.simulation.kafka.broker import Written

MIB = 1024 * 1024
SMALLER = 256
"""By so much the bound of a history is smaller than that of its job file, which is a MiB at least."""
GRACE_US = 1_000_000
"""Units publish what they retain ten times a second, and those that cut read it later when records lag."""
KNOWN_US = 50_000
"""A worker that cuts knows of its own copies before what they publish is in the log."""


def small_bounds() -> AbstractContextManager[object]:
    """Bounds that a history of some seconds reaches."""
    return mock.patch.object(job, "Bound", lambda limit: Bound(None if limit is None else limit // SMALLER))


class _Topics:
    """The data topics of one job. sizes: by partition and batch, of frames that some reader has not acknowledged."""

    def __init__(self, reading: Mapping[Partition, tuple[str, ...]]) -> None:
        self._reading = reading
        self._sizes: dict[Partition, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        self._seen: set[tuple[Partition, int, int, int]] = set()
        self._acked: dict[str, int] = {}

    def frame(self, partition: Partition, value: bytes) -> None:
        """Copies send the same frames: each counts once."""
        header = unpack(value)
        key = (partition, header.writer, header.batch, header.part)
        if partition in self._reading and key not in self._seen:
            self._seen.add(key)
            self._sizes[partition][header.batch] += len(value)

    def progress(self, known: Progress) -> None:
        self._acked[known.unit] = max(known.acked, self._acked.get(known.unit, 0))

    @property
    def bytes(self) -> int:
        found = 0
        for partition, sizes in self._sizes.items():
            acked = min(self._acked.get(unit, 0) for unit in self._reading[partition])
            for batch in [batch for batch in sizes if batch <= acked]:
                del sizes[batch]
            found += sum(sizes.values())
        return found


def check(
    written: list[Written], plan: Plan, topics: JobTopics, reading: Mapping[Partition, tuple[str, ...]]
) -> Iterator[str]:
    """No source begins a batch while the job's data topics have been full for GRACE_US; until a unit has ended."""
    limit = plan.spec.get("retain_bytes")
    if limit is None:
        return
    data, full_us, newest = _Topics(reading), None, 0
    published = deque(
        (one.time_us, progress.decode(one.value)) for one in written if one.partition.topic == topics.progress
    )
    for one in written:
        while published and published[0][0] <= one.time_us + KNOWN_US:
            known = published.popleft()[1]
            data.progress(known)
            if known.ended:
                return
        if one.partition in reading:
            data.frame(one.partition, one.value)
        elif one.partition.topic == topics.cuts:
            try:
                record = cuts.decode(one.value)
            except msgspec.DecodeError:
                continue
            if not isinstance(record, Cut) or record.batch <= newest:
                continue
            newest = record.batch
            if data.bytes < limit // SMALLER:
                full_us = None
            if full_us is not None and one.time_us - full_us > GRACE_US:
                most = limit // SMALLER
                yield f"bound: batch {newest} begins while {data.bytes} bytes are not acknowledged, of {most} at most"
                return
        else:
            continue
        if data.bytes < limit // SMALLER:
            full_us = None
        elif full_us is None:
            full_us = one.time_us


def bound_ignored() -> AbstractContextManager[object]:
    """Sources begin batch after batch, whatever lies in the data topics."""
    return mock.patch.object(Bound, "reached", return_value=False)


def sent_before_forgotten() -> AbstractContextManager[object]:
    """A copy that takes over counts what it sends itself, and not what its predecessor has sent."""
    return mock.patch.object(Retained, "adopt", return_value=None)
