"""Which changes a job's units need now: a first place, another one, the worker's next incarnation, or none any more.

Source: PROTOCOL 8, scheme `none`: one copy, restarted where its worker returns, else placed anew after the fail-stop
time-out. A unit whose last change has no copies is placed again unless a user has asked for the end of its job: the
change names the command, and whoever has not read as far as that waits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from schemas.assignments import PRIMARY, Assignment, Change, Copy
from services.controller.core.fleet import Fleet, Seen
from services.controller.core.job import Job
from services.kernel.logs.assigned import Assigned
from services.kernel.placing import Candidate, place

NO_WORKER = "no worker is alive: start one with `holdfast up --workers N`"

UNASKED = "it was unplaced, and nobody asked for the end of its job"
WAIT_MS = 30_000
"""For so long a command that a change names, and that was not read yet, is waited for."""

NO_DRIVER = "no Spark driver is alive yet: `holdfast up` starts one when a job needs it, which takes some seconds"


@dataclass(slots=True)
class Assigning:
    """Folds `assignments`, and knows what this replica has proposed there and not read back yet.

    heard: offset of the last record of `jobs.submit` that was read.
    """

    fleet: Fleet
    assigned: Assigned = field(default_factory=Assigned)
    proposed: dict[str, Change] = field(default_factory=dict)
    heard: int = -1
    _unplaced_ms: dict[str, tuple[int, int]] = field(default_factory=dict)

    def read(self, record: Assignment) -> list[Change]:
        """Takes one record; the valid changes. What we proposed at an epoch that is taken is decided."""
        valid = self.assigned.read(record)
        for change in valid:
            mine = self.proposed.get(change.unit)
            if mine is not None and mine.epoch <= change.epoch:
                del self.proposed[change.unit]
        return valid

    def propose(self, changes: tuple[Change, ...]) -> None:
        self.proposed.update((change.unit, change) for change in changes)

    def withdraw(self, changes: tuple[Change, ...]) -> None:
        """They were not appended, as far as anybody knows."""
        for change in changes:
            if self.proposed.get(change.unit) == change:
                del self.proposed[change.unit]

    # -- what a job needs ---------------------------------------------------------------------------------------------

    def all_placed(self, job: Job) -> bool:
        last = [self.assigned.of(unit) for unit in job.units]
        return bool(last) and all(change is not None and change.copies for change in last)

    def unplaced_by(self, job: Job) -> str | None:
        """Why somebody began to unplace the job's units; None if nobody did."""
        last = (self.assigned.of(unit) for unit in job.units)
        return next((change.reason for change in last if change is not None and not change.copies), None)

    def all_unplaced(self, job: Job) -> bool:
        last = [self.assigned.of(unit) for unit in job.units]
        return bool(last) and all(change is not None and not change.copies for change in last)

    def all_gone(self, job: Job, now_ms: int) -> bool:
        """No unit is placed, and no living worker reports a copy."""
        last = {unit: self.assigned.of(unit) for unit in job.units}
        return all(
            change is not None and not change.copies and not any(True for _ in self.fleet.reports(unit, now_ms))
            for unit, change in last.items()
        )

    def removals(self, job: Job, reason: str) -> tuple[Change, ...]:
        """Units never placed are unplaced, too: then a slower replica cannot place them."""
        last = {unit: self.assigned.of(unit) for unit in job.units if unit not in self.proposed}
        return tuple(
            Change(unit, self.assigned.epoch(unit) + 1, reason=reason, asked=job.stop_offset)
            for unit, change in last.items()
            if change is None or change.copies
        )

    def placements(self, job: Job, now_ms: int) -> tuple[tuple[Change, ...], str]:
        """The changes that are due, and why a unit stays without a place."""
        homeless, changes = {}, []
        for unit in (unit for unit in job.units if unit not in self.proposed):
            change = self.assigned.of(unit)
            if change is None:
                homeless[unit] = "placed"
            elif not change.copies:
                if not self._awaits_command(change, now_ms):
                    homeless[unit] = UNASKED
            elif change.scheme == "none" and change.copies:
                if (returned := self._next(unit, change.copies[0], now_ms)) is not None:
                    changes.append(returned)
                elif lost := self._lost(change.copies[0], job):
                    homeless[unit] = lost
        if not homeless:
            return tuple(changes), self._missing(job, now_ms)
        missing = []
        for host in dict.fromkeys(job.hosts[unit] for unit in homeless):
            units = [unit for unit in homeless if job.hosts[unit] == host]
            candidates, waiting = self._candidates(job, host, now_ms)
            places = place(units, candidates, self._held())
            changes += [self._change(unit, to.worker, to.incarnation, homeless[unit]) for unit, to in places.items()]
            missing += [] if places else [waiting]
        return tuple(changes), "; ".join(missing)

    def _awaits_command(self, change: Change, now_ms: int) -> bool:
        """Whether the command that it names may still come: no order holds between topics."""
        if change.asked <= self.heard:
            return False
        epoch, since_ms = self._unplaced_ms.get(change.unit, (0, 0))
        if epoch != change.epoch:
            since_ms = now_ms
            self._unplaced_ms[change.unit] = change.epoch, now_ms
        return now_ms - since_ms < WAIT_MS

    def _next(self, unit: str, copy: Copy, now_ms: int) -> Change | None:
        """To the worker's next incarnation, if it has returned."""
        returned = self.fleet.successor(copy.worker, copy.incarnation, now_ms)
        if returned is None:
            return None
        return self._change(unit, returned.worker, returned.incarnation, f"worker {copy.worker} returned")

    def _lost(self, copy: Copy, job: Job) -> str:
        """Why the copy counts as gone for good, or nothing."""
        silent_ms = self.fleet.silent_ms(copy.worker)
        return f"worker {copy.worker} silent for {silent_ms / 1000:.1f} s" if silent_ms >= job.fail_stop_ms else ""

    def _change(self, unit: str, worker: str, incarnation: str, reason: str) -> Change:
        return Change(unit, self.assigned.epoch(unit) + 1, (Copy(worker, incarnation, PRIMARY),), reason=reason)

    def _candidates(self, job: Job, host: str, now_ms: int) -> tuple[list[Candidate], str]:
        """Workers, or Spark drivers, that may take units of the job, and what to say if there are none."""
        fit = (seen for seen in self.fleet.alive(now_ms) if seen.hosts == host)
        alive = [seen for seen in fit if self.fleet.silent_ms(seen.worker) < job.fail_stop_ms]
        pinned = dict(job.plan.versions) if job.plan is not None else {}
        fitting = [seen for seen in alive if not seen.versions or dict(seen.versions) == pinned]
        waiting = (NO_DRIVER if host else NO_WORKER) if not alive else _other_versions(alive[0], pinned)
        return [Candidate(seen.worker, seen.incarnation, seen.zone, seen.slots) for seen in fitting], waiting

    def _missing(self, job: Job, now_ms: int) -> str:
        """Workers that hold units of the job and do not answer."""
        copies = [copy for unit in job.units if (change := self.assigned.of(unit)) for copy in change.copies]
        silent = {c.worker for c in copies if self.fleet.living(c.worker, c.incarnation, now_ms) is None}
        if not silent:
            return ""
        text = f"no sign of life from {', '.join(sorted(silent))}"
        return text if self.fleet.alive(now_ms) else f"{text}; {NO_WORKER}"

    def _held(self) -> Mapping[str, list[str]]:
        held: dict[str, list[str]] = defaultdict(list)
        for unit, change in {**self.assigned.units(), **self.proposed}.items():
            for copy in change.copies:
                held[copy.worker].append(unit)
        return held


def _other_versions(seen: Seen, pinned: Mapping[str, str]) -> str:
    different = [f"{name} {version}" for name, version in sorted(pinned.items()) if seen.versions.get(name) != version]
    return f"no worker alive has the plan's versions ({', '.join(different)})"
