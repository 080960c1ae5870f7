"""Decides when a source task makes its next cut, and limits its lead.

Source: PROTOCOL 3. The reasons for a cut are in `due`.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from enum import Enum

IDLE_CUT_MS = 500
REST_AFTER_MS, REST_CUT_MS = 10_000.0, 4_000
"""Time without records after which a job is cut only every REST_CUT_MS, if nothing waits for time to pass
(core/idle_partitions.py)."""
MAX_LEAD_BATCHES = 64
MAX_LEAD_BYTES = 32 * 1024 * 1024
"""Most bytes, beside MAX_LEAD_BATCHES, by which a task may lead the slowest unit of the job. Further records wait in
the topic."""
LOOK_MS = 20.0
"""Time between two checks of a task that is too far ahead. It receives the progress of other units ten times a second,
and its lead lasts for longer than this."""
MISSING_LOOK_MS = 2.0
"""Time between two reads of a topic on demand, for records of a known cut."""
STANDBY_LOOK_MS = 100.0
"""Time between two reads of a topic on demand, by a copy that does not cut or waits for its own cut."""
FULL_LOOK_MS = 20.0
"""Time between two checks of full data topics; a checkpoint makes room."""

MOST_STEPS = 512
"""Most steps that are remembered. Beyond that, pairs of neighbours are merged and count until the later batch of a pair
is behind."""


@dataclass(frozen=True, slots=True)
class Rhythm:
    """Settings of a job's batches."""

    interval_ms: int = 10
    max_records: int = 10_000
    max_bytes: int = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SourceView:
    """The state of a source task that decides whether it cuts. The task decides nothing while its proposal is under
    way.

    Attributes:
        batch: its last valid cut.
        newest: highest batch that any source task has cut.
        slowest: lowest batch that a unit of the job has processed.
        records, bytes: waiting input without a cut.
        last_ms: time at which its last cut was read back.
        now_ms: the present time.
        stirred_ms: time of the last cut of the job with records, or the time at which the copy became the leader.
        settled: True if nothing waits for time to pass.
        paused: True if no cut of the next batch can be valid.
        final: True if its last cut was the final one.
        at_end: True if the waiting input reaches the end offsets of a drain.
        grown: True if new partitions are to join.
        lead: bytes in its cuts that some unit has not processed.
        full: True if the job's data topics hold as much as it allows, so that no batch may begin. A batch that another
            task has begun is finished, because otherwise no unit could process it.
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
    """The bytes of the batches that some reader has not done."""

    bytes: int = 0
    _steps: deque[tuple[int, int]] = field(default_factory=deque)

    def cut(self, batch: int, size: int) -> None:
        """Adds bytes of the newest batch, or of a later one."""
        self.bytes += size
        if self._steps and self._steps[-1][0] == batch:
            self._steps[-1] = (batch, self._steps[-1][1] + size)
            return
        if len(self._steps) >= MOST_STEPS:
            self._join()
        self._steps.append((batch, size))

    def behind(self, slowest: int) -> int:
        """Drops batches up to `slowest`, which every reader has done. Returns the bytes of the batches after it."""
        while self._steps and self._steps[0][0] <= slowest:
            self.bytes -= self._steps.popleft()[1]
        return self.bytes

    def adopt(self, batch: int, size: int) -> None:
        """Sets the bytes of all batches up to this one, in place of earlier values."""
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
    """The reasons for a cut."""

    FULL = "a full batch waits"
    DUE = "data wait and the interval has passed"
    BEHIND = "another source task is ahead"
    END = "the end offsets of a drain are reached"
    GROWN = "the topic has new partitions"
    IDLE = "nothing came for a while"


def idle_cut_ms(view: SourceView) -> float:
    """The time without records after which a cut is made."""
    rests = view.settled and view.now_ms - view.stirred_ms >= REST_AFTER_MS
    return REST_CUT_MS if rests else IDLE_CUT_MS


def due(view: SourceView, rhythm: Rhythm) -> Reason | None:
    """The reason to cut now; None for no cut."""
    if view.paused or view.final:
        return None
    if view.too_far_ahead:
        return None
    since_ms = view.now_ms - view.last_ms
    if view.newest > view.batch:
        return Reason.BEHIND
    if view.full:
        return None
    if view.at_end:
        return Reason.END
    if view.grown:
        return Reason.GROWN
    if view.records >= rhythm.max_records or view.bytes >= rhythm.max_bytes:
        return Reason.FULL
    if view.records:
        return Reason.DUE if since_ms >= rhythm.interval_ms else None
    return Reason.IDLE if since_ms >= idle_cut_ms(view) else None


def wait_ms(view: SourceView, rhythm: Rhythm) -> float:
    """The time until a cut is due if no event comes before; math.inf while no cut is allowed."""
    if view.paused or view.final:
        return math.inf
    if view.too_far_ahead:
        return LOOK_MS
    if view.full:
        return FULL_LOOK_MS
    if view.grown:
        return 0.0
    limit = rhythm.interval_ms if view.records else idle_cut_ms(view)
    return max(0.0, limit - (view.now_ms - view.last_ms))
