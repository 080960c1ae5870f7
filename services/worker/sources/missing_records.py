"""Detects records of a cut that never arrive, so that the job does not stop without a reason.

A cut is valid with any offsets. If its records are beyond the end of their partition, the cut was forged or the
partition has lost its end. Only a person can decide then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from holdfast.schemas.cuts import Range
from holdfast.schemas.topics import Partition
from holdfast.services.hosting.blocking_calls import Blocking
from holdfast.services.kernel.errors import Unreachable
from holdfast.services.kernel.plans.layout import SourceShare
from holdfast.services.log.protocol import Log

PATIENCE_MS = 10_000.0
"""Waiting time before the check. The author of a cut had its records, so they arrive in milliseconds or after an
outage."""


class Missing:
    """The missing records of one copy.

    Args:
        job: name of the job, for the message.
    """

    def __init__(self, log: Log, beside: Blocking, job: str) -> None:
        self._log = log
        self._beside = beside
        self._job = job
        self._batch = 0
        self._since_ms = math.inf
        self._asking = False
        self._cause = ""

    @property
    def next_deadline(self) -> float:
        """The clock time of the next check."""
        return math.inf if self._asking else self._since_ms + PATIENCE_MS

    def ask_ends(self, batch: int, wanted: Callable[[], Mapping[Partition, int]], now_ms: float) -> None:
        """Requests the ends of partitions, beside the loop, when a batch has waited too long.

        Args:
            batch: the next batch.
            wanted: returns end offsets of its cut whose records are not here, by partition.

        Raises:
            Unreachable: records are beyond the end of their partition.
        """
        if self._cause:
            raise Unreachable(self._cause)
        if batch != self._batch:
            self._batch = batch
            self._since_ms = now_ms
        if self._asking or now_ms < self._since_ms + PATIENCE_MS:
            return
        self._since_ms = now_ms
        if stops := dict(wanted()):
            self._asking = True
            self._beside.run(lambda: self._log.offsets(stops, "end"), lambda ends: self._answered(batch, stops, ends))

    def _answered(self, batch: int, stops: Mapping[Partition, int], ends: object) -> None:
        self._asking = False
        if not isinstance(ends, dict) or batch != self._batch:
            return
        for partition, stop in stops.items():
            if stop > ends[partition]:
                self._cause = (
                    f"batch {batch} is cut up to offset {stop} of {partition}, which ends at {ends[partition]}: nobody "
                    f"has written these records, or the partition has lost its tail. `holdfast repair {self._job} "
                    f"--list` names the cut; it can be skipped"
                )


def lost(source: SourceShare | None, ranges: Iterable[Range]) -> str:
    """The records of a cut that are gone, as text for people; empty if none are."""
    topic = "" if source is None else source.topic
    found = [f"offsets {r.start} to {r.stop - 1} of {Partition(topic, r.partition)}" for r in ranges if r.lost]
    return f"retention has deleted records before they were read, {', '.join(found)}" if found else ""
