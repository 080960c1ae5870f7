"""Retention of users' topics against the time for which a recovery may need their records.

Under `buffering: source` and `adaptive` failed units begin again at the newest global checkpoint, and its sources read
again what was cut since; the recovery may first wait for workers. Source: MECHANISMS R2, PROTOCOL 7,
docs/decisions/0109.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.schemas.job_settings import CorrelatedFailure, FaultTolerance
from holdfast.services.kernel.plurals import plural

_TOLERANCE, _FAILURE = FaultTolerance(), CorrelatedFailure()
LINED = ("source", "adaptive")
"""Values of `buffering` under which units begin again at the newest global checkpoint."""


def wait_s(tolerance: Mapping[str, Any]) -> float | None:
    """Time for which a recovery of the job may wait for workers; None: its sources need not be read again for it.

    Args:
        tolerance: the section `fault_tolerance` of its job.
    """
    if tolerance.get("buffering") not in LINED:
        return None
    failure: Mapping[str, Any] = tolerance.get("correlated_failure") or {}
    within_s = failure.get("within_s", _FAILURE.within_s)
    return float(within_s) + float(tolerance.get("fail_stop_timeout_s", _TOLERANCE.fail_stop_timeout_s))


@dataclass(frozen=True, slots=True)
class Keeps:
    """Limits by a topic's settings on its records. ms, size: age, and bytes a partition; None: no limit."""

    ms: int | None = None
    size: int | None = None

    @classmethod
    def of(cls, config: Mapping[str, str]) -> Keeps:
        """Limits by the settings of a topic: none if nothing deletes by age or size, or if the topic is not known."""
        if "delete" not in config.get("cleanup.policy", ""):
            return cls()
        return cls(_limit(config.get("retention.ms")), _limit(config.get("retention.bytes")))

    def shorter(self, before: Keeps) -> str:
        """Limits that are lower than they were, for people; or empty."""
        pairs = (("retention.ms", before.ms, self.ms), ("retention.bytes", before.size, self.size))
        found = [
            f"{name} was {'unlimited' if old is None else old}, is {new}"
            for name, old, new in pairs
            if new is not None and (old is None or new < old)
        ]
        return ", ".join(found)


def _limit(value: str | None) -> int | None:
    number = -1 if value is None else int(value)
    return None if number < 0 else number


@dataclass(frozen=True, slots=True)
class Extent:
    """Offsets of one partition of a topic.

    needed: from where a recovery would read it again.
    start, end: of the log.
    aged: from there on no record is so old that it may be deleted by its age while a recovery waits; None: age deletes
        nothing.
    """

    needed: int
    start: int
    end: int
    aged: int | None = None


@dataclass(frozen=True, slots=True)
class Risk:
    """Effect of retention on a recovery. text: for people; empty: nothing. records: deleted, or deleted too soon."""

    text: str = ""
    records: int = 0


@dataclass(slots=True)
class Retention:
    """Retention of one topic of one source task. wait_s: so long a recovery may wait for workers before it reads.

    keeps: as last read.
    """

    source: str
    topic: str
    wait_s: float
    keeps: Keeps | None = None
    _ends: dict[int, int] = field(default_factory=dict)
    _ends_ms: float = 0.0

    @property
    def young_ms(self) -> float | None:
        """Records no older than this are not deleted by their age while a recovery waits; None: by age none are."""
        return None if self.keeps is None or self.keeps.ms is None else self.keeps.ms - 1000 * self.wait_s

    def shortened(self, keeps: Keeps) -> str:
        """Takes the topic's settings; what has become shorter since the last time, for people, or empty."""
        before, self.keeps = self.keeps, keeps
        return "" if before is None else keeps.shorter(before)

    def judge(self, extents: Mapping[int, Extent], record_bytes: float, now_ms: float) -> Risk:
        """By partition.

        Args:
            record_bytes: mean size of a record, uncompressed.
        """
        rates = self._rates(extents, now_ms)
        gone = sum(max(0, min(one.start, one.end) - one.needed) for one in extents.values())
        old = sum(self._old(one) for one in extents.values())
        large = sum(self._large(one, rates.get(partition, 0.0), record_bytes) for partition, one in extents.items())
        return Risk("; ".join(self._words(gone, old, large)), gone + max(old, large))

    def _old(self, one: Extent) -> int:
        """Records that are there, and may be deleted by their age while a recovery waits."""
        return 0 if one.aged is None else max(0, min(one.aged, one.end) - max(one.needed, one.start))

    def _large(self, one: Extent, rate_per_s: float, record_bytes: float) -> int:
        """Records that are there, if with what comes while a recovery waits they are more than the partition keeps."""
        size = None if self.keeps is None else self.keeps.size
        there = one.end - max(one.needed, one.start)
        if size is None or there <= 0 or (there + rate_per_s * self.wait_s) * record_bytes <= size:
            return 0
        return there

    def _rates(self, extents: Mapping[int, Extent], now_ms: float) -> dict[int, float]:
        """Records a second since the last time."""
        before, since_s = self._ends, (now_ms - self._ends_ms) / 1000
        self._ends, self._ends_ms = {partition: one.end for partition, one in extents.items()}, now_ms
        if since_s <= 0:
            return {}
        return {p: max(0, end - before[p]) / since_s for p, end in self._ends.items() if p in before}

    def _words(self, gone: int, old: int, large: int) -> list[str]:
        keeps, found = self.keeps or Keeps(), list[str]()
        short = keeps.ms is not None and keeps.ms < 1000 * self.wait_s
        if gone:
            found.append(
                f"{plural(gone, 'record')} since the newest global checkpoint are deleted: a recovery would fail"
            )
        if short:
            found.append(f"retention.ms is {keeps.ms}, and a recovery may wait {self.wait_s:g} s for workers")
        if old and not short:
            found.append(
                f"retention.ms is {keeps.ms}: {plural(old, 'record')} since the newest global checkpoint may be "
                f"deleted in the {self.wait_s:g} s that a recovery may wait for workers"
            )
        if large:
            found.append(
                f"retention.bytes is {keeps.size}: {plural(large, 'record')} since the newest global checkpoint, and "
                f"what comes in the {self.wait_s:g} s that a recovery may wait for workers, are more"
            )
        return [f"topic {self.topic} of source {self.source}: {'; '.join(found)}"] if found else []
