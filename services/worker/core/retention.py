"""Compares the retention of users' topics with the time for which a recovery may need their records.

Under `buffering: source` and `adaptive`, failed units begin again at the newest global checkpoint, and its sources read
later records again. The recovery may wait for workers first. Source: MECHANISMS R2, PROTOCOL 7, docs/decisions/0109.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.schemas.plan_settings import TolerancePlan
from holdfast.services.kernel.plurals import plural

LINED = ("source", "adaptive")
"""Values of `buffering` under which units begin again at the newest global checkpoint."""


def wait_s(tolerance: TolerancePlan) -> float | None:
    """The time in seconds for which a recovery of the job may wait for workers; None if a recovery does not read its
    sources again.

    Args:
        tolerance: section `fault_tolerance` of the job.
    """
    if tolerance.buffering not in LINED:
        return None
    return tolerance.correlated_failure.within_s + tolerance.fail_stop_timeout_s


@dataclass(frozen=True, slots=True)
class Keeps:
    """Limits on the records of a topic by its settings.

    Attributes:
        ms: most age in milliseconds; None for no limit.
        size: most bytes of a partition; None for no limit.
    """

    ms: int | None = None
    size: int | None = None

    @classmethod
    def of(cls, config: Mapping[str, str]) -> Keeps:
        """The limits in the settings of a topic; no limits if nothing deletes by age or size, or if the topic is
        unknown."""
        if "delete" not in config.get("cleanup.policy", ""):
            return cls()
        return cls(_limit(config.get("retention.ms")), _limit(config.get("retention.bytes")))

    def shorter(self, before: Keeps) -> str:
        """The limits that are lower than `before`, as text for people; empty if none is."""
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

    Attributes:
        needed: offset from which a recovery would read again.
        start, end: first and end offset of the log.
        aged: offset from which no record can be deleted by age while a recovery waits; None if nothing is deleted by
            age.
    """

    needed: int
    start: int
    end: int
    aged: int | None = None


@dataclass(frozen=True, slots=True)
class Risk:
    """The effect of retention on a recovery.

    Attributes:
        text: text for people; empty for no effect.
        records: number of records that are deleted already or may be deleted too soon.
    """

    text: str = ""
    records: int = 0


@dataclass(slots=True)
class Retention:
    """The retention of one topic of one source task.

    Attributes:
        source: the source.
        topic: its topic.
        wait_s: time for which a recovery may wait for workers before it reads, seconds.
        keeps: limits as last read.
    """

    source: str
    topic: str
    wait_s: float
    keeps: Keeps | None = None
    _ends: dict[int, int] = field(default_factory=dict)
    _ends_ms: float = 0.0

    @property
    def young_ms(self) -> float | None:
        """The age up to which records are not deleted while a recovery waits, in milliseconds; None if no age limit is
        known."""
        return None if self.keeps is None or self.keeps.ms is None else self.keeps.ms - 1000 * self.wait_s

    def shortened(self, keeps: Keeps) -> str:
        """Sets the topic's limits. Returns the limits that have become lower, as text for people; empty if none has."""
        before, self.keeps = self.keeps, keeps
        return "" if before is None else keeps.shorter(before)

    def judge(self, extents: Mapping[int, Extent], record_bytes: float, now_ms: float) -> Risk:
        """The effect of retention on a recovery.

        Args:
            extents: offsets by partition.
            record_bytes: mean size of a record, uncompressed.
            now_ms: the present time.
        """
        rates = self._rates(extents, now_ms)
        gone = sum(max(0, min(one.start, one.end) - one.needed) for one in extents.values())
        old = sum(self._old(one) for one in extents.values())
        large = sum(self._large(one, rates.get(partition, 0.0), record_bytes) for partition, one in extents.items())
        return Risk("; ".join(self._words(gone, old, large)), gone + max(old, large))

    def _old(self, one: Extent) -> int:
        """The number of present records that may be deleted by age while a recovery waits."""
        return 0 if one.aged is None else max(0, min(one.aged, one.end) - max(one.needed, one.start))

    def _large(self, one: Extent, rate_per_s: float, record_bytes: float) -> int:
        """The number of present records, if the partition cannot hold them together with records that arrive while a
        recovery waits; otherwise 0."""
        size = None if self.keeps is None else self.keeps.size
        there = one.end - max(one.needed, one.start)
        if size is None or there <= 0 or (there + rate_per_s * self.wait_s) * record_bytes <= size:
            return 0
        return there

    def _rates(self, extents: Mapping[int, Extent], now_ms: float) -> dict[int, float]:
        """Records per second since the last call, by partition."""
        before, since_s = self._ends, (now_ms - self._ends_ms) / 1000
        self._ends = {partition: one.end for partition, one in extents.items()}
        self._ends_ms = now_ms
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
