"""Which copies each unit has, and which checkpoint policy each job, as every reader of `assignments` folds it.

Source: PROTOCOL 8: a change is valid iff its epoch is the unit's last + 1 and it is well formed, so that whatever
anybody appends, `commit` is on at exactly one copy of every placed unit. Of a retired generation none is valid: its
units are forgotten, and without that rule an old placement would count as a first one (PROTOCOL 1). A policy is valid
iff its command comes after that of the last one.
"""

from __future__ import annotations

from collections.abc import Iterable

from schemas.assignments import Assignment, Change, CheckpointPolicy, generation_of
from schemas.retired import Retired


class Assigned:
    """The last valid change of each unit and policy of each job. units, retired, policies: with which it begins."""

    def __init__(
        self,
        units: Iterable[Change] = (),
        retired: Retired = Retired(),  # noqa: B008
        policies: Iterable[CheckpointPolicy] = (),
    ) -> None:
        self._units = {change.unit: change for change in units}
        self._policies = {policy.job_key: policy for policy in policies}
        self.retired = retired

    def become(self, other: Assigned) -> None:
        """Takes the state of another fold, for those who hold this one."""
        self._units, self.retired, self._policies = other.units(), other.retired, dict(other._policies)

    def read(self, record: Assignment) -> list[Change]:
        """Takes one record; returns the changes in it that are valid."""
        valid = []
        for change in record.changes:
            follows = change.epoch == self.epoch(change.unit) + 1 and change.well_formed
            if follows and not self.retired.has(generation_of(change.unit)):
                self._units[change.unit] = change
                valid.append(change)
        for policy in record.policies:
            self._read_policy(policy)
        if record.retired is not None:
            self._retire(record.retired)
        return valid

    def _read_policy(self, policy: CheckpointPolicy) -> None:
        last = self._policies.get(policy.job_key)
        after = int(policy.generation.partition("-")[0]) if last is None else last.asked
        if policy.asked > after and not self.retired.has(policy.generation):
            self._policies[policy.job_key] = policy

    def _retire(self, retired: Retired) -> None:
        held = {generation_of(unit) for unit, change in self._units.items() if change.copies}
        self.retired = self.retired.joined(retired, held)
        gone = [unit for unit in self._units if self.retired.has(generation_of(unit))]
        for unit in gone:
            del self._units[unit]
        for job in [job for job in self._policies if self.retired.has(generation_of(job))]:
            del self._policies[job]

    def epoch(self, unit: str) -> int:
        """The unit's last epoch, 0 before the first."""
        change = self._units.get(unit)
        return 0 if change is None else change.epoch

    def of(self, unit: str) -> Change | None:
        return self._units.get(unit)

    def policy(self, job_key: str) -> CheckpointPolicy | None:
        """Of `<job>@<generation>`; None: what its plan says."""
        return self._policies.get(job_key)

    def units(self) -> dict[str, Change]:
        return dict(self._units)

    def of_incarnation(self, worker: str, incarnation: str) -> dict[str, Change]:
        """The units that this incarnation of a worker is to hold a copy of."""
        return {
            unit: change
            for unit, change in self._units.items()
            if any(copy.worker == worker and copy.incarnation == incarnation for copy in change.copies)
        }
