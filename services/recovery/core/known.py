"""The state that one replica holds: plans, goals, copies and workers as the logs state them, and each unit's situation.

Source: PROTOCOL 0.1, 8 and 13. Replicas differ only in how long each worker has been silent for them. Times are
microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from holdfast.schemas.assignments import Change, Standing, job_key_of
from holdfast.services.decisions.admitted import Admitted
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.decisions.standings import Standings
from holdfast.services.kernel.liveness.attention import Attention
from holdfast.services.kernel.liveness.detector import Detector
from holdfast.services.recovery.core.adaptive.controller import Adaptive
from holdfast.services.recovery.core.formats import Readers
from holdfast.services.recovery.core.instability import Instability
from holdfast.services.recovery.core.job.asks import Asks
from holdfast.services.recovery.core.job.incidents import Incidents
from holdfast.services.recovery.core.job.policies import OpenPolicies
from holdfast.services.recovery.core.job.rollbacks import Rollbacks
from holdfast.services.recovery.core.job.wants import Wants
from holdfast.services.recovery.core.outages.noting import Outages
from holdfast.services.recovery.core.placement.reassignment import Reassignment
from holdfast.services.recovery.core.placement.relieving import Relieving
from holdfast.services.recovery.core.placement.sharing import Sharing
from holdfast.services.recovery.core.replication.replanning import Replication
from holdfast.services.recovery.core.unit.facts.changing import Covering
from holdfast.services.recovery.core.unit.facts.crashes import Crashes
from holdfast.services.recovery.core.unit.facts.proving import Proofs
from holdfast.services.recovery.core.unit.facts.stance import Stance
from holdfast.services.recovery.core.unit.facts.terms import Terms
from holdfast.services.recovery.core.unit.rules import protection
from holdfast.services.recovery.core.unit.rules.blame import SUSPECT_US
from holdfast.services.recovery.core.unit.situation import Situation

MOST_UNITS = 2**30

Watched = tuple[str, str, int]
"""Worker, incarnation, and fail-stop time-out of a unit in microseconds."""


class ReplicaView:
    """The state that one replica holds; each subject is a fold of its own.

    Args: those of `Recovery`.

    acting: true once the replica has read the logs to the ends that they had at its start.
    proposed: by unit, the proposed change that is not read back yet.
    changed_us: by unit, the time at which its last change was read.
    stirred_us: the attentive time at which the last change of any unit was read.
    settled: by unit, the change under which only a failure or a request calls for another record.
    """

    def __init__(
        self,
        beat_us: int,
        echo_us: int | None,
        calm_us: int | None,
        reassignment: Reassignment,
        proof: int,
        fixed_grace_us: int | None = None,
    ) -> None:
        self.now_us = 0
        self.acting = False
        self.attention = Attention(echo_us)
        self.detector = Detector(beat_us, self.attention, fixed_grace_us)
        self.readers = Readers()
        self.standings = Standings()
        self.admitted = Admitted()
        self.terms: dict[str, Terms] = {}
        self.wants = Wants()
        self.asks = Asks()
        self.policies = OpenPolicies()
        self.rollbacks = Rollbacks()
        self.incidents = Incidents()
        self.instability = Instability()
        self.covering = Covering()
        self.crashes = Crashes()
        self.proofs = Proofs(proof)
        self.relieving = Relieving(calm_us)
        self.reassignment = reassignment
        self.sharing = Sharing()
        self.adaptive = Adaptive(beat_us)
        self.replication = Replication()
        self.outages = Outages()
        self.proposed: dict[str, Change] = {}
        self.settled: dict[str, Change | None] = {}
        self.changed_us: dict[str, int] = {}
        self.stirred_us = 0

    def advance(self, now_us: int) -> None:
        self.now_us = now_us
        self.attention.advance(now_us)

    @property
    def assigned(self) -> Assigned:
        return self.standings.assigned

    # -- one unit -----------------------------------------------------------------------------------------------------

    def situation(self, unit: str) -> Situation | None:
        """Returns the situation of a unit; None if no plan of a running job names the unit."""
        known = self.terms.get(unit)
        if known is None:
            return None
        standing = self.standings.of_unit(unit) or Standing(-1, Change(unit, 0))
        move, crash = self.asks.moves.get(unit), self.crashes.of(unit)
        policy, asked = self.standings.policy(job_key_of(unit)), self.asks.schemes[unit]
        return Situation(
            standing.change,
            offset=standing.offset,
            age_us=self.now_us - self.changed_us.get(unit, self.now_us),
            terms=known,
            asked=asked,
            detector=self.detector,
            covering=self.covering,
            asked_move=move,
            asked_move_age_us=0 if move is None else self.now_us - move.since_us,
            relief=self.relieving.wanted(unit),
            backup_to=self.reassignment.wanted(unit),
            want=self.wants.of(unit, self.standings),
            crash=crash,
            crash_age_us=0 if crash is None else self.now_us - crash.since_us,
            others_safe=partial(self._others_safe, unit),
            outranked=self.sharing.outranked(unit),
            policy=known.policy if policy is None else policy.policy,
            rollback=self.rollbacks.of(unit, self.assigned, partial(self.incidents.above, unit)),
            joins=self.incidents.joins(unit, self.assigned),
            policy_open=self.policies.before(job_key_of(unit), asked.offset, -1 if policy is None else policy.asked),
            verdict=self.adaptive.wanted(unit),
            directed=self.replication.directed(unit),
            part=self.incidents.part(unit, self.assigned),
            gathers=self.incidents.gathers(unit, self.now_us),
            proofs=self.proofs,
            asked_accept=self.asks.accepts.get(unit, -1),
        )

    def _others_safe(self, suspect: str) -> bool:
        """True if a worker may be lost: each other unit is protected, has no place for a standby, or ended its own
        workers.
        """
        found = (one for one in self.situations() if not protection.protected(one) and not self._without_place(one))
        return all(one.change.unit == suspect or self.crashes.of(one.change.unit) is not None for one in found)

    def silences(self) -> dict[Watched, int | None]:
        """Returns the number of missed heartbeats of each process that a copy depends on; None if the process is
        gone.
        """
        watched: set[Watched] = set()
        for unit, change in self.assigned.units().items():
            known = self.terms.get(unit)
            if known is not None:
                watched.update([(copy.worker, copy.incarnation, known.fail_stop_us) for copy in change.copies])
        found = self.detector
        return {one: None if found.gone(*one) else found.misses(one[0], one[1]) for one in watched}

    def waits_us(self, watched: Iterable[Watched]) -> Iterator[int]:
        """Returns the attentive time until each of these workers misses its next heartbeat or is gone; none for a gone
        worker.
        """
        waits = (self.detector.wait_us(*one) for one in watched)
        return (max(wait_us, 0) for wait_us in waits if wait_us is not None)

    # -- all of them --------------------------------------------------------------------------------------------------

    def situations(self) -> Iterator[Situation]:
        """Situations of the units that have copies and a plan."""
        found = (self.situation(unit) for unit in self.units())
        return (one for one in found if one is not None)

    def units(self) -> list[str]:
        """Units that have copies."""
        return sorted(unit for unit, change in self.assigned.units().items() if change.copies)

    def units_on(self, worker: str) -> list[str]:
        return self._in_order(self._on(worker))

    def unsettled_on(self, worker: str) -> list[str]:
        """Units with a copy on the worker for which the progress of their copies may make a record due."""
        return self._in_order(unit for unit, change in self._on(worker).items() if self.settled.get(unit) is not change)

    def _on(self, worker: str) -> dict[str, Change]:
        found: dict[str, Change] = {}
        for unit, change in self.assigned.units().items():
            for copy in change.copies:
                if copy.worker == worker:
                    found[unit] = change
        return found

    def _in_order(self, units: Iterable[str]) -> list[str]:
        return sorted(sorted(units), key=self._rank())

    def all_units(self) -> list[str]:
        """Returns all units in the order of their turns, the units whose copies do not meet the goal of their job
        first.
        """
        rank = self._rank()
        return [*sorted(self.wants.unmet(self.standings), key=rank), *sorted(self.units(), key=rank)]

    def unsettled(self) -> list[str]:
        """Units for which a record may be due although nothing has failed and no record was read."""
        rank, wanted, settled = self._rank(), self._wanted(), self.settled
        unmet, placed = self.wants.unmet(self.standings), sorted(self.assigned.units().items())
        due = [unit for unit in unmet if unit in wanted or not self._is_settled(unit)]
        busy = [u for u, change in placed if change.copies and (settled.get(u) is not change or u in wanted)]
        return [*sorted(due, key=rank), *sorted(busy, key=rank)]

    def _is_settled(self, unit: str) -> bool:
        change = self.assigned.of(unit)
        return change is not None and self.settled.get(unit) is change

    def _wanted(self) -> set[str]:
        """Units for which a fold (balance, reassignment, sharing, adaptive, replication) has a change due now."""
        folds = self.relieving, self.reassignment, self.sharing, self.adaptive, self.replication
        return {unit for fold in folds for unit in fold.concerned}

    def _rank(self) -> Callable[[str], tuple[int, int]]:
        """Returns the sort key of units: a lower key is more important. A unit with its turn in an incident comes
        first.
        """
        incident = self.incidents.any_open(self.assigned)

        def rank(unit: str) -> tuple[int, int]:
            part, known = self.incidents.part(unit, self.assigned) if incident else None, self.terms.get(unit)
            turn = part.turn - MOST_UNITS if part is not None and part.granted else 0
            return turn, 0 if known is None else -known.priority

        return rank

    def unprotected(self) -> list[str]:
        """Placed units whose copies are not placed as their scheme requires, or do not answer."""
        return [one.change.unit for one in self.situations() if not protection.protected(one)]

    def exposed(self) -> list[str]:
        """Unprotected units that can be protected: some worker has, or gets, a place for their standbys."""
        return [unit for unit in self.unprotected() if unit not in self.sharing.unserved]

    def _without_place(self, s: Situation) -> bool:
        """True if no worker has a place for the unit's standby: each is full, or only the primary's worker exists."""
        if s.change.unit in self.sharing.unserved:
            return True
        alone = s.stance is Stance.ALONE and s.ready(s.primary)
        within_us = max(s.terms.fail_stop_us, SUSPECT_US)
        return alone and self.detector.expected(s.terms.host, within_us) <= {s.primary.worker}

    def unplaced(self) -> list[str]:
        """Units that are to run and have no copies; a unit in quarantine is not to run."""
        found = ((unit, self.assigned.of(unit)) for unit in self.wants.without_copies(self.standings))
        return [unit for unit, change in found if change is None or change.deadly is None]

    def jobs(self) -> list[str]:
        """Jobs that run: `<job>@<generation>`."""
        return self.wants.jobs()

    # -- rest and calm ------------------------------------------------------------------------------------------------

    def at_rest(self) -> bool:
        """True if all workers answer, and no unit changes, moves or waits for a change."""
        if self.incidents.any_open(self.assigned):
            return False
        return self.detector.calm and self.rest(self.units())

    def rest(self, units: Iterable[str]) -> bool:
        """True if none of these units changes, moves or waits for a change."""
        found = filter(None, map(self.situation, units))
        return all(protection.at_rest(one) or self._without_place(one) for one in found)

    @property
    def restful(self) -> bool:
        """True if rest depends on the units alone: all workers answer, no incident is open, and no proposal is under
        way.
        """
        free = self.acting and not self.proposed
        return free and self.detector.calm and not self.incidents.any_open(self.assigned)

    def quiet(self) -> bool:
        """True if all units and workers are at rest, and this replica has no proposal under way."""
        return self.acting and not self.proposed and self.at_rest()

    def calm(self, calm_us: int) -> bool:
        """True if all units have been at rest for `calm_us`, and no proposal is under way."""
        calm_for_us = self.attention.attentive_us - max(self.stirred_us, self.detector.stirred_us)
        return not self.proposed and calm_for_us >= calm_us and self.at_rest()

    @property
    def limited(self) -> bool:
        """True if some worker limits the number of its standbys."""
        return any(beat.standbys >= 0 for beat in self.detector.alive())
