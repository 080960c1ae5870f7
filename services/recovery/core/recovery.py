"""Recovery: folds the records about plans, goals, copies and workers, and proposes the assignments that are due.

Source: PROTOCOL 0.1, 5, 8 and 13. Any number of replicas run at once. Each replica proposes the records that it finds
due, and follows only the records that it reads back as valid, so the standing of a unit is a function of the logs.
Replicas differ only in how long each worker has been silent for them. The effects of a record are in reading.py, the
table of one unit in unit/table/switching.py; this file holds the work that time makes due. Times are microseconds.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from holdfast.schemas.assignments import Change
from holdfast.schemas.heartbeats import Exit
from holdfast.schemas.incidents import Incident
from holdfast.services.kernel.liveness.attention import LOOP_US
from holdfast.services.recovery.core import observed, survey
from holdfast.services.recovery.core.instability import Period
from holdfast.services.recovery.core.known import ReplicaView, Watched
from holdfast.services.recovery.core.placement.reassignment import Reassignment
from holdfast.services.recovery.core.placement.room import Room
from holdfast.services.recovery.core.proposing import propose, room
from holdfast.services.recovery.core.reading import Reading
from holdfast.services.recovery.core.resting import Resting
from holdfast.services.recovery.core.unit.facts.proving import BATCHES
from holdfast.services.recovery.core.unit.facts.terms import Asked, AskedMove
from holdfast.services.recovery.core.unit.rules import reassigning
from holdfast.services.recovery.core.unit.table import switching

BEAT_US = 100_000
SWEEP_US, WHOLE_US = 100_000, 1_000_000
"""Longest time between two sweeps of the unsettled units, and of all units. A record that concerns all units and a
missed heartbeat cause a sweep of all units, too."""
AT_ONCE, PORTION_US = 50, 5_000
"""Number of units that one turn handles, so that the turn is short, and the time until the next turn for the rest."""


class Recovery:
    """The core of one replica.

    Args:
        beat_us: interval of the workers' heartbeats.
        echo_us: interval at which the shell sends itself a heartbeat; None: it sends none, and silence always counts.
        calm_us: time for which all units must have been calm before a unit moves for balance; None: no such moves.
        reassignment: planner of moves of standbys.
        proof: number of equal batches after which a copy with other versions may lead.
        fixed_grace_us: grace of every heartbeat; None: it follows the heartbeats of each worker.

    incident_records: records to append to `assignments`, until the shell takes them.
    stable_again: periods of instability that are over, until published.
    """

    def __init__(
        self,
        beat_us: int = BEAT_US,
        echo_us: int | None = None,
        calm_us: int | None = None,
        reassignment: Reassignment | None = None,
        proof: int = BATCHES,
        fixed_grace_us: int | None = None,
    ) -> None:
        self.known = ReplicaView(
            beat_us, echo_us, calm_us, reassignment or Reassignment(), proof=proof, fixed_grace_us=fixed_grace_us
        )
        self.reading = Reading(self.known)
        self.incident_records: list[Incident] = []
        self.stable_again: list[Period] = []
        self._swept_us = self._due_us = self._whole_us = 0
        self._concerns_all = True
        self._silences: dict[Watched, int | None] = {}
        self._queue: dict[str, None] = {}
        self._resting = Resting()

    # -- events -------------------------------------------------------------------------------------------------------

    def observe(self, event: observed.Event, now_us: int) -> list[Change]:
        """Takes an event; returns the changes to append to `assignments` in one record.

        Call it for all records of a turn, then `tick`.
        """
        self.known.advance(now_us)
        return propose(self.known, self._concerned(event, now_us))

    def _concerned(self, event: observed.Event, now_us: int) -> Sequence[str]:
        """Takes an event; returns the units that may have their turn now."""
        known, reading = self.known, self.reading
        match event:
            case observed.Began(standings):
                reading.begin(standings)
            case observed.BeatRead(record):
                known.attention.echo(now_us)
                if known.acting and isinstance(record, Exit):
                    self._look_at_all(now_us)
                return reading.beat(record)
            case observed.EchoRead():
                known.attention.echo(now_us)
            case observed.PeerRead(name, reads):
                known.attention.echo(now_us)
                known.readers.hear(name, reads, known.attention.attentive_us)
            case observed.AssignmentRead(record, offset):
                self._look_at_all(now_us)
                return reading.assigned(record, offset)
            case observed.DecisionRead(decision):
                return reading.decided(decision)
            case observed.SchemeAsked(unit, scheme, offset):
                return reading.scheme_asked(unit, Asked(scheme, offset))
            case observed.PolicyAsked(job, offset):
                known.policies.ask(job, offset)
            case observed.MoveAsked(unit, worker, offset):
                return known.asks.move(unit, AskedMove(worker, offset, now_us))
            case observed.RollbackAsked(job, unit, offset):
                units = [*known.incidents.above(unit), unit] if unit else known.wants.units(job)
                return known.rollbacks.ask(units, offset)
            case observed.DrillAsked(unit, offset):
                return known.asks.move(unit, AskedMove("", offset, now_us, drill=True))
            case observed.VersionsAccepted(job, offset):
                return known.asks.accept(known.wants.units(job), offset)
            case observed.TakeoverJudged(unit, needed):
                known.adaptive.judged(unit, needed)
            case observed.CaughtUp():
                reading.caught_up()
                return known.all_units()
            case observed.Replanned(answer):
                known.replication.answered(answer, known.assigned, known.quiet, now_us)
            case observed.Withdrawn(changes, incidents, replications, outages):
                for outage in outages:
                    known.outages.withdrawn(outage)
                for plan in replications:
                    known.replication.withdrawn(plan)
                for incident in incidents:
                    known.incidents.withdraw(incident)
                reading.withdraw(changes)
        return []

    def tick(self, now_us: int) -> list[Change]:
        """Returns the changes that time makes due. Call it in every turn, after `observe` of all that could be read."""
        known = self.known
        known.advance(now_us)
        if now_us < min(self._due_us, self._swept_us + SWEEP_US):
            return []
        silences = known.silences()
        silent = {one[0] for one, misses in silences.items() if self._silences.get(one) != misses}
        whole = self._concerns_all or silences != self._silences or now_us >= self._whole_us + WHOLE_US
        self._silences = silences
        # a sweep is not due if a worker that was about to miss a heartbeat has sent it
        due = whole or self._queue or now_us >= self._swept_us + SWEEP_US
        changes = self._sweep(whole, silent) if due else []
        wait_us = min(known.waits_us(silences), default=SWEEP_US)
        self._due_us = now_us + (min(wait_us, PORTION_US) if self._queue else wait_us)
        return changes

    def _sweep(self, whole: bool, silent: Collection[str]) -> list[Change]:
        """Returns the changes due for all or for the unsettled units.

        silent: workers whose number of missed heartbeats has changed.
        """
        known = self.known
        self._swept_us = known.now_us
        self._concerns_all = False
        self._reassign()
        self._share()
        self._look_at_incidents()
        self._replicate()
        if known.acting:
            known.outages.look(known.assigned, known.situation, known.detector, known.now_us)
        together = known.limited or known.incidents.any_open(known.assigned)
        if whole or together:
            self._whole_us = known.now_us
            units = known.all_units()
        else:
            units = known.unsettled()
        if not together:
            units = self._portion(units, silent)
        changes = propose(known, units, all_units=True) + self._relieve() + self._adapt()
        self._look_whether_stable()
        return changes

    def _portion(self, units: Sequence[str], silent: Collection[str]) -> list[str]:
        """Chooses the units that have their turn now; units with a copy on one of these workers come first."""
        if len(units) <= AT_ONCE and not self._queue:
            return list(units)
        of = self.known.assigned.units()
        first = [unit for unit in units if unit in of and any(copy.worker in silent for copy in of[unit].copies)]
        queue = list(dict.fromkeys([*first, *self._queue, *units]))
        self._queue = dict.fromkeys(queue[AT_ONCE:])
        return queue[:AT_ONCE]

    def _look_at_all(self, now_us: int) -> None:
        self._due_us = min(self._due_us, now_us)
        self._concerns_all = True

    def next_deadline(self) -> int:
        """The latest time for the next `tick`; an event may make it earlier, never later."""
        return min(self._due_us, self._swept_us + SWEEP_US, self.known.now_us + LOOP_US // 2)

    @property
    def format_due(self) -> int:
        """The format in which the cluster's processes are to write from now on; 0: no change of format is due."""
        known = self.known
        return known.readers.due(known.assigned.format, known.attention.attentive_us)

    def check_invariants(self) -> None:
        """Raises AssertionError if a placed unit has not exactly one committer, or a proposal is out of date."""
        assigned = self.known.assigned
        for unit, change in assigned.units().items():
            assert change.well_formed, f"{unit}#{change.epoch}: not exactly one copy commits, or two share a worker"
        for unit, change in self.known.proposed.items():
            switching.check_invariants(change)
            assert change.epoch > assigned.epoch(unit), f"{unit}#{change.epoch}: proposed, but decided"

    # -- the work of each sweep ---------------------------------------------------------------------------------------

    def _reassign(self) -> None:
        """Plans moves of standbys to workers where a failure would cost less recovery."""
        known = self.known
        if not known.acting:
            return
        period_us = min((one.rebalance_us for one in known.terms.values()), default=0)
        known.reassignment.look(known.now_us, period_us, lambda upkeep: survey.all_backed(known, upkeep))

    def _share(self) -> None:
        """Gives the places of standbys to the most important units, where there are fewer places than units."""
        known = self.known
        if not known.limited:
            known.sharing.look((), (), ())
            return
        rooms, found = dict[object, Room](), list(known.situations())
        claims = [survey.claim(one, room(known, one, rooms)) for one in found]
        overfull = {worker for one in rooms.values() for worker in one.overfull()}
        known.sharing.look(
            [one for one in claims if one is not None], [one for each in found for one in survey.held(each)], overfull
        )
        excess = known.sharing.excess
        situation = None if excess is None else known.situation(excess.unit)
        if situation is not None and reassigning.followed(situation):
            unit, there = situation.change.unit, room(known, situation, rooms)
            place = there.for_secondary(situation.primary.worker, situation.terms.spread)
            if place is not None and place.shown:
                known.reassignment.want(unit, place.worker)
                known.sharing.moves()

    def _look_at_incidents(self) -> None:
        """Restores units that failed together in the order of a plan."""
        known = self.known
        if not known.acting:
            return
        steady, copies = known.detector.steady, (c for one in known.assigned.units().values() for c in one.copies)
        all_there = all((copy.worker, copy.incarnation) in steady for copy in copies)
        if all_there and not known.incidents.any_open(known.assigned):
            known.incidents.rest(known.now_us)
            return
        due = known.incidents.due(
            known.situations(),
            known.assigned,
            room=lambda one: room(known, one, {}),
            busy=lambda unit: unit in known.proposed,
            heard=known.detector.listened,
            now_us=known.now_us,
        )
        self.incident_records += [record for record, _ in due]

    def _replicate(self) -> None:
        """Asks the planner of replicas, and updates the units that follow its plans in this sweep."""
        known = self.known
        if known.acting:
            asked = known.asks.schemes
            calm = partial(self._resting.look, known)
            known.replication.look(known.assigned, lambda unit: asked[unit].offset, calm, known.now_us)

    def _relieve(self) -> list[Change]:
        """Returns the change that moves a unit for balance, if one is due."""
        known = self.known
        if not known.acting:
            return []
        unit = known.relieving.look(known.now_us, known.calm, lambda: survey.all_placed(known))
        changes = propose(known, [unit]) if unit else []
        known.relieving.done()
        return changes

    def _adapt(self) -> list[Change]:
        """Judges every adaptive unit each half second, and proposes another scheme for a unit that nothing else
        changes.
        """
        known = self.known
        if not known.acting or not known.adaptive.due(known.now_us):
            return []
        changes_of = known.assigned.units()
        found = (known.situation(unit) for unit in known.units() if changes_of[unit].adaptive)
        changes = propose(known, known.adaptive.look((one for one in found if one is not None), known.now_us))
        known.adaptive.looked({change.unit for change in changes})
        return changes

    def _look_whether_stable(self) -> None:
        """Ends the period of instability once every unit is protected again."""
        known, over = self.known, None
        if known.instability.open:
            over = known.instability.look(known.units(), known.exposed(), known.now_us)
        if over is not None:
            self.stable_again.append(over)
