"""The state of every unit, goal, policy and incident, folded so that snapshots can be written, checked and started
from.

Source: PROTOCOL 1 and 8. Reading, writing and trimming to snapshots: services/decisions/snapshots.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec import structs

from holdfast.schemas.assignments import (
    STOP,
    Assignment,
    Change,
    CheckpointPolicy,
    CheckpointStanding,
    Goal,
    GoalStanding,
    PolicyStanding,
    ReplicationStanding,
    Snapshot,
    Standing,
    generation_of,
)
from holdfast.schemas.formats import FIRST
from holdfast.schemas.incidents import IncidentStanding
from holdfast.schemas.outages import OutageStanding
from holdfast.schemas.retired import Retired
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.decisions.past import Past

EVERY, MANY = 2_000, 500
"""Least number of records between two snapshots, and number of units and goals from which it grows: see `Pace`."""

Noted = PolicyStanding | CheckpointStanding | IncidentStanding | ReplicationStanding | OutageStanding
State = Standing | GoalStanding | Noted | Retired | int
_RETIRED, _FORMAT = "", " "
"""The keys, besides those of units and jobs, of the retired generations and of the format."""
_APART = (_RETIRED, _FORMAT)


@dataclass(slots=True)
class Standings:
    """The last valid change of each unit, the goal, policy and global checkpoint of each job, and their offsets.

    next: the first offset that is not folded.
    since: offset of the snapshot with which the fold began; records below it are not known.
    snapshotted: `upto` of the newest snapshot that agrees.
    """

    assigned: Assigned = field(default_factory=Assigned)
    next: int = 0
    since: int = 0
    snapshotted: int = 0
    _past: Past[State] = field(default_factory=Past)

    @classmethod
    def of(cls, snapshot: Snapshot) -> Standings:
        """Returns the state in a snapshot."""
        policies = (one.policy for one in snapshot.policies)
        checkpoints = (one.checkpoint for one in snapshot.checkpoints)
        assigned = Assigned(
            (one.change for one in snapshot.units),
            snapshot.retired,
            policies,
            checkpoints,
            format=snapshot.format,
            incidents=(one.incident for one in snapshot.incidents),
            replications=(one.plan for one in snapshot.replications),
            outages=(one.outage for one in sorted(snapshot.outages, key=lambda one: one.offset)),
        )
        states: dict[str, State] = {one.change.unit: one for one in snapshot.units}
        states |= {one.goal.job_key: one for one in snapshot.goals}
        states |= {_policy_key(one.policy.job_key): one for one in snapshot.policies}
        states |= {_checkpoint_key(one.checkpoint.job_key): one for one in snapshot.checkpoints}
        states |= {_incident_key(one.incident.job_key): one for one in snapshot.incidents}
        states |= {_replication_key(one.plan.job_key): one for one in snapshot.replications}
        states |= {_outage_key(one.outage.unit_key): one for one in snapshot.outages}
        past = Past({**states, _RETIRED: snapshot.retired, _FORMAT: snapshot.format}, snapshot.upto)
        return cls(assigned, snapshot.upto, snapshot.upto, snapshot.upto, _past=past)

    def __len__(self) -> int:
        return len(self._past)

    def read(self, offset: int, record: Assignment) -> list[Change]:
        """Takes the record at an offset; returns its valid changes. A record that was read before changes nothing."""
        if offset < self.next:
            return []
        self.next = offset + 1
        for goal in record.goals:
            self._read_goal(offset, goal)
        valid = self.assigned.read(record)
        for change in valid:
            self._past.put(offset, change.unit, Standing(offset, change))
        for policy in record.policies:
            if self.assigned.policy(policy.job_key) == policy:
                self._note(offset, _policy_key(policy.job_key), PolicyStanding(offset, policy))
        self._note_checkpoints(offset, record)
        for incident in record.incidents:
            if self.assigned.incident(incident.job_key) == incident:
                self._note(offset, _incident_key(incident.job_key), IncidentStanding(offset, incident))
        for plan in record.replications:
            if self.assigned.replication(plan.job_key) == plan:
                self._note(offset, _replication_key(plan.job_key), ReplicationStanding(offset, plan))
        for outage in record.outages:
            if self.assigned.outage(outage.unit_key) == outage:
                self._note(offset, _outage_key(outage.unit_key), OutageStanding(offset, outage))
        if record.retired is not None:
            self._forget(offset)
        if record.format:
            self._past.put(offset, _FORMAT, self.assigned.format)
        return valid

    def _note(self, offset: int, key: str, standing: Noted) -> None:
        """Notes the standing since this record; a record that only repeats it changes nothing."""
        before = self._past.get(key)
        if not isinstance(before, type(standing)) or structs.replace(before, offset=offset) != standing:
            self._past.put(offset, key, standing)

    def _note_checkpoints(self, offset: int, record: Assignment) -> None:
        """Notes checkpoints that count from this record on, and those that another policy has made void."""
        for job in {one.job_key for one in record.policies} | {one.job_key for one in record.checkpoints}:
            key, now = _checkpoint_key(job), self.assigned.checkpoint(job)
            before = self._past.get(key)
            if now is None and before is not None:
                self._past.put(offset, key, None)
            elif now is not None:
                self._note(offset, key, CheckpointStanding(offset, now))

    def _read_goal(self, offset: int, goal: Goal) -> None:
        """Takes a goal: the first one of a job counts until the first stop, which is final; none of a retired
        generation does.
        """
        last = self.goal(goal.job_key)
        follows = last is None or (last.goal.kind != STOP and goal.kind == STOP)
        if goal.well_formed and follows and not self.retired(goal.generation):
            self._past.put(offset, goal.job_key, GoalStanding(offset, goal))

    def _forget(self, offset: int) -> None:
        """Removes retired generations from the state."""
        self._past.put(offset, _RETIRED, self.assigned.retired)
        for key in self._past:
            if key not in _APART and self.retired(generation_of(key)):
                self._past.put(offset, key, None)

    def retired(self, generation: str) -> bool:
        """True if the end of the generation was decided, so that its later records are invalid."""
        return self.assigned.retired.has(generation)

    def generations(self) -> set[str]:
        """Returns the generations of which the state holds anything."""
        return {generation_of(key) for key in self._past if key not in _APART}

    def goal(self, job_key: str) -> GoalStanding | None:
        """Returns the goal for `<job>@<generation>`; None if none is stated."""
        found = self._past.get(job_key)
        return found if isinstance(found, GoalStanding) else None

    def policy(self, job_key: str) -> CheckpointPolicy | None:
        """Returns the policy of `<job>@<generation>`; None if the policy of the plan is in force."""
        return self.assigned.policy(job_key)

    def of_unit(self, unit: str) -> Standing | None:
        found = self._past.get(unit)
        return found if isinstance(found, Standing) else None

    def snapshot(self) -> Snapshot:
        """Returns the snapshot after all folded records."""
        return _snapshot(self.next, self._past.now().values())

    def check(self, offset: int, snapshot: Snapshot) -> bool | None:
        """True if the snapshot at this offset, up to which all is folded, agrees with the log.

        None for a snapshot that is older than the known history. A snapshot whose `upto` is above its own offset does
        not agree.
        """
        agrees = self._agrees(snapshot) if snapshot.upto <= offset else False
        if agrees:
            self.snapshotted = max(self.snapshotted, snapshot.upto)
        return agrees

    def _agrees(self, snapshot: Snapshot) -> bool | None:
        then = self._past.as_of(snapshot.upto)
        return None if then is None else _snapshot(snapshot.upto, then.values()) == snapshot


def plausible(snapshot: Snapshot, offset: int) -> bool:
    """True if a snapshot found at an offset may be true, as far as can be checked without the records below it."""
    keys = [one.change.unit for one in snapshot.units] + [one.goal.job_key for one in snapshot.goals]
    keys += [_policy_key(one.policy.job_key) for one in snapshot.policies]
    keys += [_checkpoint_key(one.checkpoint.job_key) for one in snapshot.checkpoints]
    keys += [_incident_key(one.incident.job_key) for one in snapshot.incidents]
    keys += [_replication_key(one.plan.job_key) for one in snapshot.replications]
    keys += [_outage_key(one.outage.unit_key) for one in snapshot.outages]
    return (
        0 <= snapshot.upto <= offset
        and len(keys) == len(set(keys))
        and not any(snapshot.retired.has(generation_of(key)) for key in keys)
        and all(0 <= one.offset < snapshot.upto for one in snapshot.units)
        and all(one.change.epoch > 0 and one.change.well_formed for one in snapshot.units)
        and all(0 <= one.offset < snapshot.upto and one.goal.well_formed for one in snapshot.goals)
        and all(one.offset < snapshot.upto for one in snapshot.policies)
        and all(one.offset < snapshot.upto for one in snapshot.checkpoints)
        and all(one.offset < snapshot.upto for one in snapshot.incidents)
        and all(one.offset < snapshot.upto for one in snapshot.replications)
        and all(one.offset < snapshot.upto for one in snapshot.outages)
    )


def _snapshot(upto: int, states: Iterable[State]) -> Snapshot:
    known = list(states)
    units = sorted((one for one in known if isinstance(one, Standing)), key=lambda one: one.change.unit)
    goals = sorted((one for one in known if isinstance(one, GoalStanding)), key=lambda one: one.goal.job_key)
    policies = sorted((one for one in known if isinstance(one, PolicyStanding)), key=lambda one: one.policy.job_key)
    checkpoints = sorted(
        (one for one in known if isinstance(one, CheckpointStanding)), key=lambda one: one.checkpoint.job_key
    )
    incidents = sorted(
        (one for one in known if isinstance(one, IncidentStanding)), key=lambda one: one.incident.job_key
    )
    replications = sorted(
        (one for one in known if isinstance(one, ReplicationStanding)), key=lambda one: one.plan.job_key
    )
    outages = sorted((one for one in known if isinstance(one, OutageStanding)), key=lambda one: one.outage.unit_key)
    retired = next((one for one in known if isinstance(one, Retired)), Retired())
    format = next((one for one in known if isinstance(one, int)), FIRST)
    return Snapshot(
        upto,
        tuple(units),
        tuple(goals),
        retired,
        policies=tuple(policies),
        checkpoints=tuple(checkpoints),
        format=format,
        incidents=tuple(incidents),
        replications=tuple(replications),
        outages=tuple(outages),
    )


def _policy_key(job_key: str) -> str:
    """The key of the policy, apart from those of the job's units and goal."""
    return f"{job_key}/"


def _checkpoint_key(job_key: str) -> str:
    return f"{job_key}//"


def _incident_key(job_key: str) -> str:
    return f"{job_key}///"


def _replication_key(job_key: str) -> str:
    return f"{job_key}////"


def _outage_key(unit_key: str) -> str:
    """The key of the outage, apart from that of the unit."""
    return f"{unit_key}/"
