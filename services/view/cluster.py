"""The view of a cluster: jobs, units and workers, folded from its topics for people, without changes to the cluster.

`--json` prints the structs of this package. Source: JOBS "Details that scripts rely on".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import msgspec
from msgspec.structs import asdict

from holdfast.schemas import assignments, heartbeats, plans
from holdfast.schemas import progress as progresses
from holdfast.schemas.assignments import Change, CheckpointPolicy, ReplicationPlan, job_key, unit_key
from holdfast.schemas.cuts import END_WATERMARK, LOADED_WATERMARK, NO_WATERMARK
from holdfast.schemas.heartbeats import Heartbeat
from holdfast.schemas.incidents import Incident
from holdfast.schemas.leaps import Leap
from holdfast.schemas.plans import Counts, Plan, Status, UnitPlan
from holdfast.schemas.progress import Progress
from holdfast.schemas.topics import ClusterTopics
from holdfast.services.decisions.admitted import Admitted
from holdfast.services.decisions.admitted import decode as decode_decision
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.decisions.policies import ALIGNED, READ, in_force
from holdfast.services.decisions.sums import behind, counted, summed
from holdfast.services.kernel.fidelity.of_job import Rates
from holdfast.services.kernel.plans.layout import task_name
from holdfast.services.kernel.versions import differences
from holdfast.services.view.costs import CostsView, JobCosts
from holdfast.services.view.lines import (
    CopyLine,
    JobLine,
    JobStatus,
    PolicyLine,
    UnitLine,
    UnitProgress,
    WorkerLine,
)
from holdfast.services.view.losses import once_each
from holdfast.services.view.protection import unprotected
from holdfast.services.view.trial import trial_of
from holdfast.services.view.unserved import unserved
from holdfast.services.view.workers import Workers

OVER = ("ended", "rejected")
_GENERATION = re.compile(r"[0-9]{1,18}-[0-9a-f]+")
UP = ("running", "ended")
"""States of a copy that serves its unit; an error in its heartbeat is then the outcome of its last attempt."""


class ClusterView:
    """Folds records as they are read; a record that cannot be decoded is skipped.

    refused: number of skipped records, by topic.
    """

    def __init__(self, topics: ClusterTopics) -> None:
        self._topics = topics
        self._admitted = Admitted()
        self._assigned = Assigned()
        self._plans: dict[str, Plan] = {}
        self._statuses: dict[str, Status] = {}
        self._since: dict[str, dict[str, int]] = {}
        self._workers = Workers()
        self._progress: dict[tuple[str, str], Progress] = {}
        self._costs = CostsView()
        self.refused: Counter[str] = Counter()
        self._folds = {
            topics.plans: self._read_decision,
            topics.status: self._read_status,
            topics.assignments: lambda value: self._assigned.read(assignments.decode(value)),
            topics.heartbeats: self._read_heartbeat,
        }

    # -- input --------------------------------------------------------------------------------------------------------

    def begin(self, assigned: Assigned) -> None:
        """Sets the copies of each unit; later records of `assignments` change them."""
        self._assigned = assigned

    def begin_jobs(self, admitted: Admitted) -> None:
        """Sets the decisions on jobs; later records of `jobs.plans` change them."""
        self._admitted = admitted
        self._plans = admitted.plans()

    def read(self, topic: str, value: bytes | None) -> None:
        """Folds a record of one of the cluster's topics."""
        if value is None and topic == self._topics.status:
            return  # the deletion of a retired job's status
        try:
            self._folds[topic](value or b"")
        except msgspec.DecodeError:  # the services skip the record, too, and report it
            self.refused[topic] += 1

    def read_progress(self, generation: str, value: bytes | None) -> None:
        try:
            record = progresses.decode(value or b"")
        except msgspec.DecodeError:
            self.refused["progress"] += 1
            return
        known = self._progress.get((generation, record.unit))
        if known is None or not behind(record, known):
            self._progress[generation, record.unit] = record

    def _read_decision(self, value: bytes) -> None:
        decision = decode_decision(value)
        if self._admitted.read(decision) and isinstance(decision, Plan):
            self._plans[decision.generation] = decision

    def _read_status(self, value: bytes) -> None:
        status = plans.decode_status(value)
        if _GENERATION.fullmatch(status.generation) is None:
            raise msgspec.ValidationError(f"{status.generation!r} is no generation")
        if status.since_ms:
            self._since[status.generation] = {status.state: status.since_ms}
        else:  # a controller that began later has no time
            since_ms = self._since.get(status.generation, {}).get(status.state, 0)
            status = msgspec.structs.replace(status, since_ms=since_ms)
        self._statuses[status.generation] = status

    def _read_heartbeat(self, value: bytes) -> None:
        record = heartbeats.decode(value)
        self._workers.read(record)
        if isinstance(record, Heartbeat):
            self._costs.read(record)

    # -- jobs ---------------------------------------------------------------------------------------------------------

    def jobs(self) -> list[JobLine]:
        """Every generation of every job, in the order of submission."""
        statuses = (g for g in self._statuses if not self._admitted.retired.has(g))
        known = {**dict.fromkeys(self._plans), **dict.fromkeys(statuses)}
        return [self._job(generation) for generation in sorted(known, key=_number)]

    def find(self, name: str) -> JobLine | None:
        """The newest generation of a job of that name that is not rejected and does not stand by, else the newest.

        `name@generation` names one generation. None: there is no such job.
        """
        named, _, generation = name.partition("@")
        found = [job for job in self.jobs() if job.job == named and generation in ("", job.generation)]
        if not generation:
            found = [job for job in found if not self._stands_by(job.generation)] or found
        return next((job for job in reversed(found) if job.state != "rejected"), found[-1] if found else None)

    def _stands_by(self, generation: str) -> bool:
        plan = self._plans.get(generation)
        return plan is not None and plan.stands_by

    def plan(self, generation: str) -> Plan | None:
        """The plan of a generation, also of a job that has ended; None if there is none."""
        return self._plans.get(generation)

    def shared_sinks(self, generation: str) -> dict[str, list[str]]:
        """Topics that both this job and others that have not ended write to: the names of the other jobs, by topic."""
        plan = self._plans.get(generation)
        own = _sink_topics(plan) if plan is not None else set()
        shared: dict[str, list[str]] = {}
        for other in self.jobs():
            written = self._plans.get(other.generation)
            if written is not None and other.generation != generation and other.state not in OVER:
                for topic in sorted(own & _sink_topics(written)):
                    shared.setdefault(topic, []).append(other.job)
        return shared

    def _job(self, generation: str) -> JobLine:
        plan, status = self._plans.get(generation), self._statuses.get(generation)
        ended = self._admitted.ended(generation) is not None
        if status is None:
            assert plan is not None
            return JobLine(plan.job, generation, "ended" if ended else "accepted", len(plan.units), available=0)
        return JobLine(
            status.job,
            generation,
            "ended" if ended else status.state,
            len(plan.units) if plan is not None else status.units,
            available=0 if ended else status.available,
            error=status.error,
            warnings=status.warnings or (plan.warnings if plan is not None else ()),
            problems=tuple(map(asdict, status.problems)),
            since_ms=0 if ended and status.state != "ended" else status.since_ms,
        )

    def status(self, job: JobLine, now_ms: int) -> JobStatus:
        """Progress of a job, unit by unit."""
        plan = self._plans.get(job.generation)
        counts = self._counts(job.generation, plan)
        known = None if job.state in OVER else self._statuses.get(job.generation)
        units = [] if plan is None or job.state in OVER else [self._unit(plan, unit, now_ms) for unit in plan.units]
        key = job_key(job.job, job.generation)
        out = {} if job.state in OVER else self._assigned.out(key)
        return JobStatus(
            job=job.job,
            generation=job.generation,
            state=job.state,
            available=job.available,
            error=job.error,
            since_ms=job.since_ms,
            warnings=job.warnings,
            problems=job.problems,
            units=tuple(units),
            refused=self._refused_of(job),
            unserved=() if plan is None or job.state in OVER else self._unserved(plan, now_ms),
            unprotected=self.unprotected(job, now_ms),
            skipped=sum(map(len, self._admitted.skipped(job.generation).values())),
            **asdict(counts) | {"late_dropped": once_each(counts.late_dropped).by_source},
            late_by_stream=counts.late_dropped,
            queries=() if known is None else known.queries,
            out=tuple(sorted(out)),
            fidelity=self._assigned.fidelity(key) if out else {},
            tentative={} if plan is None or job.state in OVER else self._costs.tentative(plan, self._changes(plan)),
            corrected={} if plan is None or job.state in OVER else self._costs.corrected(plan, self._changes(plan)),
            retention=() if plan is None or job.state in OVER else self.retention(plan),
            trial=None if plan is None else trial_of(plan, (unit.processed for unit in units)),
            checkpoint=None if plan is None else policy_line(self.policy(plan), self.complete(plan)),
        )

    def _unserved(self, plan: Plan, now_ms: int) -> tuple[str, ...]:
        return unserved(plan, self._assigned.units(), self._workers.alive(now_ms))

    def unprotected(self, job: JobLine, now_ms: int) -> dict[str, tuple[str, ...]]:
        """Units of a job that run without a standby, by the reason (services/view/protection.py)."""
        plan = self._plans.get(job.generation)
        if plan is None or job.state in OVER:
            return {}
        return unprotected(plan, self._assigned.units(), self._workers.alive(now_ms))

    def _refused_of(self, job: JobLine) -> dict[str, int]:
        """Refused records of the job's topics and of the cluster's, by topic."""
        shared = {spec.name for spec in self._topics.specs()}
        root = f"{self._topics.prefix}.{job.job}.{job.generation}."
        found = self._workers.refused().items()
        return {topic: count for topic, count in sorted(found) if topic in shared or topic.startswith(root)}

    def late_dropped(self, plan: Plan) -> dict[str, int]:
        """Records dropped as late, by stream (services/view/losses.py); also of a job that has ended."""
        return self._counts(plan.generation, plan).late_dropped

    def leap(self, plan: Plan) -> Leap | None:
        """The record that moved the watermark of a source furthest, also of a job that has ended; None if none stands
        out.
        """
        return self._counts(plan.generation, plan).leap

    def _counts(self, generation: str, plan: Plan | None) -> Counts:
        """Counts from the job's end record, else from its units, else from its last status, because its topics may be
        deleted.
        """
        if (end := self._admitted.ended(generation)) is not None:
            return counted(end)
        units = () if plan is None else plan.units
        known = [one for unit in units if (one := self._progress.get((generation, unit.name))) is not None]
        status = self._statuses.get(generation)
        return summed(known) if known or status is None else counted(status)

    def _unit(self, plan: Plan, unit: UnitPlan, now_ms: int) -> UnitProgress:
        progress = self._progress.get((plan.generation, unit.name), Progress(unit.name, 0, 0))
        change = self._assigned.of(unit_key(plan.job, plan.generation, unit.name))
        copies = self._copies(change, progress)
        primary = next((copy for copy in copies if copy.role == "primary"), None)
        deadly = None if change is None else change.deadly
        return UnitProgress(
            unit=unit.name,
            worker="" if primary is None else primary.worker,
            state=self._workers.state(primary, now_ms)
            if primary is not None
            else "quarantined"
            if deadly
            else "unplaced",
            processed=progress.processed,
            acked=progress.acked,
            watermark=_time(progress.watermark),
            records=progress.records,
            late=progress.late,
            dead=progress.dead,
            lost=progress.lost,
            ended=progress.ended,
            late_dropped=progress.late_dropped,
            versions="" if change is None else _versions(change),
            error=str(deadly or "") if primary is None else "" if primary.state in UP else primary.error,
        )

    # -- units and workers --------------------------------------------------------------------------------------------

    def policy(self, plan: Plan) -> CheckpointPolicy:
        """Checkpoint policy of the units of a job."""
        return in_force(plan, self._assigned)

    def complete(self, plan: Plan) -> int:
        """Batch of the newest global checkpoint: services/decisions/assigned.py."""
        return self._assigned.complete(job_key(plan.job, plan.generation))

    def incident(self, plan: Plan) -> Incident | None:
        """The last record of an incident of the job; the incident may be over."""
        return self._assigned.incident(job_key(plan.job, plan.generation))

    def retention(self, plan: Plan) -> tuple[str, ...]:
        """Users' topics that may delete records that a recovery would read again, reported by the leaders that read
        them.
        """
        changes = (self._assigned.of(unit_key(plan.job, plan.generation, unit.name)) for unit in plan.units)
        leaders = ((one.unit, one.committer) for one in changes if one is not None)
        risks = (self._workers.reported(c.worker, c.incarnation, unit).risk for unit, c in leaders if c is not None)
        return tuple(dict.fromkeys(risk for risk in risks if risk))

    def ended(self, key: str) -> bool:
        """True if a copy of the unit reports its end."""
        return self._workers.ended(key)

    def change(self, key: str) -> Change | None:
        """The last valid change of a unit."""
        return self._assigned.of(key)

    def units(self, plan: Plan) -> list[UnitLine]:
        """Copies of the units of a job."""
        return [self._unit_line(plan, unit) for unit in plan.units]

    def costs(self, plan: Plan) -> JobCosts:
        """Costs of the copies of a job, and traffic along its edges."""
        return self._costs.job(plan, self._changes(plan))

    def replication(self, plan: Plan) -> ReplicationPlan | None:
        """The replication plan in force; None if the job has no budget, or there is no plan yet."""
        return self._assigned.replication(job_key(plan.job, plan.generation))

    def rates(self, plan: Plan) -> Rates:
        """Measured rates of the job's streams."""
        return self._costs.rates(plan, self._changes(plan))

    def _changes(self, plan: Plan) -> dict[str, Change | None]:
        """The last valid change of each unit."""
        return {one.name: self._assigned.of(unit_key(plan.job, plan.generation, one.name)) for one in plan.units}

    def _unit_line(self, plan: Plan, unit: UnitPlan) -> UnitLine:
        change = self._assigned.of(unit_key(plan.job, plan.generation, unit.name))
        progress = self._progress.get((plan.generation, unit.name), Progress(unit.name, 0, 0))
        return UnitLine(
            unit=unit.name,
            tasks=tuple(task_name(operator, unit.index) for operator in unit.operators),
            scheme=unit.scheme if change is None else change.scheme,
            epoch=0 if change is None else change.epoch,
            copies=self._copies(change, progress),
            policy="" if unit.host else self.policy(plan).policy,
            adaptive=unit.scheme == "adaptive" if change is None else change.adaptive,
        )

    def _copies(self, change: Change | None, progress: Progress) -> tuple[CopyLine, ...]:
        """The assigned copies, each with its last report."""
        lines = []
        for copy in () if change is None else change.copies:
            assert change is not None
            reported = self._workers.reported(copy.worker, copy.incarnation, change.unit)
            batch = max(reported.batch, progress.processed if copy.flags.commit else 0)
            role = "primary" if copy.flags.commit else "secondary"
            lines.append(
                CopyLine(
                    copy.worker,
                    role,
                    asdict(copy.flags),
                    batch,
                    state=reported.state,
                    incarnation=copy.incarnation,
                    error=reported.error,
                )
            )
        return tuple(lines)

    def workers(self, now_ms: int) -> list[WorkerLine]:
        """Workers with a heartbeat in the records read, in natural order of their names."""
        return self._workers.lines(self._held(), now_ms)

    def _held(self) -> Mapping[tuple[str, str], list[str]]:
        held: dict[tuple[str, str], list[str]] = {}
        for unit, change in sorted(self._assigned.units().items()):
            for copy in change.copies:
                held.setdefault((copy.worker, copy.incarnation), []).append(unit)
        return held


def _sink_topics(plan: Plan) -> set[str]:
    return {topic for one in plan.operators if (topic := one.written_topic)}


def policy_line(policy: CheckpointPolicy, complete: int = -1) -> PolicyLine:
    """The checkpoint policy for people."""
    settings = {name: getattr(policy, name) for name in READ.get(policy.policy, ())}
    return PolicyLine(policy.policy, settings, complete if policy.policy == ALIGNED and complete >= 0 else None)


def _number(generation: str) -> int:
    return int(generation.split("-")[0])


def _versions(change: Change) -> str:
    leads = change.shown[-1] if change.shown else ""
    shows = [
        f"{one.worker} has {differences(leads, one.versions)} and leads nothing until it has shown equal bytes"
        for one in change.unshown
    ]
    return "; ".join([*shows, *(f"other bytes: {one}" for one in change.differ)])


def _time(watermark_us: int) -> str | None:
    if watermark_us == NO_WATERMARK:
        return None
    if watermark_us == END_WATERMARK:
        return "end"
    if watermark_us == LOADED_WATERMARK:
        return "loaded"
    try:
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=watermark_us)).isoformat()
    except OverflowError:
        return str(watermark_us)
