"""A chain of units whose checkpoints follow the policies of the real workers: the kept state, and the duration of
captures.

Every unit sends its output on at once. An output is held until the unit that reads it has a checkpoint of its effects.
The paper's checkpoints include that output, Holdfast's the state alone, since outputs stay in their topics. Source:
MECHANISMS S1 to S4.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from bench.model.units import EVERY_MS, FULL_CAPTURE_MS
from holdfast.services.worker.checkpoint.policies.individual import Individual
from holdfast.services.worker.checkpoint.policies.policy import Policy
from holdfast.services.worker.checkpoint.policies.sweep import Sweep
from holdfast.services.worker.checkpoint.policies.synchronous import Synchronous

POLICIES: Mapping[str, type[Policy]] = {"sweep": Sweep, "synchronous": Synchronous, "individual": Individual}
UNITS, STEP_MS, INTERVAL_MS = 4, 1, 500
DELIVERY_MS, WRITE_MS = 2.0, 4.0
"""Time of a message to the next unit, and of a checkpoint until it is safe."""


@dataclass(slots=True)
class Seen:
    """A unit in the view of the three policies. Implements their part of UnitView."""

    sinkmost: bool
    captured_ms: float = 0.0
    output_trimmed: bool = False
    interval_ms: int = INTERVAL_MS
    batches: int = 1
    still: bool = False
    sparse: bool = False
    ended: bool = False

    @property
    def swept_ms(self) -> float:
        return self.captured_ms


@dataclass(frozen=True, slots=True)
class Captured:
    """A checkpoint.

    outputs: elements of its output without a reader's checkpoint.
    """

    unit: int
    at_ms: float
    state: int
    outputs: float

    @property
    def held(self) -> float:
        """Elements in it, as in the paper."""
        return self.state + self.outputs

    @property
    def took_ms(self) -> float:
        """Time for which the unit is suspended by it, at the paper's cost of an entry."""
        return EVERY_MS + self.held * FULL_CAPTURE_MS


@dataclass(slots=True)
class Chain:
    """A chain of units; `run` advances the time.

    rate_per_ms: elements a millisecond through every unit.
    state: elements of each unit.
    """

    policy: str
    rate_per_ms: float
    state: int
    seed: int
    captures: list[Captured] = field(default_factory=list)
    _units: list[Seen] = field(default_factory=list)
    _acked_ms: list[float] = field(default_factory=list)
    _under_way: list[tuple[float, int, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Timers of units begin at times of their own."""
        chance = random.Random(self.seed)
        self._units = [Seen(n == UNITS - 1, -chance.uniform(0, INTERVAL_MS)) for n in range(UNITS)]
        self._acked_ms = [0.0] * UNITS

    def run(self, seconds: float) -> Chain:
        policy = POLICIES[self.policy]()
        sights = {str(n): unit for n, unit in enumerate(self._units)}
        for now_ms in range(0, round(seconds * 1000), STEP_MS):
            self._deliver(now_ms)
            for n, unit in enumerate(self._units):
                if policy.wait_ms(str(n), sights, now_ms) <= 0.0:  # type: ignore[arg-type]
                    self._capture(n, unit, now_ms)
        return self

    def _capture(self, number: int, unit: Seen, now_ms: float) -> None:
        """Captures, and acknowledges the input so far; the sink's output goes to users, and is not held."""
        outputs = 0.0 if unit.sinkmost else self.rate_per_ms * (now_ms - self._acked_ms[number])
        made = Captured(number, now_ms, self.state, outputs)
        self.captures.append(made)
        unit.captured_ms, unit.output_trimmed = now_ms, False
        safe_ms = now_ms + made.took_ms + WRITE_MS + DELIVERY_MS
        self._under_way.append((safe_ms, number - 1, now_ms - DELIVERY_MS))

    def _deliver(self, now_ms: float) -> None:
        """Acknowledgements: of output of the unit before, up to what was sent at a time."""
        for one in [one for one in self._under_way if one[0] <= now_ms]:
            self._under_way.remove(one)
            _, writer, upto_ms = one
            if writer >= 0:
                self._acked_ms[writer] = max(self._acked_ms[writer], upto_ms)
                self._units[writer].output_trimmed = True
