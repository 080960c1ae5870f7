"""A worker that captures whenever it is idle, on a clock without a machine: a policy meets loads and costs.

Source: MECHANISMS section 2, golden values. A capture takes its cost; then comes a burst, in which the worker processes
what has come meanwhile. Pastes at the backups take the time that a test says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from holdfast.services.kernel.protection import expected
from holdfast.services.kernel.protection.expected import Protected
from holdfast.services.worker.checkpoint.policies.policy import Kind
from holdfast.services.worker.checkpoint.scheduler import Scheduler

WORKER = "S1"
STEP_MS = 1.0


def burst_ms(capture_ms: float, load: float) -> float:
    """Time that a worker with this load takes to process what has come during a capture; at full load it never does."""
    return capture_ms * load / (1.0 - load) if load < 1.0 else math.inf


@dataclass
class Timed:
    """A unit of the worker, as a policy sees it. Implements UnitView. Its load and its costs do not change."""

    policy: str
    backup: str
    load: float
    capture_ms: float
    paste_ms: float
    now_ms: float = 0.0
    captured_ms: float = 0.0
    saved_ms: float = 0.0
    confirmed: bool = True
    min_interval_ms: int = 0
    max_interval_ms: int = 10**9
    merge_ms: float = 5.0
    interval_ms: int = 500
    every_batches: int = 10
    swept_ms: float = 0.0
    captured_batch: int = -1
    rests: bool = False
    batch: int = 1
    batches: int = 1
    still: bool = False
    sparse: bool = False
    changed: int = 1
    output_trimmed: bool = False
    sinkmost: bool = False
    ended: bool = False
    followed: bool = True
    leads: bool = True
    resting: bool = True
    capturing: bool = False
    apply_ms: float = 0.0
    primary: str = WORKER
    waiting: int = 0
    waiting_since_ms: float = math.inf
    data_wait: bool = False

    @property
    def replay_ms(self) -> float:
        return self.load * (self.now_ms - self.saved_ms)

    @property
    def gain_ms(self) -> float:
        return self.load * (self.now_ms - self.captured_ms)

    @property
    def protected(self) -> Protected:
        waiting = int(not self.confirmed)
        return Protected(
            self.primary, self.backup, self.load, self.replay_ms, self.gain_ms, self.capture_ms, self.paste_ms, waiting
        )


@dataclass
class Timeline:
    """pasting_ms: from the delivery of a capture to the end of its paste. story: captures as (unit, when it began)."""

    units: dict[str, Timed]
    pasting_ms: float = 0.0
    now_ms: float = 0.0
    story: list[tuple[str, float]] = field(default_factory=list)
    samples: list[tuple[float, dict[str, float]]] = field(default_factory=list)
    sample_ms: float = math.inf
    _scheduler: Scheduler = field(default_factory=Scheduler)
    _pasted_ms: dict[str, float] = field(default_factory=dict)
    _sampled: int = 0

    def __post_init__(self) -> None:
        for name, unit in self.units.items():
            self._scheduler.join(name, unit)

    def run(self, until_ms: float) -> None:
        while self.now_ms < until_ms:
            chosen = [name for name in self.units if self._scheduler.capture(name, self.now_ms) is not None]
            if chosen:
                self._capture(chosen[0])
            else:
                self._pass(STEP_MS)

    def expected_ms(self) -> dict[str, float]:
        """R_u of each unit, R_Qij as `<i><j>`, and R_Qi, now."""
        protected = {name: unit.protected for name, unit in self.units.items()}
        groups = expected.of_groups(protected.values())
        return (
            {name: expected.of_unit(unit) for name, unit in protected.items()}
            | {primary + backup: value for (primary, backup), value in groups.items()}
            | expected.of_workers(groups)
        )

    def _capture(self, name: str) -> None:
        unit, began_ms = self.units[name], self.now_ms
        self.story.append((name, began_ms))
        unit.captured_ms = began_ms
        self._scheduler.captured(name, (), Kind.SWEEP)
        unit.resting, unit.capturing = False, True
        self._pass(unit.capture_ms)
        unit.resting, unit.capturing = True, False
        unit.saved_ms = began_ms
        unit.confirmed = self.pasting_ms == 0.0
        self._pasted_ms[name] = self.now_ms + self.pasting_ms
        self._pass(burst_ms(unit.capture_ms, sum(one.load for one in self.units.values())))

    def _pass(self, ms: float) -> None:
        """Time passes; samples are taken in the middle of each sample_ms."""
        end_ms = self.now_ms + ms
        while (middle_ms := (self._sampled + 0.5) * self.sample_ms) < end_ms:
            self._at(middle_ms)
            self.samples.append((middle_ms, self.expected_ms()))
            self._sampled += 1
        self._at(end_ms)

    def _at(self, now_ms: float) -> None:
        self.now_ms = now_ms
        for name, unit in self.units.items():
            unit.now_ms = now_ms
            unit.confirmed = unit.confirmed or now_ms >= self._pasted_ms.get(name, 0.0)
