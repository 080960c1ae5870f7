"""Units of one job that all run on one worker, each worker with a share of a CPU: killed, watched, measured.

Each unit reads a topic of its own, counts by key, and gives out a row a batch with the time of its newest record. What
a recovery replica and `holdfast units --costs` would say is read from the topics.
"""

from __future__ import annotations

import os
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from string import Template
from typing import Any

import msgspec

from bench.failover.observer import Observer
from bench.research.papers.reported import Reported
from bench.research.papers.spending import MODULE as SPENDING
from bench.research.papers.spending import spared
from bench.rig.cluster import BenchCluster, folder_of_its_own, now_ms
from bench.rig.feeder import Feeder
from bench.rig.followed import DEADLINE_S, Followed
from bench.rig.quota import Quotas
from holdfast.schemas import commands, heartbeats
from holdfast.schemas.commands import Command
from holdfast.schemas.topics import Partition
from holdfast.services.audit.replay import replay
from holdfast.services.view.cluster import ClusterView
from holdfast.services.view.costs import JobCosts
from holdfast.services.view.lines import UnitLine

FIRST = "worker-1"
SETTLE_S = 180.0
LOOK_S = 0.05
PHASES = ("detection", "activation", "replay")
ASK_S = 15.0
"""Between two requests for a move that was not made."""
QUIET = {"HOLDFAST_BALANCE_CALM_S": "0", "HOLDFAST_REASSIGN": "off", "HOLDFAST_PLUGINS": SPENDING}
"""Settings under which units and standbys move only on request."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A unit.

    keys: number of keys of its records, in turn.
    spends: an operator of spending.py before the count.
    """

    rate_per_s: float
    keys: int
    spends: str = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """Setting of a crowd.

    share: share of a CPU for each worker.
    checkpoint: checkpoint settings of the job, as in its file.
    """

    pieces: Sequence[Piece]
    workers: int
    share: float
    checkpoint: Mapping[str, object]
    batch_interval_ms: int = 200


class _Row(msgspec.Struct):
    sent: int


def job(setting: Setting) -> Template:
    """$topic-<n> is read by unit n, $topic-<n>-out written."""
    fields = "{user: string, amount: int, at: timestamp}, event_time: at, unit: ms"
    sources, operators, queries, units = [], [], [], []
    for number, piece in enumerate(setting.pieces):
        sources.append(f"  e{number}: {{topic: $topic-{number}, fields: {fields}}}")
        passed = [f"e{number}", *([f"s{number}"] if piece.spends else [])]
        operators += [
            f'  {name}: {{python: "{SPENDING}:{piece.spends}", input: {before}}}' for before, name in pairwise(passed)
        ]
        count = '{n: "count()", sent: "max(amount)"}'
        operators.append(f"  c{number}: {{aggregate: {count}, key: [user], input: {passed[-1]}}}")
        operators.append(f'  l{number}: {{aggregate: {{sent: "max(sent)"}}, input: c{number}}}')
        queries.append(f"  q{number}: {{input: l{number}, sink: {{topic: $topic-{number}-out}}}}")
        units.append(f"[{', '.join(passed)}, c{number}, l{number}, q{number}]")
    lines = [
        "name: bench-$name",
        f"batch_interval_ms: {setting.batch_interval_ms}",
        "sources:",
        *sources,
        "operators:",
        *operators,
        "queries:",
        *queries,
        f"placement: {{spread_by: none, units: [{', '.join(units)}]}}",
        "fault_tolerance:",
        "  default: {scheme: none}",
        "  rebalance_period_s: 3600",
        f"  checkpoint: {_flow(setting.checkpoint)}",
    ]
    return Template("\n".join(lines) + "\n")


def _flow(values: Mapping[str, object]) -> str:
    return "{" + ", ".join(f"{name}: {value}" for name, value in values.items()) + "}"


@dataclass(frozen=True, slots=True)
class Recovered:
    """Recovery from one kill.

    phases_ms: detection, activation and replay of each unit.
    result_ms: from the kill until each unit has brought a result of a record sent after it.
    expected_ms: R_Qij just before it, by backup.
    backups: of the units.
    """

    phases_ms: Sequence[Mapping[str, float]]
    result_ms: float
    expected_ms: Mapping[str, float]
    backups: Sequence[str]

    @property
    def replays_ms(self) -> dict[str, float]:
        """R_Qij as measured, by backup: from the activation of its first unit until its last unit is restored. A backup
        works on its units in turns, so the activation of one unit is part of another's replay.
        """
        found = {}
        for backup in sorted(set(self.backups)):
            own = [one for one, home in zip(self.phases_ms, self.backups, strict=True) if home == backup]
            began_ms = min(one["activation"] for one in own)
            found[backup] = max(one["activation"] + one.get("replay", 0.0) for one in own) - began_ms
        return found

    @property
    def worker_ms(self) -> float:
        """Milliseconds from the kill until the last unit has repeated the former leader's progress."""
        return max(sum(phases.get(name, 0.0) for name in PHASES) for phases in self.phases_ms)

    def longest_ms(self, phase: str) -> float:
        return max(phases.get(phase, 0.0) for phases in self.phases_ms)


class Crowd:
    """A running job with many units.

    arrived: by topic, (arrival in ms, time of the newest record), in order.
    """

    def __init__(
        self,
        cluster: BenchCluster,
        followed: Followed,
        setting: Setting,
        topic: str,
        observer: Observer,
        feeder: Feeder,
    ) -> None:
        self._cluster = cluster
        self._job = followed
        self._setting = setting
        self._topic = topic
        self._observer = observer
        self._feeder = feeder
        self.view = ClusterView(cluster.topics)
        self.arrived: dict[str, list[tuple[float, int]]] = defaultdict(list)
        self._rows = msgspec.json.Decoder(_Row).decode
        topics = cluster.topics
        self._state = cluster.log.reader("crowd-state")
        decided = [Partition(name, 0) for name in (topics.plans, topics.assignments)]
        heard = cluster.log.offsets([Partition(topics.heartbeats, 0)], "end")
        self._state.assign({**dict.fromkeys(decided, 0), **heard})
        self._results = cluster.log.reader("crowd-results")
        self._results.assign({Partition(f"{topic}-{n}-out", 0): 0 for n in range(len(setting.pieces))})
        self.units = [unit.name for unit in followed.plan.units]
        self.reported = Reported(followed.plan.generation)

    def close(self) -> None:
        self._state.close()
        self._results.close()

    # -- reading ------------------------------------------------------------------------------------------------------

    def read(self) -> None:
        """Reads new records. Raises MeasureFailed if the job has failed."""
        for chunk in self._results.poll(LOOK_S):
            if chunk.messages:
                newest = self._rows(chunk.messages[-1].value() or b"").sent
                self.arrived[chunk.partition.topic].append((now_ms(), newest))
        for chunk in self._state.poll(0):
            for message in chunk.messages:
                self.view.read(chunk.partition.topic, message.value())
                if chunk.partition.topic == self._cluster.topics.heartbeats:
                    beat = heartbeats.decode(message.value() or b"")
                    if isinstance(beat, heartbeats.Heartbeat):
                        self.reported.read(beat)
        self._job.read(0)

    def watch(self, seconds: float, look: Callable[[], object] = lambda: None) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.read()
            look()

    def until(self, reached: Callable[[], bool], otherwise: str, seconds: float = SETTLE_S) -> None:
        def looked() -> bool:
            self.read()
            return reached()

        self._job.until(looked, otherwise, seconds)

    def costs(self) -> JobCosts:
        return self.view.costs(self._job.plan)

    def expected_ms(self) -> float:
        """R_Qi of the worker that leads the units; the worst if several do."""
        return max((one.expected_ms for one in self.costs().workers), default=0.0)

    # -- where units are ----------------------------------------------------------------------------------------------

    def leaders(self) -> dict[str, str]:
        return {line.unit: next((c.worker for c in line.copies if c.role == "primary"), "") for line in self._lines()}

    def backups(self) -> dict[str, str]:
        return {line.unit: next((c.worker for c in line.copies if c.role == "secondary"), "") for line in self._lines()}

    def _lines(self) -> list[UnitLine]:
        return self.view.units(self._job.plan)

    def gather(self, worker: str) -> None:
        """Moves all units to one worker. A move may be refused while that worker is starting: it is then repeated."""
        self.until(self._settled, "not every worker answers")
        asked_s = -ASK_S

        def gathered() -> bool:
            nonlocal asked_s
            away = [unit for unit, leader in self.leaders().items() if leader != worker]
            if away and time.monotonic() - asked_s >= ASK_S:
                asked_s = time.monotonic()
                for unit in away:
                    self._command(Command("move", self._job.plan.job, unit=unit, worker=worker))
            return not away

        self.until(gathered, f"not all units are on {worker}")
        self.until(self._settled, "not protected")

    def protect(self) -> None:
        self._schemes("hybrid")
        self.until(lambda: all(self.backups().values()), "not every unit has a standby")
        self.until(self._settled, "not protected")

    def _settled(self) -> bool:
        return self._observer.workers() == self._setting.workers and self._observer.protected()

    def _schemes(self, scheme: str) -> None:
        for unit in self.units:
            self._command(Command("scheme", self._job.plan.job, unit=unit, scheme=scheme))

    def again(self) -> str:
        """After a kill, moves all units to one worker, which is returned, with their standbys on all others. Nothing is
        fed meanwhile: two copies of each unit on a worker with a share of a CPU might never catch up.
        """
        self.until(self._settled, "not protected after a kill")
        if len(set(self.leaders().values())) > 1:
            with self._feeder.paused():
                self._schemes("none")
                self.until(lambda: not any(self.backups().values()), "standbys do not go")
                self.gather(FIRST)
                self.protect()
        return next(iter(self.leaders().values()))

    def limited(self) -> Quotas:
        """Each worker has its share of a CPU, from entering to leaving."""
        return Quotas(self._cluster.workers, self._setting.share)

    def policy(self, policy: str, interval: str, ms: int) -> None:
        """Sets another checkpoint policy for the job's units.

        interval: the setting of the policy that is set.
        """
        settings: dict[str, Any] = {interval: ms}
        self._command(Command("checkpoint", self._job.plan.job, policy=policy, **settings))

    def _command(self, command: Command) -> None:
        self._cluster.appender.append(Partition(self._cluster.topics.submit, 0), commands.encode(command))
        self._cluster.appender.flush(DEADLINE_S)

    # -- what is measured ---------------------------------------------------------------------------------------------

    def kill(self, worker: str) -> Recovered:
        """The worker that leads all units. Waits until each has brought a result of a record sent after the kill."""
        self.until(
            lambda: all(self.reported.current(worker, unit) for unit in self.units), "costs are older than markers"
        )
        signal_ms, backups = now_ms(), self.backups()
        expected_ms = self.reported.expected_ms(worker, backups, signal_ms)
        os.kill(self._cluster.workers()[worker], signal.SIGKILL)
        self.until(lambda: len(self._first_after(signal_ms)) == len(self.units), "no result comes")
        result_ms = max(self._first_after(signal_ms).values()) - signal_ms
        self.until(lambda: self._active_after(signal_ms) >= set(self.units), "not every unit says that it is active")
        phases = [self._phases(unit, signal_ms) for unit in self.units]
        return Recovered(phases, result_ms, expected_ms, [backups[unit] for unit in self.units])

    def _phases(self, unit: str, signal_ms: float) -> dict[str, float]:
        found: dict[str, float] = {}
        for event in self._job.events:
            if event.time_ms >= signal_ms and (event.job, event.unit) == (self._job.plan.job, unit):
                found |= event.phases_ms
        return found

    def _active_after(self, signal_ms: float) -> set[str]:
        """Units whose takeover is over, with its phases."""
        return {one.unit for one in self._job.events if one.kind == "unit-active" and one.time_ms >= signal_ms}

    def _first_after(self, signal_ms: float) -> dict[str, float]:
        found = {}
        for topic, seen in self.arrived.items():
            at = next((at_ms for at_ms, sent in seen if sent >= signal_ms), None)
            if at is not None:
                found[topic] = at
        return found

    def delays_ms(self, since_ms: float) -> list[float]:
        """Age of the newest record of each arrival, since a time."""
        return [at_ms - sent for seen in self.arrived.values() for at_ms, sent in seen if at_ms >= since_ms]

    def gaps_ms(self, since_ms: float) -> list[float]:
        """Between two results of a unit, since a time."""
        times = ([at_ms for at_ms, _ in seen if at_ms >= since_ms] for seen in self.arrived.values())
        return [after - before for one in times for before, after in pairwise(one)]

    def inexact(self) -> int:
        """Rows lost, duplicated or wrong so far."""
        with spared():
            rows = replay(self._cluster.log, self._cluster.topics, self._job.plan.job).rows
        return rows.lost + rows.duplicated + rows.wrong


@contextmanager
def crowd(setting: Setting, name: str, say: Callable[[str], None]) -> Iterator[Crowd]:
    """A cluster of its own with one job on it, each worker with its share of a CPU: see `crowded`."""
    with folder_of_its_own(say) as cluster:
        begin(cluster, setting)
        with crowded(cluster, setting, name) as made, made.limited():
            yield made


def begin(cluster: BenchCluster, setting: Setting) -> None:
    """Starts a cluster whose workers have room for all units, and as many standbys."""
    cluster.start(setting.workers, {**QUIET, "HOLDFAST_SLOTS": str(2 * len(setting.pieces))})


@contextmanager
def crowded(cluster: BenchCluster, setting: Setting, name: str) -> Iterator[Crowd]:
    """A job, fed, all its units on the first worker, each with a standby. No worker is limited yet."""
    with ExitStack() as stack:
        topic = f"bench-{name}"
        topics = [f"{topic}-{number}" for number in range(len(setting.pieces))]
        cluster.create(*topics)
        followed = stack.enter_context(cluster.running(job(setting), topic, name=name))
        followed.await_running()
        observer = stack.enter_context(Observer(cluster.log, cluster.topics))
        feeder = stack.enter_context(_fed(cluster, topics, setting.pieces))
        made = Crowd(cluster, followed, setting, topic, observer, feeder)
        stack.callback(made.close)
        made.gather(FIRST)
        made.protect()
        yield made


class Turns:
    """Assigns a unit and a key to each record: each unit gets all of its own keys, whatever the number of units. In
    each round a unit gets as many records as its rate is a multiple of the least.
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.least_per_s = min(piece.rate_per_s for piece in pieces)
        self._pieces = pieces
        times = [max(1, round(piece.rate_per_s / self.least_per_s)) for piece in pieces]
        self.units = [number for number, each in enumerate(times) for _ in range(each)]
        self._places = [(place, each) for each in times for place in range(each)]

    def key(self, index: int) -> int:
        """Key of the record with this number."""
        rounds, turn = divmod(index, len(self.units))
        place, times = self._places[turn]
        return (rounds * times + place) * 7919 % self._pieces[self.units[turn]].keys


def _fed(cluster: BenchCluster, topics: Sequence[str], pieces: Sequence[Piece]) -> Feeder:
    """A feeder of all units, in one thread."""
    turns = Turns(pieces)

    def record(index: int) -> bytes:
        at = int(now_ms())
        return b'{"user":"user-%d","amount":%d,"at":%d}' % (turns.key(index), at, at)

    homes = [Partition(topics[number], 0) for number in turns.units]
    return Feeder(cluster.users_appender("feeder"), homes, turns.least_per_s * len(turns.units), record)
