"""Takes each record to the folds that it concerns, and names the units that may have their turn now.

Source: PROTOCOL 8 and 13. The standing of a unit is a function of the logs alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.schemas.assignments import Assignment, Change, Copy, job_key
from holdfast.schemas.heartbeats import FAULTED, Exit, Heartbeat, HeartbeatRecord
from holdfast.schemas.incidents import Incident
from holdfast.schemas.plans import Decision, Ended, Plan, Retirement
from holdfast.services.decisions.standings import Standings
from holdfast.services.recovery.core.job.incident import story_line as incident_line
from holdfast.services.recovery.core.known import ReplicaView
from holdfast.services.recovery.core.unit.facts.schemes import OF_DRIVERS
from holdfast.services.recovery.core.unit.facts.stance import unexplained
from holdfast.services.recovery.core.unit.facts.terms import Asked, terms
from holdfast.services.recovery.core.unit.table import reasons
from holdfast.services.recovery.core.unit.table.switching import story_line

STORY_LINES = 1_000


class Reading:
    """Records as one replica reads them.

    story: a line for each valid record.
    unexplained: valid changes that no row of a unit's table makes, and the reasons, until published.
    """

    def __init__(self, known: ReplicaView) -> None:
        self._known = known
        self.story: list[str] = []
        self.unexplained: list[tuple[Change, str]] = []

    def begin(self, standings: Standings) -> None:
        """Takes the standings of units at the offset from which `assignments` is read."""
        known = self._known
        known.standings = standings
        for change in known.assigned.units().values():
            self._follow(change)
            known.adaptive.decided(None, change, known.now_us)

    def caught_up(self) -> None:
        known, attentive_us = self._known, self._known.attention.attentive_us
        known.detector.begin()
        known.acting, known.stirred_us = True, attentive_us
        known.reassignment.begin(known.now_us)
        known.readers.began_us = attentive_us

    # -- heartbeats ---------------------------------------------------------------------------------------------------

    def beat(self, record: HeartbeatRecord) -> list[str]:
        """Reads a heartbeat or exit notice.

        Returns the units with copies on the worker and the units blamed for its end; if a heartbeat reports nothing
        new,
        only the unsettled units of the worker, and the blamed ones.
        """
        known = self._known
        nothing_new = known.detector.says_nothing_new(record)
        blamed = known.crashes.read(record, known.now_us)
        known.detector.read(record)
        if known.acting and isinstance(record, Exit):
            units = list(known.assigned.of_incarnation(record.worker, record.incarnation))
            self._failed(record.worker, units)
            known.outages.ended(record, known.assigned)
            for situation in filter(None, map(known.situation, units)):
                known.incidents.look_at(situation, known.now_us)
        known.readers.read(record, known.attention.attentive_us)
        named = known.unsettled_on(record.worker) if nothing_new else known.units_on(record.worker)
        named += blamed
        if isinstance(record, Heartbeat):
            known.reassignment.read(record)
            known.incidents.consumption.read(record, known.now_us)
            known.adaptive.read(record, known.now_us)
            known.replication.read(record, known.now_us)
            known.outages.read(record, known.now_us)
            self._reports(record)
        return named

    def _reports(self, beat: Heartbeat) -> None:
        known, run = self._known, (beat.worker, beat.incarnation)
        for report in beat.copies:
            change = known.assigned.of(report.unit)
            if change is None:
                continue
            known.proofs.see(change, run, report)
            if _run_of(change.committer) == run:
                known.covering.see(change, report)

    def _failed(self, worker: str, units: Iterable[str]) -> None:
        known = self._known
        known.instability.failed(worker, units, known.now_us - max(0, known.detector.silent_us(worker)))

    # -- assignments --------------------------------------------------------------------------------------------------

    def assigned(self, record: Assignment, offset: int) -> list[str]:
        known = self._known
        before = {change.unit: known.assigned.of(change.unit) for change in record.changes}
        valid = known.standings.read(offset, record)
        for plan in record.replications:
            known.replication.decided(plan, known.assigned.replication(plan.job_key) is plan, known.now_us)
        for outage in record.outages:
            known.outages.decided(outage, known.assigned.outage(outage.unit_key) is outage)
        for change in valid:
            self._counts(before[change.unit], change)
            before[change.unit] = change
        self.withdraw(record.changes)  # an invalid change is withdrawn, too: its checkpoint may no longer be the newest
        concerned = [unit for incident in record.incidents for unit in self._incident(incident)]
        return [*concerned, *(change.unit for change in valid), *known.wants.concerned(record)]

    def _counts(self, before: Change | None, change: Change) -> None:
        """Takes a valid change."""
        known = self._known
        if known.acting:
            self._accuse(before, change)
            for copy in reasons.lost_copies(before, change):
                self._failed(copy.worker, [change.unit])
            known.adaptive.foresee(before, change, known.terms.get(change.unit), known.detector)
            if why := unexplained(change):
                self.unexplained.append((change, why))
        self._tell(story_line(before, change))
        known.adaptive.decided(before, change, known.now_us)
        known.stirred_us = known.attention.attentive_us
        known.covering.forget(change.unit)
        known.proofs.follow(change)
        if (mine := known.proposed.get(change.unit)) is not None and mine.epoch <= change.epoch:
            del known.proposed[change.unit]
        self._follow(change)

    def _follow(self, change: Change) -> None:
        """Takes the last change of a unit."""
        known = self._known
        known.changed_us[change.unit] = known.now_us
        if change.moving and reasons.for_balance(change):
            known.relieving.moved(change.unit, known.now_us)
        known.reassignment.decided(change, known.now_us)
        for copy in change.copies:
            known.detector.expect(copy.worker, copy.incarnation)

    def _accuse(self, before: Change | None, after: Change) -> None:
        """Notes a false suspicion: a primary that lost the lead without an end, a fault, a move or a drill was
        suspected.
        """
        primary = before.copies[0] if before is not None and before.copies else None
        moved = before is not None and before.arriving is not None and not reasons.follows_failure(after)
        moved = moved or reasons.drilled(after)
        if primary is not None and primary.flags.commit and after.copies and not moved:
            was = primary.worker, primary.incarnation
            report = self._known.detector.report(*was, after.unit)
            if _run_of(after.committer) != was and (report is None or report.state != FAULTED):
                self._known.detector.accuse(*was)

    def withdraw(self, changes: Iterable[Change]) -> None:
        """Drops proposals that are invalid or were not appended."""
        known = self._known
        for change in changes:
            if known.proposed.get(change.unit) == change:
                del known.proposed[change.unit]
                known.reassignment.withdrawn(change.unit, known.assigned.of(change.unit))

    def _incident(self, incident: Incident) -> list[str]:
        """Takes a record about an incident; returns the units that may have their turn now."""
        known = self._known
        if known.assigned.incident(incident.job_key) is not incident:
            known.incidents.withdraw(incident)
            return []
        self._tell(incident_line(incident))
        return known.incidents.read(incident, known.now_us)

    def _tell(self, line: str) -> None:
        self.story = [*self.story[1 - STORY_LINES :], line]

    # -- plans and commands -------------------------------------------------------------------------------------------

    def decided(self, decision: Decision | Retirement) -> list[str]:
        known = self._known
        if not known.admitted.read(decision) or isinstance(decision, Retirement):
            return []
        if isinstance(decision, Plan) and decision.prev is not None:
            return []  # a second plan only states the beginning of a job whose units are known
        if isinstance(decision, Plan):
            made = terms(decision)
            known.terms |= made
            known.wants.admit(decision)
            known.incidents.admit(decision)
            known.replication.admit(decision, known.now_us)
            known.outages.admit(decision)
            for unit, each in made.items():
                self.scheme_asked(unit, each.asked)
            return list(made)
        if isinstance(decision, Ended) and (plan := known.admitted.plan(decision.generation)) is not None:
            self._ended(plan)
        return []

    def _ended(self, plan: Plan) -> None:
        known, job = self._known, job_key(plan.job, plan.generation)
        known.wants.end(plan)
        known.incidents.end(job)
        known.policies.forget(job)
        known.replication.end(job)
        known.outages.end(job)
        for unit in terms(plan):
            for fold in (
                known.crashes, known.proofs, known.asks, known.adaptive, known.rollbacks, known.relieving,
                known.reassignment,
            ):  # fmt: skip
                fold.forget(unit)
            for found in (known.terms, known.changed_us, known.proposed, known.settled):
                found.pop(unit, None)

    def scheme_asked(self, unit: str, asked: Asked) -> list[str]:
        """Takes a request for a scheme. On a Spark driver an adaptive unit gets OF_DRIVERS, its only scheme."""
        known = self._known
        of_driver = asked.adaptive and unit in known.terms and bool(known.terms[unit].host)
        return known.asks.scheme(unit, Asked(OF_DRIVERS, asked.offset) if of_driver else asked)


def _run_of(copy: Copy | None) -> tuple[str, str] | None:
    return None if copy is None else (copy.worker, copy.incarnation)
