"""An adaptive unit whose state follows the packets of a real trace: its scheme is recovery's to choose.

The decisions come from the recovery core: detector, estimates, costs, choice, cool-down, and the steps from scheme to
scheme. The model has numbers for what copies measure. At any time it can say how long a takeover would really take:
from where the secondary really is, with phases drawn around their means. Source: MECHANISMS A1 to A5.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from bench.model.failover import BEAT_MS, GENERATION, STEP_MS, Failover, Hosted
from bench.model.loads import Load
from bench.model.machines import Machine
from holdfast.schemas.assignments import Change, unit_key
from holdfast.schemas.costs import Costs
from holdfast.schemas.decided import Id
from holdfast.schemas.heartbeats import Heartbeat
from holdfast.schemas.plans import Plan, UnitPlan
from holdfast.services.recovery.core.adaptive.costing import Usage, Work, usage
from holdfast.services.recovery.core.adaptive.estimating import STEPS, Facts, takeover
from holdfast.services.recovery.core.unit.facts.schemes import SCHEMES, Rung

UNIT = unit_key("job", GENERATION, "u")
WINDOW_MS = 40_000.0
RECORD_BYTES, ENTRY_BYTES, SWEPT = 130, 25, 1.0
"""Size of a packet as JSON, and of a key and a number of it in the state (W7, join); share that sweeps add to a run."""
PER_MS = 80.0
"""Records in a millisecond of processing (W7, join)."""
CAPTURE, APPLY = 0.11, 0.07
"""CPU of capturing and of applying a run, as shares of what processing its records took (W7, type 1, every 0.5 s)."""
READ_PER_MS, SEEK_MS = 5_000.0, 80.0
"""Bytes of a checkpoint log that a restore reads in a millisecond."""
DEPLOY_MS, SEND_MS, RECEIVE_MS, OPEN_MS = 1_000.0, 200.0, 300.0, 100.0
"""Golden values of MECHANISMS section 4; open_ms is this project's measurement."""
SPREAD = 0.2
"""Share around its mean within which the time of a phase is drawn evenly."""
LOG = (1.5, 4.0)
"""Size of a checkpoint log as a multiple of the state's; drawn at random."""
SLACK_MS = (5.0, 40.0)
COSTS_MS = 1_000


@dataclass(frozen=True, slots=True)
class Look:
    """State at one time.

    protected: true if the copies are placed as the scheme requires; a promise holds only then.
    takes_ms: duration of a takeover if the leader's worker failed now.
    used: use of resources by the secondary, see Usage.
    load: records a millisecond.
    """

    at_ms: int
    scheme: str
    protected: bool
    takes_ms: float
    used: Usage
    active: Usage
    state_bytes: float
    load: float


class Adapted(Failover):
    """A unit under adaptive schemes: `run` advances the time, and `look` returns the state.

    changes_ms: times at which recovery chose a scheme.

    Args:
        trace: records a second, one value for each second.
        promise_ms, weights, cool_down_s: settings of the job.
    """

    def __init__(
        self, trace: Sequence[float], promise_ms: float, weights: Mapping[str, float], seed: int, cool_down_s: float = 5
    ) -> None:
        self._load = Load(tuple(per_s / 1000 for per_s in trace))
        self._tolerance = {"recovery_time_ms": promise_ms, "weights": dict(weights), "cool_down_s": cool_down_s}
        self._measured: dict[str, dict[str, Any]] = {}
        self._draws = random.Random(seed)
        self.changes_ms: list[int] = []
        super().__init__(_machines(), {"u": "w1"}, "adaptive", seed)

    def _plan(self, placed: Mapping[str, str], scheme: str) -> Plan:
        units = tuple(UnitPlan(name, 0, (), 0, scheme, delivers=True) for name in placed)
        spec = {"fault_tolerance": self._tolerance}
        return Plan("job", GENERATION, Id("c", 1), spec, (), (), units, (), {}, STEP_MS, {})

    # -- measurements of copies ----------------------------------------------------------------------------------------

    def _place(self, change: Change) -> None:
        before, known = self._assigned_scheme, set(self.copies)
        super()._place(change)
        self._assigned_scheme = change.scheme
        if before and before != change.scheme:
            self.changes_ms.append(self.now_ms)
        for _, where in set(self.copies) - known:
            size = self.state_bytes * self._draws.uniform(*LOG) if self.now_ms else 0.0
            self._measured[where] = {
                "deploy_ms": self._drawn(DEPLOY_MS),
                "restore_ms": size / self._drawn(READ_PER_MS, 0.1) + self._drawn(SEEK_MS),
                "restore_bytes": round(size),
                "receive_ms": self._drawn(RECEIVE_MS),
                "open_ms": self._drawn(OPEN_MS),
                "send_ms": self._drawn(SEND_MS),
            }

    _assigned_scheme = ""

    def _beat(self, machine: Machine) -> Heartbeat:
        beat = super()._beat(machine)
        if self.now_ms % COSTS_MS >= BEAT_MS:
            return beat
        found = (copy for (_, where), copy in self.copies.items() if where == machine.name)
        return structs.replace(beat, costs=tuple(self._costs(machine.name, copy) for copy in found))

    def _costs(self, where: str, copy: Hosted) -> Costs:
        leads, done = copy.flags.commit, self._load.done_ms(copy.done * STEP_MS)
        runs = self.now_ms // 500
        work = {
            "inputs": {"s": (round(done), round(done * RECORD_BYTES))},
            "unsaved": round(self.unsaved),
            "processed": round(done),
            "process_ms": done / PER_MS,
            "cpu_ms": done / PER_MS,
            "captures": runs,
            "capture_ms": CAPTURE * done / PER_MS,
            "checkpoint_bytes": round(done * ENTRY_BYTES * (1 + SWEPT)),
            "state_bytes": round(self.state_bytes),
            "leads": True,
        }
        applied = {"applies": runs, "apply_ms": APPLY * done / PER_MS}
        return Costs(UNIT, **self._measured[where], **(work if leads else applied))

    def _drawn(self, mean: float, spread: float = SPREAD) -> float:
        return mean * self._draws.uniform(1 - spread, 1 + spread)

    # -- state --------------------------------------------------------------------------------------------------------

    @property
    def state_bytes(self) -> float:
        """Bytes of the state of a sliding window over the records so far."""
        return ENTRY_BYTES * (self._load.done_ms(self.now_ms) - self._load.done_ms(self.now_ms - WINDOW_MS))

    @property
    def unsaved(self) -> float:
        """Records since the newest checkpoint."""
        return self._load.done_ms(self.now_ms) - self._load.done_ms(self.units[UNIT].durable * STEP_MS)

    def look(self) -> Look:
        change = self._assigned.of(UNIT)
        assert change is not None
        rate = self._load.at(self.now_ms)
        work = Work(
            cpu=rate / PER_MS,
            applied=APPLY * rate / PER_MS,
            in_per_s=1000 * rate * RECORD_BYTES,
            run_per_s=1000 * rate * ENTRY_BYTES * (1 + SWEPT),
            state_bytes=self.state_bytes,
            held_bytes=self.unsaved * RECORD_BYTES,
        )
        used, active = (usage(rung, work) for rung in (self._rung(), Rung.ACTIVE))
        protected, takes_ms = UNIT not in self.core.known.unprotected(), self._takes_ms(change)
        return Look(self.now_ms, change.scheme, protected, takes_ms, used, active, self.state_bytes, rate)

    def _rung(self) -> Rung:
        """The actual rung of the secondary, whatever its flags request."""
        copy = next((copy for copy in self.copies.values() if not copy.flags.commit), None)
        if copy is None or copy.state == "deploying":
            return Rung.ABSENT
        if copy.state == "deployed":
            return Rung.EMPTY
        if copy.at_work:
            return Rung.ACTIVE if copy.flags.send else Rung.STANDBY
        return Rung.HOT if copy.flags.receive else Rung.COLD

    def _takes_ms(self, change: Change) -> float:
        """Real time of a takeover: a failure at any time between two heartbeats, and phases as they are drawn now."""
        leader, misses = change.committer, SCHEMES[change.scheme].misses
        assert leader is not None
        rung, rate = self._rung(), self._load.at(self.now_ms)
        if rung is Rung.ABSENT:
            misses = SCHEMES["passive"].misses
        assert misses is not None
        grace_ms = self.core.known.detector.grace_us(leader.worker) / 1000
        facts = Facts(
            checkpoint_bytes=self.state_bytes * self._draws.uniform(*LOG),
            read_per_ms=self._drawn(READ_PER_MS, 0.1),
            seek_ms=self._drawn(SEEK_MS),
            events=self.unsaved,
            lag_events=rate * STEP_MS * 2,
            rate_per_ms=rate,
            throughput_per_ms=PER_MS,
            deploy_ms=self._drawn(DEPLOY_MS),
            send_ms=self._drawn(SEND_MS) if STEPS[rung].send else 0.0,
            receive_ms=self._drawn(RECEIVE_MS),
            open_ms=self._drawn(OPEN_MS),
        )
        detection_ms = misses * BEAT_MS + grace_ms - self._draws.uniform(0, BEAT_MS)
        return takeover(rung, facts, detection_ms=detection_ms, slack_ms=self._draws.uniform(*SLACK_MS)).total


def _machines() -> list[Machine]:
    """Their heartbeats come on time, as they do where workers get their CPU."""
    return [Machine(f"w{n}", f"z{n}", 4, phase_ms=30.0 * n) for n in (1, 2, 3)]
