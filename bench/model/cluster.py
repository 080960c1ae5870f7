"""Workers that process, capture and paste, from one event to the next: driven by the policies of the real workers.

Data come first: a worker that has none waiting asks its checkpoint policy what to do. A capture defers data until it
ends, as in the paper, or gives way to them, as in our workers; a paste always gives way. Source: MECHANISMS C3 to C7.
Data are a fluid: a worker with load L that lets data wait for c milliseconds then needs c L / (1 - L) to catch up.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bench.model.loads import SLICE_MS, Load, added, constant
from bench.model.seen import Message, Seen, State
from bench.model.units import Unit, of
from holdfast.services.kernel.protection import expected
from holdfast.services.kernel.protection.reassigning import HALF, Backed, reassigned
from holdfast.services.worker.checkpoint.policies.catalogue import POLICIES
from holdfast.services.worker.checkpoint.policies.idle import Capture, Idle, Paste
from holdfast.services.worker.checkpoint.policies.idle_minmax import Credit, IdleMinMax
from holdfast.services.worker.checkpoint.policies.policy import Kind

LOOK_MS = 25.0
"""Milliseconds after which an idle worker chooses again, because the priorities change with time."""
TINY_MS = 1e-6


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the cluster.

    policy: a checkpoint policy that uses idle time.
    credit: how min-max compares captures with pastes (services/worker/checkpoint/policies/idle_minmax.py).
    defers: true if a capture holds data back until it ends.
    rebalance_ms: rebalance period; 0: standbys stay.
    share: share of a difference that moves in each rebalance period (C7).
    """

    policy: str
    credit: Credit = Credit.PASTE
    defers: bool = True
    min_interval_ms: int = 100
    rebalance_ms: float = 0.0
    share: float = HALF
    sample_ms: float = 250.0


@dataclass(frozen=True, slots=True)
class Sample:
    """State at one time: expected recovery by unit and by worker, and the longest wait of a tuple since the last
    sample.
    """

    at_ms: float
    units: Mapping[str, float]
    workers: Mapping[str, float]
    latency_ms: Mapping[str, float]


@dataclass(slots=True)
class Worker:
    """A worker of the model.

    backlog_ms: processing time of waiting data.
    capture, paste: work under way, with the remaining time.
    peak_ms: longest recent wait.
    """

    name: str
    load: Load
    speed: float = 1.0
    now_ms: float = 0.0
    backlog_ms: float = 0.0
    capture: str = ""
    capture_left_ms: float = 0.0
    captured_delta_ms: float = 0.0
    paste: Message | None = None
    due: int = 0
    peak_ms: float = 0.0

    def wait_ms(self, defers: bool) -> float:
        """Wait in milliseconds of a tuple that arrives now."""
        return (self.backlog_ms + (self.capture_left_ms if self.capture and defers else 0.0)) / self.speed

    def rate(self) -> float:
        """Share of the CPU that data leave."""
        return self.speed - self.load.at(self.now_ms)

    def advance(self, now_ms: float, defers: bool) -> None:
        """Time passes in which nothing begins or ends, and the load stays."""
        took_ms, rate = now_ms - self.now_ms, self.rate()
        if self.capture and defers:
            self.capture_left_ms -= took_ms * self.speed
            self.backlog_ms += took_ms * self.load.at(self.now_ms)
        elif self.backlog_ms > 0.0 or rate <= 0.0:
            self.backlog_ms = max(0.0, self.backlog_ms - took_ms * rate)
        elif self.capture:
            self.capture_left_ms -= took_ms * rate
        elif self.paste is not None:
            self.paste.left_ms -= took_ms * rate
        if self.backlog_ms <= TINY_MS:
            self.backlog_ms = 0.0
        self.now_ms = now_ms
        self.peak_ms = max(self.peak_ms, self.wait_ms(defers))

    def lasts_ms(self, defers: bool) -> float:
        """Time of the worker's present work; math.inf: until the load changes."""
        if self.capture and defers:
            return self.capture_left_ms / self.speed
        left_ms = self.backlog_ms
        if left_ms <= TINY_MS:
            left_ms = self.capture_left_ms if self.capture else self.paste.left_ms if self.paste else LOOK_MS
            if not self.capture and self.paste is None:
                return left_ms
        return left_ms / self.rate() if self.rate() > 0.0 else math.inf


@dataclass(slots=True)
class Cluster:
    """The cluster of the model.

    story: captures and pastes, in the order of their begin: (time, worker, text).

    Args:
        speeds: speeds of the workers whose CPU is not 1.
    """

    settings: Settings
    units: Sequence[Unit]
    workers: Sequence[str]
    speeds: Mapping[str, float] = field(default_factory=dict)
    now_ms: float = 0.0
    samples: list[Sample] = field(default_factory=list)
    story: list[tuple[float, str, Capture | Paste]] = field(default_factory=list)
    moves: int = 0
    _states: dict[str, State] = field(default_factory=dict)
    _led: dict[str, list[State]] = field(default_factory=dict)
    _held: dict[str, list[State]] = field(default_factory=dict)
    _hosts: dict[str, Worker] = field(default_factory=dict)
    _heap: list[tuple[float, int, str]] = field(default_factory=list)
    _policies: dict[str, Idle] = field(default_factory=dict)
    _period: dict[str, list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._states = {unit.name: State(unit, unit.backup) for unit in self.units}
        for name in self.workers:
            self._led[name] = [state for state in self._states.values() if state.unit.primary == name]
            self._held[name] = [state for state in self._states.values() if state.backup == name]
            loads = [unit.load for unit in of(self.units, name)]
            self._hosts[name] = Worker(name, added(loads) if loads else constant(0.0), self.speeds.get(name, 1.0))
            self._policies[name] = self._policy()
            heapq.heappush(self._heap, (0.0, 0, name))

    def _policy(self) -> Idle:
        if self.settings.policy == IdleMinMax.name:
            return IdleMinMax(self.settings.credit)
        policies = [policy for policy in POLICIES[self.settings.policy]() if isinstance(policy, Idle)]
        assert len(policies) == 1, f"{self.settings.policy} does not go by idle time"
        return policies[0]

    def run(self, until_ms: float) -> Cluster:
        """Events, slices of load, samples and rebalance periods, in the order of time."""
        while self.now_ms < until_ms:
            pauses = [self._next(SLICE_MS), self._next(self.settings.sample_ms), until_ms]
            stop_ms = min(pauses)
            while self._heap and self._heap[0][0] <= stop_ms:
                at_ms, due, name = heapq.heappop(self._heap)
                if due == self._hosts[name].due:
                    self._turn(self._hosts[name], at_ms)
            self.now_ms = stop_ms
            self._pause()
        return self

    def _next(self, every_ms: float) -> float:
        return (math.floor(self.now_ms / every_ms + TINY_MS) + 1) * every_ms

    def _pause(self) -> None:
        """Advances all workers to one time, samples them, and rebalances when it is due."""
        for host in self._hosts.values():
            self._turn(host, self.now_ms)
        if self._at(self.settings.sample_ms):
            self._sample()
        if self.settings.rebalance_ms and self._at(self.settings.rebalance_ms):
            self._reassign()

    def _at(self, every_ms: float) -> bool:
        return abs(self.now_ms / every_ms - round(self.now_ms / every_ms)) < TINY_MS

    # -- one worker ---------------------------------------------------------------------------------------------------

    def _turn(self, host: Worker, now_ms: float) -> None:
        """Advances a worker to this time, ends finished work, and begins the next work of an idle worker."""
        host.advance(now_ms, self.settings.defers)
        if host.capture and host.capture_left_ms <= TINY_MS:
            self._captured(host)
        if host.paste is not None and host.paste.left_ms <= TINY_MS:
            self._pasted(host)
        if host.backlog_ms <= TINY_MS and not host.capture and host.paste is None and host.rate() > 0.0:
            self._choose(host)
        self._schedule(host)

    def _schedule(self, host: Worker) -> None:
        host.due += 1
        lasts_ms = host.lasts_ms(self.settings.defers)
        if lasts_ms < math.inf:
            heapq.heappush(self._heap, (host.now_ms + lasts_ms, host.due, host.name))

    def _choose(self, host: Worker) -> None:
        chosen = self._policies[host.name].choose(self._seen(host), host.now_ms)
        if chosen is None:
            return
        self.story.append((host.now_ms, host.name, chosen))
        if isinstance(chosen, Capture):
            self._begin(host, self._states[chosen.unit])
        else:
            held = [state for state in self._held[host.name] if state.unit.primary == chosen.sender]
            messages = [message for state in held for message in state.pending]
            host.paste = min(messages, key=lambda message: message.sent_ms)

    def _seen(self, host: Worker) -> dict[str, Seen]:
        """The worker's own units, and images of peers that have sent messages to it: no choice depends on others."""
        now_ms, settings = host.now_ms, self.settings
        senders = {state.unit.primary for state in self._held[host.name] if state.pending}
        own = [(state, True) for state in self._led[host.name]]
        images = [(state, False) for state in self._held[host.name] if state.unit.primary in senders]
        return {
            state.unit.name: Seen(state, now_ms, settings.policy, leads, settings.min_interval_ms)
            for state, leads in own + images
        }

    # -- captures and pastes ------------------------------------------------------------------------------------------

    def _begin(self, host: Worker, state: State) -> None:
        host.capture, host.captured_delta_ms = state.unit.name, state.elapsed_ms(host.now_ms)
        host.capture_left_ms = state.unit.costs.capture_ms(host.captured_delta_ms)
        state.captured_ms, state.capturing = host.now_ms, True
        self._policies[host.name].captured(state.unit.name, (), Kind.SWEEP)
        host.peak_ms = max(host.peak_ms, host.wait_ms(self.settings.defers))

    def _captured(self, host: Worker) -> None:
        """Delivers the capture: the image is as new as its beginning once it is pasted."""
        state = self._states[host.capture]
        host.capture, state.capturing, state.saved_ms = "", False, state.captured_ms
        if state.moving:
            self._held[state.backup].remove(state)
            self._held[state.moving].append(state)
            state.backup, state.moving = state.moving, ""
        paste_ms = state.unit.costs.paste_ms(host.captured_delta_ms)
        backup = self._hosts[state.backup]
        if backup.speed < math.inf:
            state.pending.append(Message(state.unit.name, host.now_ms, paste_ms, paste_ms))

    def _pasted(self, host: Worker) -> None:
        message, host.paste = host.paste, None
        assert message is not None
        state = self._states[message.unit]
        state.pending.remove(message)
        state.upkeep_ms += message.paste_ms

    # -- over all workers ---------------------------------------------------------------------------------------------

    def _sample(self) -> None:
        modelled = {name: state.protected(self.now_ms) for name, state in self._states.items()}
        units = {name: expected.of_unit(one) for name, one in modelled.items()}
        workers = expected.of_workers(expected.of_groups(modelled.values()))
        latency = {name: host.peak_ms for name, host in self._hosts.items()}
        self.samples.append(Sample(self.now_ms, units, workers, latency))
        for host in self._hosts.values():
            host.peak_ms = host.wait_ms(self.settings.defers)
        for name, ms in units.items():
            self._period.setdefault(name, []).append(ms)

    def _reassign(self) -> None:
        """Moves standbys at the end of a rebalance period, except standbys that are already moving."""
        backed = [
            Backed(name, state.unit.primary, state.moving or state.backup, _mean(self._period[name]), state.upkeep_ms)
            for name, state in self._states.items()
        ]
        for move in reassigned(backed, self.workers, self.settings.share):
            self._states[move.unit].moving = move.to
            self.moves += 1
        self._period = {}
        for state in self._states.values():
            state.upkeep_ms = 0.0


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
