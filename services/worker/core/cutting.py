"""The time of a source task's next cut, and the limit on its lead.

Source: PROTOCOL 3. To change the rhythm of batches, change the reasons in `due`.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from enum import Enum

IDLE_CUT_MS = 500
REST_AFTER_MS, REST_CUT_MS = 10_000.0, 4_000
"""A job without records for so long is cut so seldom, where nobody waits for time to pass (see core/idling.py)."""
MAX_LEAD_BATCHES = 64
MAX_LEAD_BYTES = 32 * 1024 * 1024
"""Largest lead of a task's cuts over the slowest unit of the job: the rest waits in the user's topic."""
LOOK_MS = 20.0
"""Time between two looks of a task that is too far ahead: the others may have come nearer. It hears of them ten times a
second, and its lead lasts for longer than this.
"""
MISSING_LOOK_MS = 2.0
"""Time between two looks, at a topic that is read on demand, for records of a cut that is known."""
STANDBY_LOOK_MS = 100.0
"""Time between two looks at a topic that is read on demand, by a copy that does not cut, or waits for its own cut."""
FULL_LOOK_MS = 20.0
"""Time between two looks at full data topics: a checkpoint makes room."""

MOST_STEPS = 512
"""Remembered at most: then two neighbours become one, which counts until the later of its batches is behind."""


@dataclass(frozen=True, slots=True)
class Rhythm:
    """Settings of a job's batches."""

    interval_ms: int = 10
    max_records: int = 10_000
    max_bytes: int = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SourceView:
    """The state of a source task by which it decides whether to cut. While a proposal is under way it decides nothing.

    batch: its last valid cut; lead: bytes in its cuts that not every unit has processed; newest: the highest batch any
    source task has cut; slowest: the lowest batch that a unit of the job has processed. records, bytes: waiting, uncut.
    last_ms: when its last cut was read back; stirred_ms: when the last cut of the job that brings records was, or the
    copy became the leader. settled: nothing waits for time. paused: no cut of the next batch can be valid. at_end: the
    drain's end offsets are reached by what waits. grown: partitions are to join. full: the job's data topics hold as
    much as it allows, so that no batch may begin; one that another task has begun is finished, or nobody could process
    it.
    """

    batch: int
    newest: int
    slowest: int
    records: int
    bytes: int
    last_ms: float
    now_ms: float
    stirred_ms: float = math.inf
    settled: bool = False
    paused: bool = False
    final: bool = False
    at_end: bool = False
    grown: bool = False
    lead: int = 0
    full: bool = False

    @property
    def too_far_ahead(self) -> bool:
        return self.batch - self.slowest >= MAX_LEAD_BATCHES or self.lead >= MAX_LEAD_BYTES


@dataclass(slots=True)
class Lead:
    """Bytes of the batches that are not behind yet."""

    bytes: int = 0
    _steps: deque[tuple[int, int]] = field(default_factory=deque)

    def cut(self, batch: int, size: int) -> None:
        """More bytes of the newest batch, or of one after it."""
        self.bytes += size
        if self._steps and self._steps[-1][0] == batch:
            self._steps[-1] = (batch, self._steps[-1][1] + size)
            return
        if len(self._steps) >= MOST_STEPS:
            self._join()
        self._steps.append((batch, size))

    def behind(self, slowest: int) -> int:
        """The bytes of batches after `slowest`, the last that every reader has done."""
        while self._steps and self._steps[0][0] <= slowest:
            self.bytes -= self._steps.popleft()[1]
        return self.bytes

    def adopt(self, batch: int, size: int) -> None:
        """So many bytes are known of all batches up to this one, whatever was known before."""
        self.behind(batch)
        if size:
            self._steps.appendleft((batch, size))
            self.bytes += size

    def _join(self) -> None:
        steps = list(self._steps)
        odd = steps[len(steps) // 2 * 2 :]
        pairs = zip(steps[::2], steps[1::2], strict=False)
        self._steps = deque([*((later[0], early[1] + later[1]) for early, later in pairs), *odd])


class Reason(Enum):
    """Why a cut is proposed now."""

    FULL = "a full batch waits"
    DUE = "data wait and the interval has passed"
    BEHIND = "another source task is ahead"
    END = "the end offsets of a drain are reached"
    GROWN = "the topic has new partitions"
    IDLE = "nothing came for a while"


def idle_cut_ms(sight: SourceView) -> float:
    """Time for which no cut is needed while nothing comes."""
    rests = sight.settled and sight.now_ms - sight.stirred_ms >= REST_AFTER_MS
    return REST_CUT_MS if rests else IDLE_CUT_MS


def due(sight: SourceView, rhythm: Rhythm) -> Reason | None:
    """Why to cut now, or None."""
    if sight.paused or sight.final:
        return None
    if sight.too_far_ahead:
        return None
    since_ms = sight.now_ms - sight.last_ms
    if sight.newest > sight.batch:
        return Reason.BEHIND
    if sight.full:
        return None
    if sight.at_end:
        return Reason.END
    if sight.grown:
        return Reason.GROWN
    if sight.records >= rhythm.max_records or sight.bytes >= rhythm.max_bytes:
        return Reason.FULL
    if sight.records:
        return Reason.DUE if since_ms >= rhythm.interval_ms else None
    return Reason.IDLE if since_ms >= idle_cut_ms(sight) else None


def wait_ms(sight: SourceView, rhythm: Rhythm) -> float:
    """Time until time alone can make a cut due: for ever while none may come."""
    if sight.paused or sight.final:
        return math.inf
    if sight.too_far_ahead:
        return LOOK_MS
    if sight.full:
        return FULL_LOOK_MS
    if sight.grown:
        return 0.0
    limit = rhythm.interval_ms if sight.records else idle_cut_ms(sight)
    return max(0.0, limit - (sight.now_ms - sight.last_ms))
