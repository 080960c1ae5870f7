"""Recovery: folds what the logs say of plans, goals, copies and workers, and proposes the assignments that are due.

Source: PROTOCOL 0.1, 5, 8 and 13. Any number of replicas run at once. Each proposes what it holds due and takes only
what it reads back as valid for decided, so where units stand is a function of the logs; what differs between replicas
is how long they have not heard of a worker. The table of one unit is in switching.py. Times are microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from schemas.assignments import Assignment, Change, Copy, Standing, job_key, job_key_of
from schemas.heartbeats import Exit, Heartbeat, HeartbeatRecord
from schemas.incidents import Incident
from schemas.plans import Decision, Ended, Plan, Retirement
from services.kernel.liveness.attention import LOOP_US, Attention
from services.kernel.liveness.detector import Detector
from services.kernel.logs.admitted import Admitted
from services.kernel.logs.standings import Standings
from services.kernel.plans.pinning import Fit
from services.kernel.protection.reassigning import Backed
from services.recovery.core import observed, survey
from services.recovery.core.adaptive.controller import Adaptive
from services.recovery.core.formats import Readers
from services.recovery.core.instability import Instability, Period
from services.recovery.core.job.asks import Asks
from services.recovery.core.job.incident import story_line
from services.recovery.core.job.incidents import Incidents
from services.recovery.core.job.policies import OpenPolicies
from services.recovery.core.job.rollbacks import Rollbacks
from services.recovery.core.job.wants import Wants
from services.recovery.core.placement.balancing import Host, Placement
from services.recovery.core.placement.reassignment import Reassignment
from services.recovery.core.placement.relieving import Relieving
from services.recovery.core.placement.room import Candidate, Room
from services.recovery.core.placement.sharing import Sharing
from services.recovery.core.placement.upkeep import Upkeep
from services.recovery.core.unit import reasons, switching
from services.recovery.core.unit.changing import Covering
from services.recovery.core.unit.crashes import Crashes
from services.recovery.core.unit.proving import BATCHES, Proofs
from services.recovery.core.unit.schemes import OF_DRIVERS
from services.recovery.core.unit.situation import Situation, unexplained
from services.recovery.core.unit.terms import Asked, AskedMove, Terms, terms

BEAT_US = 100_000
SWEEP_US = 100_000
"""At least so often all units are looked at."""

STORY_LINES, MOST_UNITS = 1_000, 2**30


class Recovery:
    """The core of one replica.

    Args:
        beat_us: interval of the workers' heartbeats.
        echo_us: interval at which the shell sends itself a heartbeat; None: it sends none, and silence always counts.
        calm_us: all must have been calm for so long before a unit moves for balance; None: none ever does.
        reassignment: of standbys.
        proof: so many batches must be equal before a copy with other versions may lead.
    """

    def __init__(
        self,
        beat_us: int = BEAT_US,
        echo_us: int | None = None,
        calm_us: int | None = None,
        reassignment: Reassignment | None = None,
        proof: int = BATCHES,
    ) -> None:
        self._attention = Attention(echo_us)
        self.detector = Detector(beat_us, self._attention)
        self.standings = Standings()
        self.assigned = self.standings.assigned
        self.acting = False
        self.story: list[str] = []
        self.unexplained: list[tuple[Change, str]] = []
        """Valid changes that no row of a unit's table makes, and why, until published."""
        self.stable_again: list[Period] = []
        """Periods of instability that are over, until published."""
        self._instability = Instability()
        self._wants = Wants()
        self._admitted = Admitted()
        self._terms: dict[str, Terms] = {}
        self._asks, self._policies, self._rollbacks, self.incidents = Asks(), OpenPolicies(), Rollbacks(), Incidents()
        self.incident_records: list[Incident] = []
        """About incidents, to append to `assignments`, until the shell takes them."""
        self._changed_us: dict[str, int] = {}
        self._relieving, self.reassignment = Relieving(calm_us), reassignment or Reassignment()
        self.sharing, self._stirred_us = Sharing(), 0
        self._covering, self._crashes, self._proofs = Covering(), Crashes(), Proofs(proof)
        self.adaptive = Adaptive(beat_us)
        self._proposed: dict[str, Change] = {}
        self._readers = Readers()
        self._now_us = 0
        self._swept_us = 0
        self._due_us = 0

    # -- what comes in ------------------------------------------------------------------------------------------------

    def observe(self, event: observed.Event, now_us: int) -> list[Change]:
        """Takes an event; the changes to append to `assignments` in one record. Records first, then `tick`."""
        self._advance(now_us)
        match event:
            case observed.Began(standings):
                return self._begin(standings)
            case observed.BeatRead(record):
                return self._beat(record)
            case observed.EchoRead():
                self._attention.echo(now_us)
                return []
            case observed.PeerRead(name, reads):
                self._readers.hear(name, reads, self._attention.attentive_us)
                return []
            case observed.AssignmentRead(record, offset):
                return self._propose(self._assigned(record, offset))
            case observed.DecisionRead(decision):
                return self._propose(self._decided(decision))
            case observed.SchemeAsked(unit, scheme, offset):
                return self._propose(self._ask_scheme(unit, Asked(scheme, offset)))
            case observed.PolicyAsked(job, offset):
                self._policies.ask(job, offset)
                return []
            case observed.MoveAsked(unit, worker, offset):
                return self._propose(self._asks.move(unit, AskedMove(worker, offset, now_us)))
            case observed.RollbackAsked(job, unit, offset):
                return self._propose(self._rollbacks.ask([unit] if unit else self._wants.units(job), offset))
            case observed.DrillAsked(unit, offset):
                return self._propose(self._asks.move(unit, AskedMove("", offset, now_us, drill=True)))
            case observed.VersionsAccepted(job, offset):
                return self._propose(self._asks.accept(self._wants.units(job), offset))
            case observed.TakeoverJudged(unit, needed):
                self.adaptive.judged(unit, needed)
                return []
            case observed.CaughtUp():
                self.detector.begin()
                self.acting, self._stirred_us = True, self._attention.attentive_us
                self.reassignment.begin(now_us)
                self._readers.began_us = self._attention.attentive_us
                return self._propose(self._all_units())
            case observed.Withdrawn(changes, incidents):
                for incident in incidents:
                    self.incidents.withdraw(incident)
                return self._withdraw(changes)

    def tick(self, now_us: int) -> list[Change]:
        """In every turn, after all that could be read was observed."""
        self._advance(now_us)
        if now_us < min(self._due_us, self._swept_us + SWEEP_US):
            return []
        self._swept_us = now_us
        self._reassign()
        self._share()
        self._look_at_incidents()
        changes = self._propose(self._all_units(), all_units=True) + self._relieve() + self._adapt()
        self._look_whether_stable()
        waits = [w for unit in self._units() for w in self._waits_us(unit)]
        self._due_us = now_us + min(waits, default=SWEEP_US)
        return changes

    @property
    def format_due(self) -> int:
        """The format that the cluster's processes are to write in from now on; 0: that of now."""
        return self._readers.due(self.assigned.format, self._attention.attentive_us)

    def next_deadline(self) -> int:
        """When `tick` is to be called at the latest; an event may make it earlier, never later."""
        return min(self._due_us, self._swept_us + SWEEP_US, self._now_us + LOOP_US // 2)

    def check_invariants(self) -> None:
        """Raises AssertionError if a placed unit has not exactly one committer, or a proposal is of no use any more."""
        for unit, change in self.assigned.units().items():
            assert change.well_formed, f"{unit}#{change.epoch}: not exactly one copy commits, or two share a worker"
        for unit, change in self._proposed.items():
            switching.check_invariants(change)
            assert change.epoch > self.assigned.epoch(unit), f"{unit}#{change.epoch}: proposed, but decided"

    def unprotected(self) -> list[str]:
        """Placed units whose copies are not where their scheme wants them, or do not answer."""
        return [situation.change.unit for situation in self._situations() if not situation.protected]

    def exposed(self) -> list[str]:
        """Those of them that can be protected: some worker has, or gets, a place for their standbys."""
        return [unit for unit in self.unprotected() if unit not in self.sharing.unserved]

    def unplaced(self) -> list[str]:
        """Units that are to run and have no copies. Those in quarantine are not to."""
        return [unit for unit in self._wants.without_copies(self.standings) if not self._quarantined(unit)]

    def jobs(self) -> list[str]:
        """Those that run: `<job>@<generation>`."""
        return self._wants.jobs()

    def _quarantined(self, unit: str) -> bool:
        change = self.assigned.of(unit)
        return change is not None and change.deadly is not None

    # -- folding ------------------------------------------------------------------------------------------------------

    def _advance(self, now_us: int) -> None:
        self._now_us = now_us
        self._attention.advance(now_us)

    def _begin(self, standings: Standings) -> list[Change]:
        self.standings, self.assigned = standings, standings.assigned
        for unit, change in self.assigned.units().items():
            self._changed_us[unit] = self._now_us
            self._note_relief(change)
            self.reassignment.decided(change, self._now_us)
            self.adaptive.decided(None, change, self._now_us)
            for copy in change.copies:
                self.detector.expect(copy.worker, copy.incarnation)
        return []

    def _beat(self, record: HeartbeatRecord) -> list[Change]:
        blamed = self._crashes.read(record, self._now_us)
        self.detector.read(record)
        if self.acting and isinstance(record, Exit):
            units = self._units_of(record.worker, record.incarnation)
            self._failed(record.worker, units)
            for situation in filter(None, map(self._situation, units)):
                self.incidents.look_at(situation, self._now_us)
            self._due_us = min(self._due_us, self._now_us)
        self._readers.read(record, self._attention.attentive_us)
        named = [*self._units_on(record.worker), *blamed]
        if isinstance(record, Heartbeat):
            self.reassignment.read(record)
            self.adaptive.read(record, self._now_us)
            for report in record.copies:
                change, run = self.assigned.of(report.unit), (record.worker, record.incarnation)
                if change is None:
                    continue
                self._proofs.see(change, run, report)
                if _run_of(change.committer) == run:
                    self._covering.see(change, report)
        return self._propose(named)

    def _assigned(self, record: Assignment, offset: int) -> list[str]:
        before = {change.unit: self.assigned.of(change.unit) for change in record.changes}
        valid = self.standings.read(offset, record)
        for change in valid:
            self._accuse(before[change.unit], change)
            for copy in reasons.lost_copies(before[change.unit], change) if self.acting else ():
                self._failed(copy.worker, [change.unit])
            self.story = [*self.story[1 - STORY_LINES :], switching.story_line(before[change.unit], change)]
            if self.acting:
                self.adaptive.foresee(before[change.unit], change, self._terms.get(change.unit), self.detector)
            self.adaptive.decided(before[change.unit], change, self._now_us)
            before[change.unit] = change
            if self.acting and (why := unexplained(change)):
                self.unexplained.append((change, why))
            self._changed_us[change.unit] = self._now_us
            self._stirred_us = self._attention.attentive_us
            self._note_relief(change)
            self.reassignment.decided(change, self._now_us)
            self._covering.forget(change.unit)
            self._proofs.follow(change)
            if (mine := self._proposed.get(change.unit)) is not None and mine.epoch <= change.epoch:
                del self._proposed[change.unit]
            for copy in change.copies:
                self.detector.expect(copy.worker, copy.incarnation)
        self._withdraw(record.changes)  # also what is invalid: a rollback to what is not the newest any more
        self._due_us = min(self._due_us, self._now_us)
        concerned = [unit for incident in record.incidents for unit in self._incident(incident)]
        return [*concerned, *(change.unit for change in valid), *self._wants.concerned(record)]

    def _incident(self, incident: Incident) -> list[str]:
        """A record about an incident; the units that may have their turn now."""
        if self.assigned.incident(incident.job_key) is not incident:
            self.incidents.withdraw(incident)
            return []
        self.story = [*self.story[1 - STORY_LINES :], story_line(incident)]
        return self.incidents.read(incident, self._now_us)

    def _note_relief(self, change: Change) -> None:
        if change.moving and change.reason.startswith(switching.Sign.OVERFULL.value):
            self._relieving.moved(change.unit, self._now_us)

    def _accuse(self, before: Change | None, after: Change) -> None:
        """A primary that no longer leads, and has not ended, was suspected, unless its unit has moved."""
        primary = before.copies[0] if before is not None and before.copies else None
        moved = before is not None and before.arriving is not None and not reasons.follows_failure(after)
        moved = moved or reasons.drilled(after)
        if self.acting and primary is not None and primary.flags.commit and after.copies and not moved:
            was = primary.worker, primary.incarnation
            if _run_of(after.committer) != was:
                self.detector.accuse(*was)

    def _decided(self, decision: Decision | Retirement) -> list[str]:
        if not self._admitted.read(decision) or isinstance(decision, Retirement):
            return []
        if isinstance(decision, Plan):
            made = terms(decision)
            self._terms |= made
            self._wants.admit(decision)
            self.incidents.admit(decision)
            for unit, each in made.items():
                self._ask_scheme(unit, each.asked)
            return list(made)
        if isinstance(decision, Ended):
            plan = self._admitted.plan(decision.generation)
            if plan is None:
                return []
            self._wants.end(plan)
            self.incidents.end(job_key(plan.job, plan.generation))
            self._policies.forget(job_key(plan.job, plan.generation))
            for unit in terms(plan):
                self._crashes.forget(unit)
                self._proofs.forget(unit)
                self._asks.forget(unit)
                self.adaptive.forget(unit)
                for known in (self._terms, self._changed_us, self._proposed):
                    known.pop(unit, None)
                self._rollbacks.forget(unit)
                self._relieving.forget(unit)
                self.reassignment.forget(unit)
        return []

    def _ask_scheme(self, unit: str, asked: Asked) -> list[str]:
        of_driver = asked.adaptive and unit in self._terms and bool(self._terms[unit].host)
        return self._asks.scheme(unit, Asked(OF_DRIVERS, asked.offset) if of_driver else asked)

    def _withdraw(self, changes: Iterable[Change]) -> list[Change]:
        for change in changes:
            if self._proposed.get(change.unit) == change:
                del self._proposed[change.unit]
                self.reassignment.withdrawn(change.unit, self.assigned.of(change.unit))
        return []

    # -- proposing ----------------------------------------------------------------------------------------------------

    def _propose(self, units: Iterable[str], all_units: bool = False) -> list[Change]:
        """What is due for these units, in this order; each is asked for once until it is read back.

        all_units: they are all, the important ones first; else nobody gets a standby where not every unit can. While
        units wait for slots in an incident none does.
        """
        if not self.acting:
            return []
        changes: list[Change] = []
        rooms: dict[object, Room] = {}
        waits = self.incidents.waits(self.assigned)
        for unit in units:
            situation = self._situation(unit)
            if situation is None or unit in self._proposed:
                continue
            change = switching.next_change(situation, partial(self._room, situation, rooms))
            hurried = waits or (self._limited and not all_units)
            if change is not None and not (hurried and reasons.adds_standby(change)):
                self._proposed[unit] = change
                self.reassignment.proposed(change)
                changes.append(change)
                for room in rooms.values():
                    room.leave(situation.change)
                    room.enter(change)
        return changes

    def _situation(self, unit: str) -> Situation | None:
        """None: no plan that runs names the unit."""
        known = self._terms.get(unit)
        if known is None:
            return None
        standing = self.standings.of_unit(unit) or Standing(-1, Change(unit, 0))
        move, crash = self._asks.moves.get(unit), self._crashes.of(unit)
        policy, asked = self.standings.policy(job_key_of(unit)), self._asks.schemes[unit]
        return Situation(
            standing.change,
            offset=standing.offset,
            age_us=self._now_us - self._changed_us.get(unit, self._now_us),
            terms=known,
            asked=asked,
            detector=self.detector,
            covering=self._covering,
            asked_move=move,
            asked_move_age_us=0 if move is None else self._now_us - move.since_us,
            relief=self._relieving.wanted(unit),
            backup_to=self.reassignment.wanted(unit),
            want=self._wants.of(unit, self.standings),
            crash=crash,
            crash_age_us=0 if crash is None else self._now_us - crash.since_us,
            others_safe=partial(self._others_safe, unit),
            outranked=self.sharing.outranked(unit),
            policy=known.policy if policy is None else policy.policy,
            rollback=self._rollbacks.of(unit, self.assigned),
            policy_open=self._policies.before(job_key_of(unit), asked.offset, -1 if policy is None else policy.asked),
            verdict=self.adaptive.wanted(unit),
            part=None if known.host else self.incidents.part(unit, self.assigned),
            gathers=self.incidents.gathers(unit, self._now_us),
            proofs=self._proofs,
            asked_accept=self._asks.accepts.get(unit, -1),
        )

    def _others_safe(self, suspect: str) -> bool:
        """Whether a worker may be lost: no other unit is unprotected but those whose workers ended at their work."""
        return all(unit == suspect or self._crashes.of(unit) is not None for unit in self.exposed())

    def _room(self, situation: Situation, rooms: dict[object, Room]) -> Room:
        """Workers of the unit's kind whose bytes do not differ, and what all of them hold or were asked to hold.

        rooms: those that are known already in this turn, by kind and versions.
        """
        terms, change = situation.terms, situation.change
        kind = terms.host, terms.pin.modules, terms.pin.shown(change), change.differ
        if kind not in rooms:
            hosts = [b for b in self.detector.alive() if b.hosts == terms.host and not b.leaving]
            judged = [(beat, situation.fit(beat)) for beat in hosts]
            fitting = [Candidate.of(beat, shown=fit is Fit.EQUAL) for beat, fit in judged if fit is not Fit.DIFFERS]
            rooms[kind] = Room(fitting, self.detector.zones(), self.detector.hosts())
            for change in {**self.assigned.units(), **self._proposed}.values():
                rooms[kind].enter(change)
        return rooms[kind]

    # -- incidents ----------------------------------------------------------------------------------------------------

    def _look_at_incidents(self) -> None:
        """What failed together is restored in the order of a plan."""
        if not self.acting:
            return
        steady, copies = self.detector.steady, (c for one in self.assigned.units().values() for c in one.copies)
        all_there = all((copy.worker, copy.incarnation) in steady for copy in copies)
        if all_there and not self.incidents.any_open(self.assigned):
            self.incidents.rest(self._now_us)
            return
        due = self.incidents.due(
            self._situations(),
            self.assigned,
            room=lambda one: self._room(one, {}),
            busy=lambda unit: unit in self._proposed,
            heard=self.detector.listened,
            now_us=self._now_us,
        )
        self.incident_records += [record for record, _ in due]

    # -- the period of instability -------------------------------------------------------------------------------------

    def _failed(self, worker: str, units: Iterable[str]) -> None:
        self._instability.failed(worker, units, self._now_us - max(0, self.detector.silent_us(worker)))

    def _look_whether_stable(self) -> None:
        over = None
        if self._instability.open:
            over = self._instability.look(self._units(), self.exposed(), self._now_us)
        if over is not None:
            self.stable_again.append(over)

    # -- adaptive units -----------------------------------------------------------------------------------------------

    def _adapt(self) -> list[Change]:
        """Looks at every adaptive unit, every half second; one that nothing else concerns may get another scheme."""
        if not self.acting or not self.adaptive.due(self._now_us):
            return []
        found = (self._situation(unit) for unit in self._units() if self.assigned.units()[unit].adaptive)
        changes = self._propose(self.adaptive.look((one for one in found if one is not None), self._now_us))
        self.adaptive.looked({change.unit for change in changes})
        return changes

    # -- balance ------------------------------------------------------------------------------------------------------

    def _relieve(self) -> list[Change]:
        if not self.acting:
            return []
        unit = self._relieving.look(self._now_us, self._calm, self._surveyed)
        changes = self._propose([unit]) if unit else []
        self._relieving.done()
        return changes

    def _calm(self, calm_us: int) -> bool:
        return not self._proposed and self._calm_for_us() >= calm_us and self.at_rest()

    def _calm_for_us(self) -> int:
        return self._attention.attentive_us - max(self._stirred_us, self.detector.stirred_us)

    def at_rest(self) -> bool:
        """All workers answer, no unit changes or moves, and nobody waits for either."""
        unserved = self.sharing.unserved
        if self.incidents.any_open(self.assigned):
            return False
        return self.detector.calm and all(one.at_rest or one.change.unit in unserved for one in self._situations())

    def _surveyed(self) -> tuple[list[Placement], list[Host]]:
        """What every worker holds, and the workers."""
        rested = self._relieving.rested
        found = [
            survey.placement(one, rested(one.change.unit, one.terms.rebalance_us, self._now_us))
            for one in self._situations()
        ]
        return found, survey.fleet(self.detector)

    # -- the standbys move --------------------------------------------------------------------------------------------

    def _reassign(self) -> None:
        if self.acting:
            period_us = min((one.rebalance_us for one in self._terms.values()), default=0)
            self.reassignment.look(self._now_us, period_us, self._backed)

    def _backed(self, upkeep: Upkeep) -> tuple[list[Backed], list[str]]:
        room = Room(map(Candidate.of, self.detector.alive()))
        for change in self.assigned.units().values():
            room.enter(change)
        fleet, rested = survey.fleet(self.detector), self.reassignment.rested
        hosts = [host for host in fleet if room.takes_standby(host.worker)]
        found = (
            survey.backed(one, upkeep, hosts, rested(one.change.unit, one.terms.rebalance_us, self._now_us))
            for one in self._situations()
        )
        return [one for one in found if one is not None], [host.worker for host in fleet]

    # -- standbys share workers ---------------------------------------------------------------------------------------

    @property
    def _limited(self) -> bool:
        """Some worker takes no more than so many standbys."""
        return any(beat.standbys >= 0 for beat in self.detector.alive())

    def _share(self) -> None:
        if not self._limited:
            self.sharing.look((), (), ())
            return
        rooms, found = dict[object, Room](), list(self._situations())
        claims = [survey.claim(one, self._room(one, rooms)) for one in found]
        overfull = {worker for room in rooms.values() for worker in room.overfull()}
        self.sharing.look(
            [one for one in claims if one is not None], [one for each in found for one in survey.held(each)], overfull
        )
        excess = self.sharing.excess
        situation = None if excess is None else self._situation(excess.unit)
        if situation is not None and situation.followed:
            room, terms = self._room(situation, rooms), situation.terms
            place = room.for_secondary(situation.change.unit, situation.primary.worker, terms.spread)
            if place is not None and place.shown:
                self.reassignment.want(situation.change.unit, place.worker)
                self.sharing.moves()

    # -- units --------------------------------------------------------------------------------------------------------

    def _situations(self) -> Iterator[Situation]:
        """Of the units that have copies, and a plan."""
        found = (self._situation(unit) for unit in self._units())
        return (one for one in found if one is not None)

    def _all_units(self) -> list[str]:
        """Those first that are not as their jobs want them, in the order in which they go."""
        return [*sorted(self._wants.unmet(self.standings), key=self._rank), *sorted(self._units(), key=self._rank)]

    def _rank(self, unit: str) -> tuple[int, int]:
        """The lower, the more important; whoever has a turn in an incident comes first."""
        part, known = self.incidents.part(unit, self.assigned), self._terms.get(unit)
        turn = part.turn - MOST_UNITS if part is not None and part.granted else 0
        return turn, 0 if known is None else -known.priority

    def _units(self) -> list[str]:
        """Those that have copies."""
        return sorted(unit for unit, change in self.assigned.units().items() if change.copies)

    def _units_on(self, worker: str) -> list[str]:
        on = (u for u, change in self.assigned.units().items() if any(c.worker == worker for c in change.copies))
        return sorted(sorted(on), key=self._rank)

    def _units_of(self, worker: str, incarnation: str) -> list[str]:
        """Those that have a copy in this incarnation."""
        return list(self.assigned.of_incarnation(worker, incarnation))

    def _waits_us(self, unit: str) -> Iterable[int]:
        change, known = self.assigned.of(unit), self._terms.get(unit)
        if change is None or known is None:
            return
        for copy in change.copies:
            wait_us = self.detector.wait_us(copy.worker, copy.incarnation, known.fail_stop_us)
            if wait_us is not None:
                yield max(wait_us, 0)


def _run_of(copy: Copy | None) -> tuple[str, str] | None:
    return None if copy is None else (copy.worker, copy.incarnation)
