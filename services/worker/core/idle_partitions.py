"""Detects idle partitions, so that they do not hold the watermark back, and closes everything open after a silence.

A partition is idle if the job's other partitions have brought records for `idle_after_s` and it has brought none, it is
read to its end, and Kafka confirms that end. After a silence of all partitions the time starts again: nothing becomes
idle in a silence, so no watermark moves by the clock alone. An idle partition gives way up to the others' watermark at
the time of the question to Kafka. So a record in the topic that is not fetched yet is not late, and a partition whose
leader is away gives way to nothing. Source: PROTOCOL 3. Watermarks are microseconds since 1970. All of it is decided
before the cut, which pins it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.schemas.cuts import NO_WATERMARK

ASK_MS = 250.0
"""Time between two checks of a source task whether to ask Kafka. It asks only if the answer could move a watermark."""


class Standing(NamedTuple):
    """The present state of a partition.

    Attributes:
        rests: True if the reader met the end of the partition and all records are cut.
        position: that end.
        watermark: watermark of its cut records, less the lateness.
    """

    rests: bool
    position: int
    watermark: int


@dataclass(frozen=True, slots=True)
class Question:
    """A question to Kafka for the ends of the resting partitions.

    Attributes:
        at_ms: time of the question.
        partitions: the partitions.
        level: watermark of the other partitions.
        closing: watermark that would close everything open.
        closes: True if the silence is long enough for that.
    """

    at_ms: float
    partitions: tuple[int, ...]
    level: int
    closing: int
    closes: bool


@dataclass(slots=True)
class _Partition:
    """The memory of one partition.

    Attributes:
        heard_ms: last time at which it had records, or was not known to be at its end.
        floor: watermark up to which it gives way; None if it is not idle.
    """

    heard_ms: float
    floor: int | None = None


class IdlePartitions:
    """Detects idle partitions of one source task.

    Args:
        idle_after_ms: time after which a partition may be idle; None for never.
        close_after_ms: silence after which everything open is closed; None for never.
        now_ms: start of the copy.
    """

    def __init__(self, idle_after_ms: float | None, close_after_ms: float | None, now_ms: float) -> None:
        self.idle_after_ms = idle_after_ms
        self.close_after_ms = close_after_ms
        self._stirred_ms = self._began_ms = now_ms
        self._partitions: dict[int, _Partition] = {}
        self._closing: int | None = None

    # -- what happens -------------------------------------------------------------------------------------------------

    def stirred(self, now_ms: float) -> None:
        """Notes a cut with records by any source task of the job, which may end a silence."""
        if self.idle_after_ms is not None and now_ms - self._stirred_ms >= self.idle_after_ms:
            self._began_ms = now_ms
        self._stirred_ms = now_ms
        self._closing = None

    def heard(self, partition: int, now_ms: float) -> None:
        """Notes that the partition has records, or is not known to be at its end."""
        self._partitions[partition], self._closing = _Partition(now_ms), None

    def look(self, standings: Mapping[int, Standing], now_ms: float) -> None:
        for partition, standing in standings.items():
            if not standing.rests:
                self.heard(partition, now_ms)
            self._partitions.setdefault(partition, _Partition(now_ms))

    def answered(self, question: Question, ends: Mapping[int, int], standings: Mapping[int, Standing]) -> None:
        """Applies the answer of Kafka. A partition with another end has records that the reader has not delivered."""
        confirmed = 0
        for partition in question.partitions:
            if partition not in standings:
                continue  # the partition was of a topic that was replaced
            known, standing = self._partitions[partition], standings[partition]
            if not standing.rests or known.heard_ms > question.at_ms:
                continue
            if ends.get(partition, -1) != standing.position:
                self.heard(partition, question.at_ms)
                continue
            confirmed += 1
            if self._silent(partition, question.at_ms):
                known.floor = question.level if known.floor is None else max(question.level, known.floor)
        if question.closes and confirmed == len(standings) and self._stirred_ms <= question.at_ms:
            self._closing = question.closing

    # -- what follows -------------------------------------------------------------------------------------------------

    def idle(self, standings: Mapping[int, Standing]) -> bool:
        """True if every partition is idle."""
        return all(standing.rests and self._floor(p) is not None for p, standing in standings.items())

    def watermark(self, standings: Mapping[int, Standing]) -> int:
        """The lowest watermark of the partitions; an idle partition gives way up to its floor."""
        own = min((self._level(p, standing) for p, standing in standings.items()), default=NO_WATERMARK)
        return own if self._closing is None else max(own, self._closing)

    def question(self, standings: Mapping[int, Standing], others: int, closing: int, now_ms: float) -> Question | None:
        """The next question to Kafka; None if no answer could move a watermark.

        Args:
            others: lowest watermark of the source tasks that are not idle.
            closing: watermark that closes everything open; NO_WATERMARK if nothing is open.
            now_ms: the present time.
        """
        self.look(standings, now_ms)
        silent, level = self._silent_ones(standings, others, now_ms)
        closes = self._may_close(standings, closing) and now_ms - self._stirred_ms >= (self.close_after_ms or 0.0)
        wanted = tuple(standings) if closes else silent
        return Question(now_ms, wanted, level, closing, closes=closes) if wanted else None

    def waits(self, standings: Mapping[int, Standing], others: int, closing: int, now_ms: float) -> bool:
        """True if the passing of time may move the watermark, so that cuts must not slow down."""
        if self._may_close(standings, closing):
            return True
        if self.idle_after_ms is None:
            return False
        later_ms = now_ms + self.idle_after_ms
        return bool(self._silent_ones(standings, others, later_ms)[0])

    def _may_close(self, standings: Mapping[int, Standing], closing: int) -> bool:
        if self.close_after_ms is None or closing == NO_WATERMARK or self._closing == closing:
            return False
        return all(standing.rests for standing in standings.values())

    def _silent_ones(
        self, standings: Mapping[int, Standing], others: int, now_ms: float
    ) -> tuple[tuple[int, ...], int]:
        """The partitions that could give way further, and the watermark up to which they could."""
        silent = {p for p, standing in standings.items() if standing.rests and self._silent(p, now_ms)}
        heard = (self._level(p, standing) for p, standing in standings.items() if p not in silent)
        level = min(heard, default=others)
        behind = tuple(p for p in sorted(silent) if (floor := self._floor(p)) is None or floor < level)
        return behind, level

    def _silent(self, partition: int, now_ms: float) -> bool:
        """True if other partitions have brought records for `idle_after_ms` and this one has brought none."""
        if self.idle_after_ms is None or (known := self._partitions.get(partition)) is None:
            return False
        since_ms = max(known.heard_ms, self._began_ms)
        return self._stirred_ms - known.heard_ms >= self.idle_after_ms and now_ms - since_ms >= self.idle_after_ms

    def _level(self, partition: int, standing: Standing) -> int:
        floor = self._floor(partition)
        return standing.watermark if floor is None else max(standing.watermark, floor)

    def _floor(self, partition: int) -> int | None:
        known = self._partitions.get(partition)
        return None if known is None else known.floor
