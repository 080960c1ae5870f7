"""Watches for records that a cut names and that never come: else the job would stop and not say why.

A cut is valid whatever offsets it names. One whose records lie beyond the end of their partition was not made by
reading them; or the partition has lost its tail. Only a person can say what counts then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from holdfast.schemas.cuts import Range
from holdfast.schemas.topics import Partition
from holdfast.services.hosting.blocking import Blocking
from holdfast.services.kernel.errors import Unreachable
from holdfast.services.kernel.plans.layout import SourceShare
from holdfast.services.log.protocol import Log

PATIENCE_MS = 10_000.0
"""Records that a cut names were there for its author: they come in milliseconds, or after an outage."""


class Missing:
    """Missing records of one copy.

    Args:
        job: for the message.
    """

    def __init__(self, log: Log, beside: Blocking, job: str) -> None:
        self._log, self._beside, self._job = log, beside, job
        self._batch, self._since_ms = 0, math.inf
        self._asking = False
        self._cause = ""

    @property
    def next_deadline(self) -> float:
        """The time of the next look, in milliseconds of the clock."""
        return math.inf if self._asking else self._since_ms + PATIENCE_MS

    def look(self, batch: int, wanted: Callable[[], Mapping[Partition, int]], now_ms: float) -> None:
        """Asks for the ends of partitions, beside the loop, once a batch has waited too long.

        Args:
            batch: the next one. wanted: by partition, up to where its records are cut and not here.

        Raises:
            Unreachable: they are beyond an end.
        """
        if self._cause:
            raise Unreachable(self._cause)
        if batch != self._batch:
            self._batch, self._since_ms = batch, now_ms
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
    """Records of a cut that are gone, for people; or empty."""
    topic = "" if source is None else source.topic
    found = [f"offsets {r.start} to {r.stop - 1} of {Partition(topic, r.partition)}" for r in ranges if r.lost]
    return f"retention has deleted records before they were read, {', '.join(found)}" if found else ""
