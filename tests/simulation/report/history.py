"""A history: a scenario carried out, and the checkers' verdict on it.

While faults come nothing is expected but safety. Then everything is healed, and the job must become protected, run out
and end, each within a bound of simulated time.
"""

from __future__ import annotations

import gc
import logging
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from random import Random
from unittest import mock

import structlog

from holdfast.schemas import commands
from holdfast.schemas.assignments import generation_of, job_key
from holdfast.schemas.plans import Decision, Plan
from holdfast.schemas.topics import generation
from holdfast.services.controller import drafter
from holdfast.services.decisions.admitted import Admitted
from holdfast.services.recovery import replica
from tests.simulation.checks import forks, policies
from tests.simulation.checks.checkers import check
from tests.simulation.checks.incidents import watched
from tests.simulation.checks.limits import drawn_limits
from tests.simulation.faults.catalogue import KINDS
from tests.simulation.faults.fault import Fault
from tests.simulation.kafka.broker import decision_of
from tests.simulation.kafka.names import TOPICS, kind_of, profile_of
from tests.simulation.observers.formats import released
from tests.simulation.processes import budgets
from tests.simulation.processes.cluster import OTHERWISE, Cluster
from tests.simulation.processes.engine import describe
from tests.simulation.processes.feeds import Feed
from tests.simulation.processes.jobs import NAME
from tests.simulation.processes.updating import Person
from tests.simulation.report.coverage import observed
from tests.simulation.report.story import tell
from tests.simulation.scenario import Scenario

PROTECTED_WITHIN_MS = 12_000
RENEWED_WITHIN_MS = 25_000
OVER_WITHIN_MS = 5_000
"""The longest that anybody waits for workers, and a restore."""
ENDED_WITHIN_MS = 20_000
QUARANTINED_WITHIN_MS = 30_000
FOLLOWED_WITHIN_MS = 5_000
"""A batch may have to come first, which a job at rest has every four seconds."""
LOOK_MS = 100


@dataclass(slots=True)
class Outcome:
    """wrong: what broke, empty when all held. story: lines of what happened. taken: rows of transition tables.

    met: which fault met a copy, or a unit, in which state. cpu_s: of it all; checks_cpu_s: of it, to see what is wrong.
    """

    scenario: Scenario
    wrong: list[str] = field(default_factory=list)
    story: list[str] = field(default_factory=list)
    simulated_ms: int = 0
    cpu_s: float = 0.0
    checks_cpu_s: float = 0.0
    records: int = 0
    taken: Counter[str] = field(default_factory=Counter)
    met: Counter[str] = field(default_factory=Counter)

    @property
    def kind(self) -> str:
        """First violation, without the particulars."""
        return self.wrong[0].split(":")[0] if self.wrong else ""


class History:
    """Carries out one scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.unfollowed: list[str] = []
        self.cluster = Cluster(
            scenario.seed, scenario.job, scenario.workers, scenario.replicas, scenario.controllers, scenario.calm_ms,
            scenario.drivers,
        )  # fmt: skip
        self.person = Person(self.cluster)
        self.met: Counter[str] = Counter()
        self._made: list[Decision] = []
        self._generations: list[str] = []
        self._read = 0

    def run(self) -> None:
        """Until the job has ended, or something is wrong."""
        cluster, timeline = self.cluster, self.cluster.timeline
        cluster.submit(self.scenario.job.spec)
        for fed in self.scenario.feed:
            timeline.at(fed.at_ms * 1000, lambda fed=fed: self._feed(fed))  # type: ignore[misc]
        for fault in self.scenario.faults:
            timeline.at(fault.at_ms * 1000, lambda fault=fault: self._do(fault))  # type: ignore[misc]
        for change in self.scenario.changes:
            timeline.run(change.at_ms * 1000, cluster.wrong)
            if not cluster.wrong:
                self.person.update(change)
        timeline.run(self.scenario.run_ms * 1000, cluster.wrong)
        if not cluster.wrong:
            self._end()
        # The checkers read all partitions; a job that drained before may end while leaders are away.
        cluster.broker.find_leaders(list(cluster.broker.away))

    def _end(self) -> None:
        cluster = self.cluster
        cluster.heal()
        cluster.story.tell("all faults end")
        if cluster.deadly and not self._ended():
            if self._within(QUARANTINED_WITHIN_MS, self._quarantined, "in quarantine"):
                self._within(PROTECTED_WITHIN_MS, self._protected, "protected again")
            cluster.submit({"command": "cancel", "job": NAME})
        elif not self._ended() and self._within(PROTECTED_WITHIN_MS, self._protected, "protected again"):
            if not self._within(RENEWED_WITHIN_MS, lambda: not cluster.held, "done with what its user replaces"):
                return
            over = self._incidents_over
            if not over() and not self._within(OVER_WITHIN_MS, over, "over, and every unit runs", "incident open"):
                return
            changed = any(fault.kind == "policy" for fault in self.scenario.faults)
            if changed and not self._within(FOLLOWED_WITHIN_MS, self._followed, "followed by all", "policy"):
                return
            over = self._outages_over
            if not over() and not self._within(OVER_WITHIN_MS, over, "over for every unit", "outage open"):
                return
            follows = self._plans_followed
            if not follows() and not self._within(FOLLOWED_WITHIN_MS, follows, "followed by all units", "plan"):
                return
            self._lose_sources()
            cluster.submit({"command": "drain", "job": NAME})
        if not cluster.wrong:
            self._within(ENDED_WITHIN_MS, self._ended, "ended")

    def _lose_sources(self) -> None:
        """Takes away the leaders of some partitions that a drain asks about: it waits, and ends where they end."""
        random = Random(f"{self.scenario.seed}/drain")
        sources = [one for one in self.cluster.broker.partitions() if kind_of(one.topic) == "source"]
        away = random.sample(sources, random.randint(0, len(sources)))
        self.cluster.lose_leaders(away, random.randint(50, 1_500))

    def _within(self, ms: int, reached: object, what: str, kind: str = "liveness") -> bool:
        timeline = self.cluster.timeline
        until_us = timeline.now_us + ms * 1000
        while timeline.now_us < until_us and not self.cluster.wrong:
            timeline.run(timeline.now_us + LOOK_MS * 1000, self.cluster.wrong)
            if reached():  # type: ignore[operator]
                return True
        if not self.cluster.wrong:
            self.cluster.wrong.append(f"{kind}: not {what} {ms} ms after the last fault\n{self._stands()}")
        return False

    def _stands(self) -> str:
        lines = [
            f"  {worker.name} {copy.unit.rpartition('/')[2]}: {copy.state} epoch {copy.epoch} batch {copy.batch} "
            f"durable {copy.durable} {copy.error}"
            for worker in self.cluster.hosts()
            if worker.alive and worker.host is not None
            for copy in worker.host.copies()
        ]
        for process in self.cluster.replicas():
            if process.replica is not None:
                lines.append(f"  {process.name} unprotected: {process.replica.core.known.unprotected()}")
        return "\n".join([*lines, *self.unfollowed])

    def _feed(self, fed: Feed) -> None:
        self.cluster.feed(fed)

    def _do(self, fault: Fault) -> None:
        self.cluster.story.tell(f"FAULT {fault}")
        self.met.update({f"{fault.kind}: {state}" for state in self._states(fault)})
        KINDS[fault.kind](self.cluster, fault)

    def _states(self, fault: Fault) -> Iterator[str]:
        """States of the copies on its targets; of a fault without a target, of those on all workers."""
        for worker in self.cluster.workers():
            if worker.worker is not None and worker.alive and (worker.name in fault.target or not fault.target):
                yield from (f"copy {copy.state}" for copy in worker.worker.copies())

    # -- what is expected ---------------------------------------------------------------------------------------------

    def _admitted(self) -> tuple[Admitted, list[Plan]]:
        admitted, made = Admitted(), []
        self._read_on()
        for decision in self._made:
            if admitted.read(decision) and isinstance(decision, Plan):
                made.append(decision)
        return admitted, made

    def _protected(self) -> bool:
        """Every unit of every job is placed, and its copies are where its scheme wants them, if they have a place;
        those of one that stands by wait.
        """
        admitted, made = self._admitted()
        running = [plan for plan in made if admitted.ended(plan.generation) is None]
        if not made or (not running and not self._ended()):
            return False
        for one in (process.replica for process in self.cluster.replicas()):
            if one is None or not one.core.known.acting:
                return False
            exposed = {generation_of(unit) for unit in one.core.known.exposed()}
            if any((plan := admitted.plan(found)) is not None and not plan.stands_by for found in exposed):
                return False
            placed = one.core.known.assigned.units()
            wanted = {f"{plan.job}@{plan.generation}/{unit.name}" for plan in running for unit in plan.units}
            settled = {unit for unit, change in placed.items() if change.copies or change.deadly is not None}
            if not wanted <= settled:
                return False
        return True

    def _incidents_over(self) -> bool:
        """All that had failed is there again, and every replica says so."""
        replicas = [process.replica.core.known for process in self.cluster.replicas() if process.replica is not None]
        return not any(known.incidents.any_open(known.assigned) for known in replicas)

    def _outages_over(self) -> bool:
        """Every unit that was out has recovered, and every replica says so."""
        admitted, made = self._admitted()
        jobs = [job_key(plan.job, plan.generation) for plan in made if admitted.ended(plan.generation) is None]
        replicas = [process.replica.core.known for process in self.cluster.replicas() if process.replica is not None]
        return not any(known.assigned.out(job) for known in replicas for job in jobs)

    def _followed(self) -> bool:
        """Every copy follows the checkpoint policy that counts."""
        admitted, made = self._admitted()
        running = [plan for plan in made if admitted.ended(plan.generation) is None]
        workers = (one.worker for one in self.cluster.workers() if one.alive and one.worker is not None)
        copies = (copy.running for worker in workers for copy in worker._copies.here.values())
        here = [one.policy_view for one in copies if one is not None]
        self.unfollowed = policies.unfollowed(self.cluster.broker.written, running, here)
        return not self.unfollowed

    def _plans_followed(self) -> bool:
        """The units of jobs with a replication budget are as the newest plan says, whatever replica is asked."""
        admitted, made = self._admitted()
        self.unfollowed = []
        for known in (one.replica.core.known for one in self.cluster.replicas() if one.replica is not None):
            asked = known.asks.schemes
            for plan in made:
                if admitted.ended(plan.generation) is None and known.admitted.plan(plan.generation) is not None:
                    self.unfollowed += budgets.unfollowed(known.assigned, plan, asked)
        return not self.unfollowed

    def _quarantined(self) -> bool:
        """The unit that ends its workers has no copies any more, whatever replica is asked."""
        cores = [process.replica.core for process in self.cluster.replicas() if process.replica is not None]
        last = [core.known.assigned.of(unit) for core in cores for unit in self.cluster.deadly]
        return all(change is not None and change.deadly is not None for change in last)

    def _ended(self) -> bool:
        """Every job that was ever submitted is over; one that no controller has read is not, nor one on its way."""
        if self.cluster.asking:
            return False
        over = Admitted()
        self._read_on()
        for decision in self._made:
            over.read(decision)
        return all(over.ended(g) or over.rejection(g) for g in self._generations)

    def _read_on(self) -> None:
        """Reads decisions and submissions since the last call, every tenth of a second of a history."""
        written = self.cluster.broker.written
        for one in written[self._read :]:
            if one.partition.topic == TOPICS.submit and not isinstance(commands.decode(one.value), commands.Command):
                self._generations.append(generation(one.offset, one.time_ms, one.value))
            elif (decision := decision_of(one)) is not None:
                self._made.append(decision)
        self._read = len(written)


class simulated_clock:
    """Stands in for `time` where a process asks it for the time of day."""

    def __init__(self, cluster: Cluster) -> None:
        self._timeline = cluster.timeline

    def time(self) -> float:
        return self._timeline.time_ms / 1000


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Most of what a history makes is kept to its end: to look for garbage as often as usual takes a tenth of it."""
    before = gc.get_threshold()
    gc.set_threshold(200_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def simulate(scenario: Scenario, mutation: AbstractContextManager[object] | None = None) -> Outcome:
    """Carries out a scenario and checks it. mutation: open while the cluster runs, and closed when it is checked."""
    mutation = mutation or nullcontext()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    started = time.process_time()
    with released(profile_of(scenario.seed)):
        history = History(scenario)
    clock = mock.patch.object(replica, "time", simulated_clock(history.cluster))
    with drawn_limits(scenario.seed), seldom_collected(), released(profile_of(scenario.seed)):
        described = mock.patch.object(drafter, "Describer", return_value=describe)
        with (
            observed() as taken,
            watched() as plans,
            budgets.watched() as uncalm,
            forks.watched() as changed,
            clock,
            described,
            mutation,
        ):
            history.run()
        cluster = history.cluster
        outcome = Outcome(scenario, taken=taken, met=history.met)
        outcome.simulated_ms = cluster.timeline.now_ms
        checks_began = time.process_time()
        # First what is wrong in the logs, then what a process made of it, such as a copy that gave up.
        outcome.wrong = [
            *plans,
            *uncalm,
            *changed,
            *check(cluster),
            *(one for one in cluster.wrong if not one.startswith(OTHERWISE)),
        ]
        outcome.checks_cpu_s = time.process_time() - checks_began
    outcome.records = len(cluster.broker.written)
    outcome.story = tell(cluster)
    outcome.cpu_s = time.process_time() - started
    return outcome
