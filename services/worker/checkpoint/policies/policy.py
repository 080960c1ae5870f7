"""The interface of a checkpoint policy: its view of the units, and its answers.

Source: PROTOCOL 6 (when to capture is a policy), MECHANISMS S1 to S4, C3 and C6. A policy answers for one unit and may
read the views of all units of the worker. So a timer for each unit, one timer for all, and the best choice among the
units have the same interface.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from enum import Enum
from typing import Protocol

REST_MS = 8_000
"""Interval between captures of a unit with only empty batches. Such batches are few, quickly repeated, and leave little
to trim. On a worker at rest, a sweep every 500 ms through units without data used half of its CPU time, a sweep every 2
s a fifth."""


class Kind(Enum):
    """Kinds of runs that a capture begins."""

    SWEEP = "it is acknowledged at once, so that what lies before it can be trimmed"
    REFRESH = "it keeps a standby near; nobody waits for its acknowledgement"


class UnitView(Protocol):
    """A policy's view of one unit here. Every value is computed when it is read, so a policy pays only for values that
    it reads.

    Attributes:
        policy, interval_ms, min_interval_ms, max_interval_ms, merge_ms, every_batches: settings of the job.
        swept_ms: start of the last sweep.
        captured_ms: start of the last capture.
        batch: last batch that the unit has done.
        captured_batch: batch of the last capture; -1 before the first one.
        sparse: True if few batches were done since the last sweep began and no unit waits for room.
        rests: True if the job is paused and no batch follows this one until it resumes.
        batches: number of batches since the last valid marker.
        still: True if no batch since the last valid marker brought rows or changed the state.
        changed: number of keys that a run would hold.
        output_trimmed: True if the unit's output was trimmed since the last capture.
        sinkmost: True if the unit has no output for other units.
        ended: True if the unit's input has ended.
        followed: True if another copy applies the unit's checkpoints.
        leads: True if this copy writes the checkpoints.
        resting: True if a run may begin.
        capturing: True while pieces of a run are written.
        confirmed: True if the holder of the unit's image has applied the last run, or no copy holds an image.
        capture_ms, apply_ms: cost of the last run that was written or applied here.
        primary, backup, load, replay_ms, gain_ms, paste_ms: terms of expected recovery (services/kernel/protection).
        waiting: number of runs of another copy that wait to be applied.
        waiting_since_ms: arrival time of the oldest of them if it can be applied now, otherwise math.inf.
        data_wait: True if a batch is ready to be processed.
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
    """Decides when a unit captures. Of several policies, the first one that is due decides.

    A policy may remember its own answers and the arguments of `captured`. It reads no clock, so equal calls give equal
    answers.

    Attributes:
        kind: kind of the runs that its captures begin.
    """

    kind: Kind

    def wait_ms(self, unit: str, units: Mapping[str, UnitView], now_ms: float) -> float:
        """The time until the unit captures; 0 for now, math.inf if only an event of this unit can change that.

        If the answer depends on other units, it is at most the delay with which a change of these units may be noticed.
        """
        ...

    def applies(self, unit: str, units: Mapping[str, UnitView], now_ms: float) -> bool:
        """True if the unit may now apply a piece of a waiting run."""
        ...

    def holds(self, unit: str, units: Mapping[str, UnitView], now_ms: float) -> bool:
        """True if the next batch of the unit, whose leader is here, must wait for a capture."""
        ...

    def captured(self, unit: str, keys: Collection[bytes], kind: Kind) -> None:
        """Notes that the unit has begun a run of these keys, under any policy."""
        ...

    def forget(self, unit: str) -> None:
        """Notes that the unit has left the worker."""
        ...


class Stateless:
    """A policy without memory that applies runs on arrival and holds no batch back."""

    kind = Kind.SWEEP

    def applies(self, unit: str, units: Mapping[str, UnitView], now_ms: float) -> bool:
        return True

    def holds(self, unit: str, units: Mapping[str, UnitView], now_ms: float) -> bool:
        return False

    def captured(self, unit: str, keys: Collection[bytes], kind: Kind) -> None:
        """Does nothing: the unit's own view holds the times of its captures."""

    def forget(self, unit: str) -> None:
        """Does nothing."""


def rest_ms(view: UnitView, now_ms: float) -> float:
    """The time until a unit with only empty batches must capture, in milliseconds; 0 for a unit with other batches."""
    return max(0.0, REST_MS - (now_ms - view.captured_ms)) if view.still else 0.0


def tick_wait_ms(view: UnitView, now_ms: float) -> float:
    """The time until a timer shared by all units makes the unit capture. The timer ticks at the multiples of
    interval_ms.

    A unit that has ended captures at once.
    """
    if view.batches == 0:
        return math.inf
    if view.ended:
        return 0.0
    tick_ms = now_ms - now_ms % view.interval_ms
    until_ms = 0.0 if view.captured_ms < tick_ms else tick_ms + view.interval_ms - now_ms
    return max(until_ms, rest_ms(view, now_ms))
