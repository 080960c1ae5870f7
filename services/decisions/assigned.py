"""Fold of `assignments`: copies of each unit, checkpoint policy and global checkpoint of each job.

Source: PROTOCOL 8. A change is valid iff its epoch is the unit's last + 1 and it is well formed. So whatever is
appended, exactly one copy of every placed unit has `commit`. No change of a retired generation is valid: its units are
forgotten, and without that rule an old placement would count as a first one (PROTOCOL 1). A policy is valid iff its
command comes after that of the last one. A change that rolls a unit back is valid iff it names the newest global
checkpoint of its job, and a line that is new to the unit: the one that other units of the job have just begun, or the
next one. A change by a replication plan is valid iff that plan is the newest of the job. Outages of a record are read
before its changes, since the record that places a unit again also states its outage.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.schemas.assignments import (
    Assignment,
    Change,
    CheckpointPolicy,
    GlobalCheckpoint,
    ReplicationPlan,
    generation_of,
    job_key_of,
)
from holdfast.schemas.formats import FIRST
from holdfast.schemas.incidents import Incident
from holdfast.schemas.outages import Outage
from holdfast.schemas.retired import Retired, submitted


class Assigned:
    """The last valid change of each unit; policy and global checkpoint of each job. Arguments: the initial state."""

    def __init__(
        self,
        units: Iterable[Change] = (),
        retired: Retired = Retired(),  # noqa: B008
        policies: Iterable[CheckpointPolicy] = (),
        checkpoints: Iterable[GlobalCheckpoint] = (),
        format: int = FIRST,
        incidents: Iterable[Incident] = (),
        replications: Iterable[ReplicationPlan] = (),
        outages: Iterable[Outage] = (),
    ) -> None:
        self._units = {change.unit: change for change in units}
        self._policies = {policy.job_key: policy for policy in policies}
        self._checkpoints = {one.job_key: one for one in checkpoints}
        self._incidents = {one.job_key: one for one in incidents}
        self._replications = {one.job_key: one for one in replications}
        self._outages: dict[str, dict[str, Outage]] = {}
        self._fidelity: dict[str, dict[str, float]] = {}
        for outage in outages:
            self._note_outage(outage)
        self._lines: dict[str, int] = {}
        self._begun: dict[str, tuple[int, int]] = {}
        for change in self._units.values():
            self._begin_line(change)
        self.retired = retired
        self.format = format

    def read(self, record: Assignment) -> list[Change]:
        """Takes a record; returns its valid changes."""
        for outage in record.outages:
            self._read_outage(outage)
        valid = []
        for change in record.changes:
            follows = change.epoch == self.epoch(change.unit) + 1 and change.well_formed
            if (
                follows
                and self._line_fits(change)
                and self._plan_fits(change)
                and not self.retired.has(generation_of(change.unit))
            ):
                self._units[change.unit] = change
                self._begin_line(change)
                valid.append(change)
        for policy in record.policies:
            self._read_policy(policy)
        for checkpoint in record.checkpoints:
            self._read_checkpoint(checkpoint)
        for incident in record.incidents:
            self._read_incident(incident)
        for plan in record.replications:
            if plan.number == self._plan_number(plan.job_key) + 1 and not self.retired.has(plan.generation):
                self._replications[plan.job_key] = plan
        if record.retired is not None:
            self._retire(record.retired)
        self.format = max(self.format, record.format)
        return valid

    def _line_fits(self, change: Change) -> bool:
        last = self._units.get(change.unit)
        line, back = (0, 0) if last is None else (last.line, last.back)
        if change.line == line:
            return change.back == back
        job = job_key_of(change.unit)
        newest = self._lines.get(job, 0)
        return line < change.line and change.line in (newest, newest + 1) and change.back == self.complete(job)

    def _plan_fits(self, change: Change) -> bool:
        """True if the change names the unit's last or the newest replication plan; a replica may have read only
        older ones.
        """
        last = self._units.get(change.unit)
        return change.plan in (0 if last is None else last.plan, self._plan_number(job_key_of(change.unit)))

    def _plan_number(self, job_key: str) -> int:
        plan = self._replications.get(job_key)
        return 0 if plan is None else plan.number

    def _begin_line(self, change: Change) -> None:
        job = job_key_of(change.unit)
        self._lines[job] = max(change.line, self._lines.get(job, 0))
        if change.line > self._begun.get(change.unit, (0, 0))[0]:
            self._begun[change.unit] = change.line, change.epoch

    def _read_policy(self, policy: CheckpointPolicy) -> None:
        last = self._policies.get(policy.job_key)
        asked, since = (_submitted(policy.generation),) * 2 if last is None else (last.asked, last.since)
        if policy.asked > asked and not self.retired.has(policy.generation):
            self._policies[policy.job_key] = policy
            if policy.since != since:
                self._checkpoints.pop(policy.job_key, None)

    def _read_checkpoint(self, one: GlobalCheckpoint) -> None:
        policy, last = self._policies.get(one.job_key), self._checkpoints.get(one.job_key)
        since = _submitted(one.generation) if policy is None else policy.since
        now = (one.since, one.line) == (since, self.line(one.job_key))
        if now and one.batch > (0 if last is None else last.batch) and not self.retired.has(one.generation):
            self._checkpoints[one.job_key] = one

    def _read_incident(self, one: Incident) -> None:
        last = self._incidents.get(one.job_key)
        if one.number > (0 if last is None else last.number) and not self.retired.has(one.generation):
            self._incidents[one.job_key] = one

    def _read_outage(self, one: Outage) -> None:
        last = self.outage(one.unit_key)
        number, open = (0, False) if last is None else (last.number, not last.over)
        if one.over:
            counts = open and one.number == number
        elif last is not None and one.banned:
            counts = open and one.number == number and not last.banned
        else:
            counts = not open and one.number > number and 0 < one.epoch == self.epoch(one.unit_key)
        if counts and not self.retired.has(one.generation):
            self._note_outage(one)

    def _note_outage(self, one: Outage) -> None:
        self._outages.setdefault(one.job_key, {})[one.unit] = one
        self._fidelity[one.job_key] = one.fidelity

    def _retire(self, retired: Retired) -> None:
        held = {generation_of(unit) for unit, change in self._units.items() if change.copies}
        self.retired = self.retired.joined(retired, held)
        gone = [unit for unit in self._units if self.retired.has(generation_of(unit))]
        for unit in gone:
            del self._units[unit]
            self._begun.pop(unit, None)
        by_job: tuple[dict[str, Any], ...] = (
            self._policies,
            self._checkpoints,
            self._lines,
            self._incidents,
            self._replications,
            self._outages,
            self._fidelity,
        )
        for known in by_job:
            for job in [job for job in known if self.retired.has(generation_of(job))]:
                del known[job]

    def epoch(self, unit: str) -> int:
        """Returns the unit's last epoch; 0 before the first."""
        change = self._units.get(unit)
        return 0 if change is None else change.epoch

    def of(self, unit: str) -> Change | None:
        return self._units.get(unit)

    def policy(self, job_key: str) -> CheckpointPolicy | None:
        """Returns the policy of `<job>@<generation>`; None if the policy of the plan is in force."""
        return self._policies.get(job_key)

    def checkpoint(self, job_key: str) -> GlobalCheckpoint | None:
        """Returns the newest global checkpoint of `<job>@<generation>` under its present policy."""
        return self._checkpoints.get(job_key)

    def complete(self, job_key: str) -> int:
        """Returns the batch of the newest global checkpoint of the job.

        0 if none was decided: under an `aligned` policy of the plan, the start of the job is as good. -1 if none was
        decided since the policy changed.
        """
        one = self._checkpoints.get(job_key)
        return one.batch if one is not None else -1 if job_key in self._policies else 0

    def incident(self, job_key: str) -> Incident | None:
        """Returns the last record of an incident of `<job>@<generation>`; the incident may be over."""
        return self._incidents.get(job_key)

    def replication(self, job_key: str) -> ReplicationPlan | None:
        """Returns the replication plan of `<job>@<generation>`; None without a budget or before the first plan."""
        return self._replications.get(job_key)

    def outage(self, unit: str) -> Outage | None:
        """Returns the last record of an outage of the unit; the outage may be over."""
        job, _, name = unit.partition("/")
        return self._outages.get(job, {}).get(name)

    def out(self, job_key: str) -> dict[str, Outage]:
        """Returns the open outages of `<job>@<generation>`, by the name of the unit."""
        return {name: one for name, one in self._outages.get(job_key, {}).items() if not one.over}

    def fidelity(self, job_key: str) -> dict[str, float]:
        """Returns the output fidelity by query in the newest record about an outage; empty if no unit is out."""
        return dict(self._fidelity[job_key]) if self.out(job_key) else {}

    def line(self, job_key: str) -> int:
        """Returns the highest line of the job's units."""
        return self._lines.get(job_key, 0)

    def begun(self, unit: str) -> int:
        """Returns the epoch with which the unit's line began; 0 on line 0.

        After a start from a snapshot that does not hold that epoch, the result may be a later one.
        """
        return self._begun.get(unit, (0, 0))[1]

    def units(self) -> dict[str, Change]:
        return dict(self._units)

    def of_incarnation(self, worker: str, incarnation: str) -> dict[str, Change]:
        """Returns the changes of units with a copy on this incarnation of a worker, by unit."""
        return {
            unit: change
            for unit, change in self._units.items()
            if any(copy.worker == worker and copy.incarnation == incarnation for copy in change.copies)
        }


def _submitted(generation: str) -> int:
    """Returns the offset of the job in `jobs.submit`."""
    return submitted(generation) or 0
