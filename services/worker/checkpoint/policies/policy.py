"""What a checkpoint policy sees, and what it answers.

Source: PROTOCOL 6 (when to capture is a policy), MECHANISMS S1 to S4, C3 and C6. A policy answers for the unit whose
turn it is and may look at all units of the worker. So a timer for each unit, one timer for all, and the best choice
among the units are the same interface.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import Protocol


class Kind(Enum):
    """What kind of run a capture begins."""

    SWEEP = "it is acknowledged at once, so that what lies before it can be trimmed"
    REFRESH = "it keeps a standby near; nobody waits for its acknowledgement"


class Sight(Protocol):
    """What a policy sees of one unit here. Every value is looked up when it is read: a policy pays for what it reads.

    Time: interval_ms is the job's; swept_ms and captured_ms say when the last sweep and the last capture began.
    Since the last valid marker: batches done; still: no batch brought rows or changed the state.
    Since the last capture: changed, the keys that a run would hold; output_trimmed: the unit's output was trimmed.
    The unit: sinkmost: it has no output for other units; ended: nothing comes any more; followed: its checkpoints are
    for another copy, too.
    Cost: capture_ms and apply_ms of the last run that was written, or applied, here; processed_ms spent on batches so
    far: the load between two moments is the difference.
    Now: waiting: runs of another copy that are to be applied; data_wait: a batch is ready to be processed.
    """

    @property
    def interval_ms(self) -> int: ...
    @property
    def swept_ms(self) -> float: ...
    @property
    def captured_ms(self) -> float: ...
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
    def capture_ms(self) -> float: ...
    @property
    def apply_ms(self) -> float: ...
    @property
    def processed_ms(self) -> float: ...
    @property
    def waiting(self) -> int: ...
    @property
    def data_wait(self) -> bool: ...


class Policy(Protocol):
    """When a unit captures. kind: what its captures begin.

    Of several policies the first whose time has come counts. A policy may remember what `captured` gives it, and
    nothing else: it reads no clock, and the same calls give the same answers.
    """

    kind: Kind

    def wait_ms(self, unit: str, units: Mapping[str, Sight], now_ms: float) -> float:
        """How long until the unit captures; 0: now. math.inf: not before there is news of this unit.

        Where the answer depends on other units, it is at most as long as a change of theirs may go unnoticed.
        """
        ...

    def applies(self, unit: str, units: Mapping[str, Sight], now_ms: float) -> bool:
        """Whether the unit may apply a piece of what is waiting now."""
        ...

    def captured(self, unit: str, keys: Collection[bytes], kind: Kind) -> None:
        """The unit has begun a run of these keys, by whichever policy."""
        ...

    def forget(self, unit: str) -> None:
        """The unit has left the worker."""
        ...
