"""History of a cluster of a given age, written straight into its topics.

The topics have the snapshots that services would have written, and are trimmed as services would have trimmed them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bench.rig import jobs
from bench.rig.cluster import POLL_EVERY, BenchCluster, now_ms
from bench.rig.followed import DEADLINE_S
from holdfast.schemas import assignments, commands, plans
from holdfast.schemas.assignments import PRIMARY, Assignment, Change, Copy, Flags, Goal, job_key, unit_key
from holdfast.schemas.commands import Command
from holdfast.schemas.decided import Id
from holdfast.schemas.plans import Ended, Plan, Record, Retirement, Status
from holdfast.schemas.retired import Retired
from holdfast.schemas.topics import ClusterTopics, Partition, generation
from holdfast.services.controller.core.goals import RETIRE_AT
from holdfast.services.decisions.jobs import EVERY as JOBS_EVERY
from holdfast.services.decisions.jobs import MANY as JOBS_MANY
from holdfast.services.decisions.jobs import Jobs, Submissions
from holdfast.services.decisions.snapshots import Pace, Trims
from holdfast.services.decisions.standings import EVERY, MANY, Standings
from holdfast.services.planning.loader import load
from holdfast.services.planning.plan import make_plan

UNITS = 40
LONG_AGO_MS = 3_600_000
SAFE_S = 600.0
"""Time from reading a snapshot back to the trim to it, as HOLDFAST_TRIM_AFTER_S is by default."""
JOBS_A_HOUR, TAKEOVERS_A_HOUR, COMMANDS_A_HOUR = 4, 60, 20
_HOUR_US = 3_600_000_000
_SUSPENDED = Flags(state="synced", process=False, send=False, commit=False, checkpoint_target=True)


@dataclass(slots=True)
class Aged:
    """A cluster of that age: jobs come and end, workers fail, users send commands; one job runs all the time."""

    cluster: BenchCluster
    name: str
    hours: int
    _standings: Standings = field(default_factory=Standings)
    _jobs: Jobs = field(default_factory=Jobs)
    _submissions: Submissions = field(default_factory=Submissions)
    _trims: dict[str, Trims] = field(default_factory=dict)
    _upto: dict[Partition, int] = field(default_factory=dict)
    _before_ms: int = 0

    @property
    def topics(self) -> ClusterTopics:
        return ClusterTopics(self.name)

    def write(self) -> None:
        """Writes the history of the cluster. Raises Retriable."""
        self._before_ms = int(now_ms()) - LONG_AGO_MS
        self._trims = {one: Trims(round(SAFE_S * 1_000_000)) for one in ("assignments", "jobs")}
        self.cluster.log.create(self.topics.specs())
        paces = Pace(self.name, EVERY, MANY), Pace(self.name, JOBS_EVERY, JOBS_MANY)
        self._submit_job("stays")
        for hour in range(self.hours):
            self._live(hour, *paces)
        self.cluster.appender.flush(DEADLINE_S)
        for trims in self._trims.values():
            if (upto := trims.due((self.hours + 1) * _HOUR_US)) is not None:
                self.cluster.log.trim(upto)

    def sizes(self) -> dict[str, int]:
        """Records that are left, by topic."""
        wanted = {"assignments": self.topics.assignments, "plans": self.topics.plans, "submit": self.topics.submit}
        found = {}
        for kind, topic in wanted.items():
            where = [Partition(topic, 0)]
            starts, ends = self.cluster.log.offsets(where, "start"), self.cluster.log.offsets(where, "end")
            found[kind] = ends[where[0]] - starts[where[0]]
        return found

    # -- what happens -------------------------------------------------------------------------------------------------

    def _live(self, hour: int, pace: Pace, jobs_pace: Pace) -> None:
        for number in range(TAKEOVERS_A_HOUR):
            self._assign((takeover(hour * TAKEOVERS_A_HOUR + number, self._standings),))
        for _ in range(COMMANDS_A_HOUR):
            self._submit(commands.encode(Command("resume", "gone")))
        for number in range(JOBS_A_HOUR):
            self._end(self._submit_job(f"job-{number}"))
        if pace.due(self._standings.next, self._standings.snapshotted, len(self._standings)):
            snapshot = self._standings.snapshot()
            self._standings.check(self._standings.next, snapshot)
            self._trims["assignments"].agreed({Partition(self.topics.assignments, 0): snapshot.upto}, hour * _HOUR_US)
            self._append_assignment(Assignment("bench", 0, (), snapshot))
        self._root(hour, jobs_pace)

    def _root(self, hour: int, pace: Pace) -> None:
        submit = self._submissions.decided(self._jobs.known(), self._jobs.admitted.retired)
        if (retired := self._jobs.to_retire(submit)) is not None:
            for g, one in self._jobs.known().items():
                if retired.has(g):
                    self._append(Partition(self.topics.status, 0), None, job_key(one.job, g).encode())
            self._plan(Retirement(retired))
        if pace.due(self._jobs.next + self._submissions.next, self._jobs.snapshotted, len(self._jobs)):
            known = self._jobs.known()
            made = self._jobs.snapshot(submit, self._submissions.kept(submit, known), "bench", 0)
            upto = {Partition(self.topics.plans, 0): made.upto, Partition(self.topics.submit, 0): made.submit}
            self._trims["jobs"].agreed(upto, hour * _HOUR_US)
            self._submissions.agreed(made)
            self._plan(made)
            self._jobs.snapshotted = made.upto + made.submit

    def _submit_job(self, name: str) -> Plan:
        """Submits a job that is admitted."""
        spec = load(jobs.unprotected(jobs.COUNT.substitute(name=name, topic=name, tasks=2)), "bench")
        value = commands.encode(spec.as_plain())
        g = generation(self._submit(value), self._before_ms, value)
        plan = make_plan(
            spec, generation=g, id=Id("bench", self._jobs.next + 1), topics={name: 2, f"{name}-out": 2},
            first={name: {0: 0, 1: 0}}, prefix=self.name, versions={}, allow=[],
        )  # fmt: skip
        self._plan(plan)
        return plan

    def _end(self, plan: Plan) -> None:
        """Places and removes the units of a job, and ends the job."""
        keys = [unit_key(plan.job, plan.generation, unit.name) for unit in plan.units]
        run, stop = Goal(plan.job, plan.generation, "run"), Goal(plan.job, plan.generation, "stop", "cancelled", 10**9)
        self._append_assignment(Assignment("bench", 0, (), goals=(run,)))
        self._assign(tuple(Change(key, 1, takeover(0, self._standings).copies) for key in keys))
        self._submit(commands.encode(Command("cancel", plan.job)))
        self._append_assignment(Assignment("bench", 0, (), goals=(stop,)))
        self._assign(tuple(Change(key, 2) for key in keys))
        self._plan(Ended(plan.job, plan.generation, Id("bench", self._jobs.next + 1), plan.id, "cancelled"))
        if len(self._standings.generations()) > RETIRE_AT + 2:  # beside the job that stays, and the units above
            live = (g for g in self._jobs.admitted.running() if int(g.partition("-")[0]) < self._submissions.next)
            retired = Retired(self._submissions.next, tuple(sorted(live)))
            self._append_assignment(Assignment("bench", 0, (), retired=retired))
        status = Status(plan.job, plan.generation, "ended", self._before_ms)
        key = job_key(plan.job, plan.generation).encode()
        self._append(Partition(self.topics.status, 0), plans.encode(status), key)

    # -- what is written ----------------------------------------------------------------------------------------------

    def _assign(self, changes: tuple[assignments.Change, ...]) -> None:
        self._append_assignment(Assignment("bench", 0, changes))

    def _append_assignment(self, record: Assignment) -> None:
        self._append(Partition(self.topics.assignments, 0), assignments.encode(record))
        self._standings.read(self._standings.next, record)

    def _plan(self, record: Record) -> None:
        value = plans.encode(record)
        self._append(Partition(self.topics.plans, 0), value)
        self._jobs.read(self._jobs.next, self._before_ms, value)

    def _submit(self, value: bytes) -> int:
        offset = self._submissions.next
        self._append(Partition(self.topics.submit, 0), value)
        self._submissions.read(offset, self._before_ms, value)
        return offset

    def _append(self, where: Partition, value: bytes | None, key: bytes | None = None) -> None:
        self.cluster.appender.append(where, value, key=key, timestamp_ms=self._before_ms)
        self._upto[where] = self._upto.get(where, 0) + 1
        if self._upto[where] % POLL_EVERY == 0:
            self.cluster.appender.poll()


def takeover(number: int, standings: Standings) -> Change:
    """The next unit in turn is led by its other worker."""
    unit = unit_key("bench", "0-abcdef", f"count-{number % UNITS}")
    there = number // UNITS % 2
    copies = (Copy(f"worker-{1 + there}", "1", PRIMARY), Copy(f"worker-{2 - there}", "1", _SUSPENDED))
    return Change(unit, standings.assigned.epoch(unit) + 1, copies, "hybrid", "the primary is gone")
