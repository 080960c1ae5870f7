"""Turns of a replica of recovery, of 31 and of about a thousand units, while its planner of replicas works and else.

A turn is what the replica does between two moments at which it could take in a failure: one record, or what is due by
time. Workers are simulated: they report every copy at once as it is to be. The planner has its thread beside, as in a
cluster, so the time that passes includes its hold on the interpreter. Source: MECHANISMS P14.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import structlog
import yaml

from bench.rig import jobs
from bench.rig.cluster import BenchCluster
from bench.rig.figures import Figures, percentile
from bench.rig.followed import MeasureFailed
from bench.rig.plans import planned
from bench.rig.scale import Scale
from holdfast.schemas import assignments, formats, heartbeats, plans
from holdfast.schemas.assignments import PRIMARY, Assignment, Change, Copy, Goal, job_key, unit_key
from holdfast.schemas.costs import Costs
from holdfast.schemas.heartbeats import CopyState, Heartbeat
from holdfast.schemas.plans import Plan
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.schemas.topics import edge as edge_of
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.log.late.backlog import Backlog
from holdfast.services.log.memory import MemoryLog
from holdfast.services.process.collector import Collector
from holdfast.services.recovery.replica import ECHO_MS, Replica

LEVELS = {31: (16, 1), 1_022: (256, 2)}
"""Units of a job whose sources merge in pairs; the number of sources, and of trees."""
TREES = ("", "b")
"""Ends of the names of a tree."""
COPIES = 30
"""Copies on a worker, about."""
BEAT_MS, TURN_MS, COSTS_MS = 100, 10, 1_000
RECORDS_PER_S = 10_000
SETTLED_S = 40.0
"""Simulated seconds until the units follow the first plan, and rates are known."""
LEAST_S = 12.0
"""Time for two questions to the planner."""
MOST_MS = 20
GENERATION = "3-abcdef"


def turns(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Processor time and time that passes, of the longest turn and of 99 in 100, by number of units."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    figures: Figures = {}
    for units, (sources, trees) in LEVELS.items():
        fleet = Fleet(plan_of(sources, trees))
        if len(fleet.plan.units) != units:
            raise MeasureFailed(f"{len(fleet.plan.units)} units, not {units}")
        fleet.settle(SETTLED_S)
        every, planning = fleet.timed(max(LEAST_S, scale.rest_seconds))
        if not fleet.aside.asked:
            raise MeasureFailed(f"the planner was not asked about {units} units")
        found = every.figures(f"every_{units}") | (planning.figures(f"planning_{units}") if planning.spent_ms else {})
        cluster.say(f"  {units} units, {fleet.aside.asked} questions: {found}")
        figures |= found
    return figures


class Timed:
    """Turns of one kind: processor time of the replica's thread, and time that passed."""

    def __init__(self) -> None:
        self.spent_ms: list[float] = []
        self.passed_ms: list[float] = []

    def figures(self, name: str) -> Figures:
        return {
            f"{name}_turns": len(self.spent_ms),
            f"{name}_longest_cpu_ms": round(max(self.spent_ms), 2),
            f"{name}_p99_cpu_ms": round(percentile(self.spent_ms, 0.99), 2),
            f"{name}_longest_ms": round(max(self.passed_ms), 1),
            f"{name}_p99_ms": round(percentile(self.passed_ms, 0.99), 2),
        }


class Aside(ThreadPoolExecutor):
    """Thread of the planner.

    asked: number of questions.
    """

    def __init__(self) -> None:
        super().__init__(1, "planner")
        self.asked = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.asked += 1
        return super().submit(fn, *args, **kwargs)


class Fleet:
    """A replica on a log in memory, and workers that follow `assignments` at once."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.aside = Aside()
        self._collector = Collector()
        self._topics = ClusterTopics()
        self._now_us = 1_000_000
        self._batch = 1
        self._log = MemoryLog(lambda: self._now_us // 1000)
        self._log.create(self._topics.specs())
        names = ("heartbeats", "assignments", "plans", "submit", "events")
        self._nexts = {Partition(getattr(self._topics, name), 0): 0 for name in names}
        self._appender = self._log.appender("fleet")
        self._replica = Replica(
            "r",
            self._topics,
            self._log.appender("r"),
            Backlog.of(self._log, self._nexts),
            BEAT_MS,
            lambda: self._now_us,
            aside=self.aside,
        )
        self._assigned = Assigned()
        self._units = [unit_key(plan.job, plan.generation, unit.name) for unit in plan.units]
        self._workers = [f"w{number}" for number in range(max(4, len(self._units) // COPIES))]
        self._spent: tuple[Timed, ...] = ()
        tasks = {operator.name: operator.parallelism for operator in plan.operators}
        self._tasks = {unit.name: tasks[unit.operators[0]] for unit in plan.units}
        self._edges = {unit.name: edges_of(plan, unit.operators) for unit in plan.units}
        self._append("plans", plans.encode(plan))
        for number in range(len(self._workers)):
            self._append("heartbeats", heartbeats.encode(self._beat(number)))
        self._append("assignments", assignments.encode(self._first()))

    def settle(self, seconds: float) -> None:
        """Simulated time, as fast as it goes, but for the planner, which is waited for."""
        for _ in range(int(seconds * 1000 / TURN_MS)):
            self._step()
            while any(not one.done() for one in self._replica._thinking):
                time.sleep(0.001)
        if self._assigned.replication(job_key(self.plan.job, self.plan.generation)) is None:
            raise MeasureFailed("there is no replication plan")

    def timed(self, seconds: float) -> tuple[Timed, Timed]:
        """Times of all turns, and of those while the planner works, in real time."""
        self.aside.asked, every, planning = 0, Timed(), Timed()
        began_s, began_us = time.perf_counter(), self._now_us
        while (passed_s := time.perf_counter() - began_s) < seconds:
            ahead_s = (self._now_us - began_us) / 1_000_000 - passed_s
            if ahead_s > 0:
                time.sleep(ahead_s)
            works = any(not one.done() for one in self._replica._thinking)
            self._spent = (every, planning) if works else (every,)
            self._step()
        return every, planning

    def _step(self) -> None:
        """Feeds the records between two turns, and then turns."""
        self._now_us += TURN_MS * 1000
        now_ms = self._now_us // 1000
        if now_ms % ECHO_MS == 0:
            self._replica.echo()
        for number in range(len(self._workers)):
            if (now_ms + number * TURN_MS) % BEAT_MS == 0:
                self._append("heartbeats", heartbeats.encode(self._beat(number)))
        self._batch = now_ms // BEAT_MS
        self._read()
        with self._turn():
            self._replica.turn()
            self._collector.turned(True)
        self._read()

    def _read(self) -> None:
        for partition, start in self._nexts.items():
            for message in self._log.scan(partition, start):
                self._nexts[partition] = message.offset() + 1
                value = message.value() or b""
                if partition.topic == self._topics.assignments:
                    self._assigned.read(assignments.decode(value))
                with self._turn():
                    self._replica.read(partition, message.offset(), self._now_us // 1000, value)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        spent_ns, passed_s = time.thread_time_ns(), time.perf_counter()
        yield
        passed_ms, spent_ms = (time.perf_counter() - passed_s) * 1000, (time.thread_time_ns() - spent_ns) / 1_000_000
        for one in self._spent:
            one.passed_ms.append(passed_ms)
            one.spent_ms.append(spent_ms)

    # -- workers ------------------------------------------------------------------------------------------------------

    def _first(self) -> Assignment:
        """Every unit on a worker, alone."""
        changes = tuple(
            Change(unit, 1, (Copy(self._workers[at % len(self._workers)], "1", PRIMARY),), self.plan.units[at].scheme)
            for at, unit in enumerate(self._units)
        )
        goal = Goal(self.plan.job, self.plan.generation, "run")
        return Assignment("c", 1, changes, goals=(goal,), format=formats.NEWEST)

    def _beat(self, number: int) -> Heartbeat:
        """A heartbeat with the states of the worker's copies, and once a second their
        costs, from which rates follow.
        """
        worker, states, costs = self._workers[number], list[CopyState](), list[Costs]()
        for unit, change in self._assigned.units().items():
            for copy in change.copies:
                if copy.worker == worker:
                    state = {"virgin": "deployed", "synced": "synced"}.get(copy.flags.state, "running")
                    states.append(CopyState(unit, change.epoch, state, self._batch, durable=max(0, self._batch - 5)))
                    if copy.flags.commit and self._now_us // 1000 % COSTS_MS < BEAT_MS:
                        costs.append(self._costs(unit))
        return Heartbeat(
            worker,
            "1",
            self._now_us // 1000,
            zone=worker,
            slots=4 * COPIES,
            decided=self._nexts[Partition(self._topics.assignments, 0)] - 1,
            copies=tuple(states),
            costs=tuple(costs),
            reads=formats.NEWEST,
        )

    def _costs(self, unit: str) -> Costs:
        """Every record of a source passes all units below it."""
        name = unit.rpartition("/")[2]
        records = self._now_us * RECORDS_PER_S // 1_000_000 // self._tasks[name]
        ins, outs = self._edges[name]
        return Costs(
            unit, leads=True, inputs=dict.fromkeys(ins, (records, records)), outputs=dict.fromkeys(outs, records)
        )

    def _append(self, topic: str, value: bytes) -> None:
        self._appender.append(Partition(getattr(self._topics, topic), 0), value)


def edges_of(plan: Plan, operators: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Names under which a unit with these operators counts its inputs and outputs."""
    between = [(one, edge_of(one.topic)) for one in plan.edges if one.topic is not None]
    ins = [name for one, name in between if one.consumer in operators]
    outs = [name for one, name in between if one.producer in operators]
    sinks = [one.name for one in plan.operators if one.name in operators and one.kind == "sink"]
    return ins, outs + sinks


def _of_tree(one: dict[str, Any], tree: str) -> dict[str, Any]:
    """A source, operator or query that belongs to a tree."""
    found = {**one, **({"input": f"{one['input']}{tree}"} if "input" in one else {})}
    if "topic" in one:
        found["topic"] = f"{one['topic']}{tree}"
    return found | ({"sink": {"topic": f"{one['sink']['topic']}{tree}"}} if "sink" in one else {})


def plan_of(sources: int, trees: int = 1) -> Plan:
    """Plan of a job whose sources merge in pairs, in a number of trees."""
    text = jobs.merging(sources).substitute(name="turns", topic="turns", interval_ms=1_000)
    job = yaml.safe_load(text)
    for kind in ("sources", "operators", "queries"):
        job[kind] = {f"{name}{tree}": _of_tree(one, tree) for tree in TREES[:trees] for name, one in job[kind].items()}
    return planned(yaml.safe_dump(job), "turns.yaml", GENERATION, ClusterTopics())
