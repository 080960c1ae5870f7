"""Interface of a checkpoint policy: its view of the units, and its answers.

Source: PROTOCOL 6 (when to capture is a policy), MECHANISMS S1 to S4, C3 and C6. A policy answers for the unit whose
turn it is and may look at all units of the worker. So a timer for each unit, one timer for all, and the best choice
among the units are the same interface.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from enum import Enum
from typing import Protocol

REST_MS = 8_000
"""A unit that has done only empty batches captures at this interval: they are few, quickly done again, and leave
little to trim. A sweep every 500 ms through units without data was half of what a worker at rest used, one
every 2 s a fifth."""


class Kind(Enum):
    """Kinds of runs that a capture begins."""

    SWEEP = "it is acknowledged at once, so that what lies before it can be trimmed"
    REFRESH = "it keeps a standby near; nobody waits for its acknowledgement"


class UnitView(Protocol):
    """A policy's view of one unit here. Every value is looked up when it is read: a policy pays for what it reads.
    Every value is looked up when it is read: a policy pays for what it reads.

    The job's settings: policy, interval_ms, min_interval_ms, max_interval_ms, merge_ms, every_batches.
    Time: swept_ms and captured_ms say when the last sweep and the last capture began.
    Batches: batch, the last one done; captured_batch, that of the last capture, -1 before the first one; sparse: only a
        few were done since the last sweep began, and nobody waits for room.
    rests: the job is paused, and no batch follows that one as long as it is.
    Since the last valid marker: batches done; still: no batch brought rows or changed the state.
    Since the last capture: changed, the keys that a run would hold; output_trimmed: the unit's output was trimmed.
    The unit: sinkmost: it has no output for other units; ended: nothing comes any more; followed: its checkpoints are
    for another copy, too; leads: this copy writes the checkpoints.
    Its runs: resting: one may begin; capturing: pieces of one are being written; confirmed: whoever holds the unit's
    image has applied the last one, or nobody does.
    Cost: capture_ms and apply_ms of the last run that was written, or applied, here; processed_ms spent on batches so
    far: the load between two moments is the difference.
    Expected recovery, as in services/kernel/protection: primary, backup, load, replay_ms, gain_ms, paste_ms.
    Now: waiting: runs of another copy that are to be applied; waiting_since_ms: when the oldest of them was read, if it
    can be applied now, or else math.inf; data_wait: a batch is ready to be processed.
    """

    @property
    def policy(self) -> str: ...
    @property
    def interval_ms(self) -> int: ...
    @property
    def min_interval_ms(self) -> int: ...
    @property
    def max_interval_ms(self) -> int: ...
    @property
    def merge_ms(self) -> float: ...
    @property
    def every_batches(self) -> int: ...
    @property
    def swept_ms(self) -> float: ...
    @property
    def captured_ms(self) -> float: ...
    @property
    def batch(self) -> int: ...
    @property
    def captured_batch(self) -> int: ...
    @property
    def rests(self) -> bool: ...
    @property
    def sparse(self) -> bool: ...
    @property
    def batches(self) -> int: ...
    @property
    def still(self) -> bool: ...
    @property
    def changed(self) -> int: ...
    @property
    def output_trimmed(self) -> bool: ...
    @property
    def sinkmost(self) -> bool: ...
    @property
    def ended(self) -> bool: ...
    @property
    def followed(self) -> bool: ...
    @property
    def leads(self) -> bool: ...
    @property
    def resting(self) -> bool: ...
    @property
    def capturing(self) -> bool: ...
    @property
    def confirmed(self) -> bool: ...
    @property
    def capture_ms(self) -> float: ...
    @property
    def apply_ms(self) -> float: ...
    @property
    def processed_ms(self) -> float: ...
    @property
    def primary(self) -> str: ...
    @property
    def backup(self) -> str: ...
    @property
    def load(self) -> float: ...
    @property
    def replay_ms(self) -> float: ...
    @property
    def gain_ms(self) -> float: ...
    @property
    def paste_ms(self) -> float: ...
    @property
    def waiting(self) -> int: ...
    @property
    def waiting_since_ms(self) -> float: ...
    @property
    def data_wait(self) -> bool: ...


class Policy(Protocol):
    """Times of captures of a unit. kind: of the runs that its captures begin.

    Of several policies the first whose time has come counts. A policy may remember what `captured` gives it, and what
    it has answered: it reads no clock, and the same calls give the same answers.
    """

    kind: Kind

    def wait_ms(self, unit: str, units: Mapping[str, UnitView], now_ms: float) -> float:
        """Time until the unit captures; 0: now. math.inf: not before there is news of this unit.

        Where the answer depends on other units, it is at most as long as a change of theirs may go unnoticed.
        """
        ...

    def applies(self, unit: str, units: Mapping[str, UnitView], now_ms: float) -> bool:
        """True if the unit may apply a piece of what is waiting now."""
        ...

    def holds(self, unit: str, units: Mapping[str, UnitView], now_ms: float) -> bool:
        """True if the next batch of the unit, which leads, waits for a capture."""
        ...

    def captured(self, unit: str, keys: Collection[bytes], kind: Kind) -> None:
        """The unit has begun a run of these keys, by whichever policy."""
        ...

    def forget(self, unit: str) -> None:
        """The unit has left the worker."""
        ...


class Stateless:
    """A policy that remembers nothing, applies runs as they come and holds no batch back."""

    kind = Kind.SWEEP

    def applies(self, unit: str, units: Mapping[str, UnitView], now_ms: float) -> bool:
        return True

    def holds(self, unit: str, units: Mapping[str, UnitView], now_ms: float) -> bool:
        return False

    def captured(self, unit: str, keys: Collection[bytes], kind: Kind) -> None:
        """The times that count are the unit's own."""

    def forget(self, unit: str) -> None:
        """Nothing is remembered."""


def rest_ms(sight: UnitView, now_ms: float) -> float:
    """Time for which a unit that has done only empty batches still need not capture; 0: it has done others."""
    return max(0.0, REST_MS - (now_ms - sight.captured_ms)) if sight.still else 0.0


def tick_wait_ms(sight: UnitView, now_ms: float) -> float:
    """Time until a timer that all units share makes the unit capture: it ticks at the multiples of interval_ms.

    A unit that has ended captures at once.
    """
    if sight.batches == 0:
        return math.inf
    if sight.ended:
        return 0.0
    tick_ms = now_ms - now_ms % sight.interval_ms
    until_ms = 0.0 if sight.captured_ms < tick_ms else tick_ms + sight.interval_ms - now_ms
    return max(until_ms, rest_ms(sight, now_ms))
