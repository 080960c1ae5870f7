"""Where one unit stands: its last valid assignment, and what the detector says of the workers that it names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from schemas.assignments import PRIMARY, Change, Copy, Flags
from schemas.heartbeats import CopyState, Heartbeat
from services.kernel.liveness.detector import Detector
from services.kernel.logs.policies import ALIGNED
from services.kernel.plans.pinning import Fit
from services.kernel.protection.fitting import unfit
from services.recovery.core.adaptive.choosing import Verdict
from services.recovery.core.job.rollbacks import NOWHERE, Back
from services.recovery.core.placement.domains import Domains
from services.recovery.core.placement.sharing import Outranked
from services.recovery.core.unit.changing import Covering, Gate, Step, caught_up, next_step
from services.recovery.core.unit.crashes import MOST_CRASHES, OF_LOADING, Crash
from services.recovery.core.unit.proving import Proofs
from services.recovery.core.unit.schemes import SCHEMES, Rung, Scheme
from services.recovery.core.unit.terms import Asked, AskedMove, Part, Terms, Want

CALM_US = 1_000_000
"""A new secondary comes so long after the former was lost, or its unit taken over, which lasts a tenth of that."""

HEARD_US = 2_000_000
"""A worker that a replica has not heard by then, after a move to it was asked for, does not answer."""

SUSPECT_US = 10_000_000
"""A unit that may have ended its worker waits at most so long until every other one is protected again."""

STATUS_US = 250_000
"""By then the status of a process that has died is known, or nobody says it."""

MOVE_US = 60_000_000
"""A new copy that has not caught up by then is given up."""


class Stance(Enum):
    """How the copies of a unit stand to each other, as its last valid assignment says."""

    UNPLACED = "unplaced"
    ALONE = "alone"
    NORMAL = "normal"
    SWITCHED = "switched"
    ROLLING_BACK = "rolling back"
    MOVING = "moving"
    REASSIGNING = "reassigning"


MOST: Mapping[Stance, int] = {
    Stance.UNPLACED: 0,
    Stance.ALONE: 1,
    Stance.NORMAL: 2,
    Stance.SWITCHED: 2,
    Stance.ROLLING_BACK: 2,
    Stance.MOVING: 3,
    Stance.REASSIGNING: 3,
}
"""Copies that the records of the table give a unit at most, by the stance that they lead to."""
UNDER_WAY = (Stance.MOVING, Stance.REASSIGNING)
"""Stances with a copy that is there for a while only."""


def stance(change: Change | None) -> Stance:
    """By the flags alone, so that every replica says the same."""
    if change is None or not change.copies:
        return Stance.UNPLACED
    if change.arriving is not None:
        return Stance.MOVING
    if change.replacing is not None:
        return Stance.REASSIGNING
    if len(change.copies) == 1:
        return Stance.ALONE
    primary = change.copies[0].flags
    if primary.commit:
        return Stance.NORMAL
    return Stance.ROLLING_BACK if primary.process else Stance.SWITCHED


def odd_copies(change: Change) -> str:
    """Why no row of the table gives a unit these copies; empty if one may."""
    most = MOST[stance(change)]
    if len(change.copies) > most:
        return f"{len(change.copies)} copies, and a unit that is {stance(change).value} has at most {most}"
    for copy in change.copies:
        known = copy.flags == PRIMARY if copy.flags.commit else Rung.of(copy.flags) is not None
        if not known:
            return f"{copy.worker} has flags of no scheme: {copy.flags}"
    return ""


def unexplained(change: Change) -> str:
    """What no row of the table gives in a record; empty if a row may have made it."""
    unknown = f"there is no scheme '{change.scheme}'" if change.scheme not in SCHEMES else ""
    return odd_copies(change) or unknown


_SERVES: dict[str, tuple[str, ...]] = {
    "virgin": ("deployed", "restoring", "synced", "opening", "running", "ended"),
    "synced": ("synced", "opening", "running", "ended"),
    "live": ("running", "ended"),
}
"""Reported states in which a copy with that state flag has reached what its flags promise."""


@dataclass(frozen=True, slots=True)
class Situation:
    """One unit at one moment.

    offset: of the change in `assignments`. age_us: since this replica read it. asked: the scheme asked for last.
    asked_move: the move asked for last, and for how long this replica knows of it. relief: the worker to which balance
    wants the unit moved. backup_to: the worker to which the unit's standby is to go. want: what its job wants of it.
    crash: what its workers ended at, unless it has come further since; crash_age_us: since the last of these.
    others_safe: whether every other unit is protected. outranked: why its standby goes, though nothing has failed.
    policy: the checkpoint policy of its job. policy_open: another one was asked for before the scheme, and that is not
    answered. rollback: asked for, and to where. verdict: of the controller of adaptive units, if it wants another
    scheme. part: in an incident; None: there is none. gathers: further units may turn out to be stranded. proofs: what
    copies with other versions have shown. asked_accept: offset of the last command that lets the versions lead that run
    now.
    """

    change: Change
    offset: int
    age_us: int
    terms: Terms
    asked: Asked
    detector: Detector
    covering: Covering
    asked_move: AskedMove | None = None
    asked_move_age_us: int = 0
    relief: str = ""
    backup_to: str = ""
    want: Want | None = None
    crash: Crash | None = None
    crash_age_us: int = 0
    others_safe: Callable[[], bool] = lambda: True
    outranked: Outranked | None = None
    policy: str = ""
    policy_open: bool = False
    rollback: Back = NOWHERE
    verdict: Verdict | None = None
    part: Part | None = None
    gathers: bool = False
    proofs: Proofs = field(default_factory=Proofs)
    asked_accept: int = -1

    @property
    def stance(self) -> Stance:
        return stance(self.change)

    @property
    def scheme(self) -> Scheme:
        return SCHEMES.get(self.change.scheme, SCHEMES["none"])

    @property
    def target(self) -> Rung:
        """Where the scheme wants the secondary."""
        return self.terms.target(self.scheme.name)

    @property
    def next_target(self) -> Rung:
        """Where the secondary is to get first: with something to show it processes, and sends nothing, until then."""
        if self.target is Rung.ABSENT or self.may_lead(self.secondary):
            return self.target
        return Rung.STANDBY

    @property
    def target_flags(self) -> Flags:
        """For a copy that continues as secondary; where the scheme has none, it is let go in a later record."""
        return (self.target if self.target is not Rung.ABSENT else Rung.HOT).flags

    @property
    def primary(self) -> Copy:
        return self.change.copies[0]

    @property
    def secondary(self) -> Copy:
        return self.change.copies[1]

    @property
    def misses(self) -> int | None:
        """How many heartbeats in a row a leader may miss."""
        return self.terms.misses_of(self.scheme.name)

    @property
    def others(self) -> tuple[Copy, ...]:
        """All copies but the primary."""
        return self.change.copies[1:]

    # -- what its job wants -------------------------------------------------------------------------------------------

    @property
    def wanted(self) -> bool:
        """It is to have copies, has none, and every worker that could take one was heard; not in quarantine."""
        if self.want is None or not self.want.placed or self.change.deadly is not None:
            return False
        return not self.change.copies and self.detector.listened

    @property
    def new(self) -> bool:
        """No record has ever named it."""
        return self.change.epoch == 0

    @property
    def unwanted(self) -> bool:
        """Its job stops, and no record behind that goal has taken its copies."""
        want = self.want
        return want is not None and not want.placed and (bool(self.change.copies) or want.undone(self.offset))

    @property
    def crowded(self) -> bool:
        """It has more copies than the table has rows for: the doing of a version that knows why."""
        return len(self.change.copies) > MOST[self.stance]

    # -- incidents ----------------------------------------------------------------------------------------------------

    @property
    def stranded(self) -> bool:
        """No copy of it can continue, or none that may: it has to be placed again. In an incident nobody waits for one
        worker.

        What a unit may have done itself is no incident.
        """
        left_alone = not self.change.copies or self.terms.host or self.over or self.crowded
        if left_alone or self.unwanted or self.deadly or self._blamed:
            return False
        gone = all(self.gone(copy) for copy in self.change.copies if self.may_lead(copy))
        return gone or (self.stance is Stance.ALONE and (self.lost(self.primary) or self.given_up))

    @property
    def given_up(self) -> bool:
        """Its only copy is silent, and its scheme does not wait for that."""
        return not self.scheme.rolls_back and self.silent(self.primary) and self.target is Rung.ABSENT

    @property
    def its_turn(self) -> bool:
        return self.part is not None and self.part.granted and self.stranded

    @property
    def silent_hosts(self) -> list[str]:
        """Workers that are not quite gone, and have lost a copy of it: it is placed elsewhere."""
        named = {(copy.worker, copy.incarnation) for copy in self.change.copies}
        return [beat.worker for beat in self.detector.alive() if (beat.worker, beat.incarnation) in named]

    @property
    def unequal_hosts(self) -> list[str]:
        """Workers on which no copy of it may lead at once."""
        return [beat.worker for beat in self.detector.alive() if self.fit(beat) is not Fit.EQUAL]

    @property
    def slot(self) -> Heartbeat | None:
        """The worker on which it is to be restored, if that can take it."""
        place = None if self.part is None else self.part.place
        beat = None if place is None else self.host(place.worker)
        there = beat is not None and place is not None and beat.incarnation == place.incarnation
        fits = beat is not None and not beat.leaving and self.fit(beat) is Fit.EQUAL
        return beat if there and fits else None

    @property
    def held_back(self) -> bool:
        """It is restored when its turn comes."""
        return self.part is not None and self.stranded

    @property
    def runs(self) -> bool:
        """Its leader processes, or has ended."""
        leader = self.change.committer
        report = None if leader is None or self.gone(leader) else self.report(leader)
        return self.over or (report is not None and report.state in _SERVES["live"])

    # -- what its workers died of --------------------------------------------------------------------------------------

    @property
    def deadly(self) -> bool:
        """Its workers ended at the same place, again and again. While a copy runs, others that cannot be loaded are
        not needed."""
        if self.crash is None or self.crash.count < MOST_CRASHES:
            return False
        return self.crash.batch > 0 or self.crash.what not in OF_LOADING or not self._runs

    @property
    def unloadable(self) -> bool:
        """No further copy is loaded beside the one that runs."""
        return self.crash is not None and self.crash.what in OF_LOADING and self.crash.count >= MOST_CRASHES

    @property
    def suspect(self) -> bool:
        """It may end the next worker, too, so it waits until no other unit loses both of its copies by that.

        A first crash by a signal from outside says nothing; how it was is known a moment later.
        """
        return (self._crashed_lately or self._hangs) and not self.others_safe()

    @property
    def _crashed_lately(self) -> bool:
        if self.crash is None or self.crash_age_us >= SUSPECT_US:
            return False
        return self._blamed or (self.crash.status is None and self.crash_age_us < STATUS_US)

    @property
    def _blamed(self) -> bool:
        """Workers have ended at its work, and nothing outside did that."""
        if self.crash is None or self.crash_age_us >= SUSPECT_US:
            return False
        return self.crash.count > 1 or self.crash.by_itself

    @property
    def _hangs(self) -> bool:
        """The loop of its primary's worker hangs, and in its work."""
        copies = self.change.copies[:1]
        turns = (self.detector.turn(copy.worker, copy.incarnation) for copy in copies)
        within = any(turn is not None and turn.unit == self.change.unit for turn in turns)
        return within and self.detector.silent_us(self.primary.worker) < SUSPECT_US

    @property
    def _runs(self) -> bool:
        reports = (self.report(copy) for copy in self.change.copies if not self.gone(copy))
        return any(report is not None and report.state == "running" for report in reports)

    # -- what the detector says of a copy -----------------------------------------------------------------------------

    def report(self, copy: Copy) -> CopyState | None:
        return self.detector.report(copy.worker, copy.incarnation, self.change.unit)

    def gone(self, copy: Copy) -> bool:
        return self.detector.gone(copy.worker, copy.incarnation, self.terms.fail_stop_us)

    def suspected(self, copy: Copy, misses: int | None) -> bool:
        return misses is not None and self.detector.misses(copy.worker, copy.incarnation) >= misses

    def lost(self, copy: Copy) -> bool:
        """Gone, and not worth waiting for: without misses the scheme waits for the worker to return as it was."""
        if self.misses is not None:
            return self.gone(copy)
        return (
            self.returned(copy)
            or self._lives_otherwise(copy)
            or self.detector.silent_us(copy.worker) >= self.terms.fail_stop_us
        )

    def returned(self, copy: Copy) -> bool:
        """A later incarnation of its worker lives, and can take the unit."""
        return self.successor(copy) is not None

    def successor(self, copy: Copy) -> Heartbeat | None:
        """The later incarnation of its worker, if that lives and may lead."""
        beat = self._later(copy)
        return beat if beat is not None and self.fit(beat) is Fit.EQUAL else None

    def _lives_otherwise(self, copy: Copy) -> bool:
        """A later incarnation lives, with versions that may not lead: it is never silent, and may not get it back."""
        return self._later(copy) is not None and not self.returned(copy)

    def _later(self, copy: Copy) -> Heartbeat | None:
        alive = (beat for beat in self.detector.alive() if beat.worker == copy.worker)
        return next((beat for beat in alive if beat.incarnation > copy.incarnation), None)

    @property
    def loss(self) -> str:
        """What happened to the workers that held its copies, for the reason of a record that places the unit again."""
        concerned = (copy for copy in self.change.copies if self.may_lead(copy) or self.gone(copy))
        return ", ".join(map(self._loss, concerned))

    def _loss(self, copy: Copy) -> str:
        if self.misses is None and self.returned(copy):
            return f"worker {copy.worker} returned"
        if self.misses is None and self._lives_otherwise(copy):
            return f"worker {copy.worker} returned with other versions"
        if self.misses is not None and self.detector.ended(copy.worker, copy.incarnation):
            return f"worker {copy.worker} ended"
        if turn := self.detector.turn(copy.worker, copy.incarnation):
            return f"worker {copy.worker} {turn}"
        return f"worker {copy.worker} silent for {max(self.detector.silent_us(copy.worker), 0) / 1_000_000:.1f} s"

    def silent(self, copy: Copy) -> bool:
        """Suspected, but perhaps not gone."""
        return self.suspected(copy, self.misses)

    def ready(self, copy: Copy) -> bool:
        """It can take over at once: it may lead, answers, and has reached what its flags promise."""
        report = self.report(copy)
        return (
            report is not None
            and self.may_lead(copy)
            and report.state in _SERVES.get(copy.flags.state, ())
            and not self.gone(copy)
            and not self.suspected(copy, 1)
        )

    def leaving(self, copy: Copy) -> bool:
        return self.detector.leaving(copy.worker, copy.incarnation)

    def answers(self, copy: Copy) -> bool:
        return not self.gone(copy) and self.detector.answers(copy.worker, copy.incarnation, self.offset)

    # -- with which versions it runs ----------------------------------------------------------------------------------

    def fit(self, beat: Heartbeat) -> Fit:
        """How the versions of a worker stand to the unit."""
        return self.terms.pin.fit(self.change, beat.versions)

    def may_lead(self, copy: Copy) -> bool:
        """It leads, or its versions have shown equal bytes."""
        return self.change.unshown_of(copy) is None

    @property
    def calm(self) -> bool:
        """Takeovers around the last change are over: to load another copy costs workers what those need."""
        return self.age_us >= CALM_US

    # -- what the unit has reached ------------------------------------------------------------------------------------

    def caught_up(self, copy: Copy, leader: Copy) -> bool:
        return caught_up(self.report(copy), self.report(leader), self.change.epoch) and not self.suspected(copy, 1)

    @property
    def step(self) -> Step | None:
        """The next step of the secondary towards its scheme, whether its gate is open or not."""
        return next_step(Rung.of(self.secondary.flags), self.next_target)

    @property
    def gate_open(self) -> bool:
        step = self.step
        if step is None or step.gate is None:
            return step is not None
        if step.gate is Gate.CAUGHT_UP:
            return self.caught_up(self.secondary, self.primary)
        return self.covering.durable(self.change, self.report(self.primary))

    @property
    def over(self) -> bool:
        """The unit has ended: its last marker is valid, so that no copy has anything left to process or to send.

        A copy that says so has published it in `progress` before; only if all that have are gone, perhaps none was
        heard.
        """
        ended = (copy for copy in self.change.copies if (report := self.report(copy)) and report.state == "ended")
        return any(not self.gone(copy) for copy in ended)

    @property
    def another_asked(self) -> bool:
        return self._scheme_due and not self.unfit

    @property
    def unfit_asked(self) -> bool:
        """A scheme was asked for that does not work with the checkpoint policy."""
        return self._scheme_due and bool(self.unfit)

    @property
    def unfit(self) -> str:
        """Why the scheme that was asked for last does not work with the checkpoint policy; empty if it does."""
        return unfit(self.policy, self.asked.scheme)

    @property
    def _scheme_due(self) -> bool:
        """No record has answered it; what the controller chose before it knew of that is undone."""
        asked, change = self.asked, self.change
        another = not change.adaptive if asked.adaptive else change.adaptive or asked.scheme != change.scheme
        return asked.offset > change.asked and another and not self.policy_open

    @property
    def rollback_due(self) -> bool:
        """A rollback was asked for that no record has answered."""
        return self.rollback.asked > self.change.rolled

    @property
    def rollback_refusal(self) -> str:
        """Why the unit cannot go back; empty if it can."""
        if self.terms.host:
            return "Spark has checkpoints of its own"
        if self.policy != ALIGNED:
            return f"there are no global checkpoints under the policy {self.policy or 'sweep'}, only under {ALIGNED}"
        return "no global checkpoint is complete yet" if self.rollback.complete < 0 else ""

    @property
    def protected(self) -> bool:
        """The copies are where the scheme wants them, and answer; what has ended needs none, a crowd is left alone."""
        if self.over or self.crowded:
            return True
        if self.stance is Stance.ALONE:
            return self.target is Rung.ABSENT and self.ready(self.primary)
        if self.stance in UNDER_WAY:
            return self.ready(self.primary) and (self.target is Rung.ABSENT or any(map(self.ready, self.others)))
        settled = self.stance is Stance.NORMAL and self.step is None
        return settled and self.ready(self.primary) and self.ready(self.secondary)

    @property
    def lacks_standby(self) -> bool:
        """It is to have one, and nothing speaks against making it now."""
        return self.target is not Rung.ABSENT and self.calm and not self.unloadable

    @property
    def at_rest(self) -> bool:
        """Nothing is under way, and nothing is asked for."""
        if self.crowded:
            return True
        settled = self.protected and self.stance not in UNDER_WAY
        return settled and not self.another_asked and self.move_due is None

    # -- the unit moves -----------------------------------------------------------------------------------------------

    def host(self, worker: str) -> Heartbeat | None:
        """The worker, if it answers."""
        return next((beat for beat in self.detector.alive() if beat.worker == worker), None)

    @property
    def move_due(self) -> AskedMove | None:
        """A move that somebody asked for and that no record has answered."""
        return self.asked_move if self.asked_move is not None and self.asked_move.offset > self.change.moved else None

    @property
    def refusal(self) -> str:
        """Why the move that is due cannot be made; empty if it can, or if that is not known yet."""
        if self.move_due is None or self.move_due.drill:
            return ""
        worker = self.move_due.worker
        beat = self.host(worker)
        if worker == self.primary.worker:
            return f"{worker} runs it already"
        if beat is None:
            return f"{worker} does not answer" if self.asked_move_age_us >= HEARD_US else ""
        if beat.hosts != self.terms.host:
            return f"{worker} takes no such units"
        if self.fit(beat) is Fit.DIFFERS:
            text = self.terms.pin.text(beat.versions)
            return f"{worker} gives other bytes: {next(one for one in self.change.differ if one.versions == text)}"
        return f"{worker} is leaving" if beat.leaving else ""

    @property
    def movable(self) -> bool:
        """The move that is due can be made now."""
        asked = self.move_due
        return asked is not None and not asked.drill and not self.refusal and self.host(asked.worker) is not None

    @property
    def arriving(self) -> Copy:
        copy = self.change.arriving
        assert copy is not None, f"{self.change.unit} does not move"
        return copy

    @property
    def arriving_lost(self) -> bool:
        return self.gone(self.arriving) or self.leaving(self.arriving)

    @property
    def arrived(self) -> bool:
        """The new copy can take over without a pause; a Spark driver starts its query only then."""
        if not self.terms.host:
            return self.may_lead(self.arriving) and self.caught_up(self.arriving, self.primary)
        report = self.report(self.arriving)
        return report is not None and report.epoch >= self.change.epoch and self.ready(self.arriving)

    @property
    def next_leader(self) -> Copy | None:
        """The copy that takes over if the primary fails now: a ready one, else one that lives; none that may not lead.

        The new copy of a unit that moves is asked first, a standby that is being made last.
        """
        may = filter(self.may_lead, self.others)
        both = sorted(may, key=lambda copy: copy.worker != self.change.moving)
        ready = (copy for copy in both if self.ready(copy))
        return next(ready, next((copy for copy in both if not self.gone(copy)), None))

    @property
    def staying(self) -> Copy | None:
        """The copy that stays beside the new one: the secondary, or the old primary; in another domain, if one is."""
        if self.target is Rung.ABSENT:
            return None
        kept = [copy for copy in self.others if copy.worker != self.change.moving and not self.gone(copy)]
        if not self.leaving(self.primary):
            kept.append(Copy(self.primary.worker, self.primary.incarnation, self.target_flags))
        domains, spread = Domains(self.detector.zones(), self.detector.hosts()), self.terms.spread
        new = domains.of(self.arriving.worker, spread)
        return next((copy for copy in kept if domains.of(copy.worker, spread) != new), kept[0] if kept else None)

    @property
    def overdue(self) -> bool:
        return self.age_us >= MOVE_US

    # -- its standby moves --------------------------------------------------------------------------------------------

    @property
    def followed(self) -> bool:
        """It is to have a standby that follows its checkpoints and processes nothing, on a worker of the kernel."""
        return self.target in (Rung.COLD, Rung.HOT) and not self.terms.host

    @property
    def backup_due(self) -> bool:
        """The standby is to go to another worker, which answers and may lead, and nothing else is under way."""
        if self.backup_to in ("", *(copy.worker for copy in self.change.copies)):
            return False
        beat = self.host(self.backup_to)
        fits = beat is not None and not beat.leaving and not self.nearer(beat.worker) and self.fit(beat) is Fit.EQUAL
        return fits and self.followed and self.at_rest

    def nearer(self, worker: str) -> bool:
        """It is in the primary's failure domain, and the standby is not."""
        domains, spread = Domains(self.detector.zones(), self.detector.hosts()), self.terms.spread
        own, there = domains.of(self.primary.worker, spread), domains.of(worker, spread)
        return own == there and domains.of(self.secondary.worker, spread) != own

    @property
    def replacing(self) -> Copy:
        copy = self.change.replacing
        assert copy is not None, f"{self.change.unit}: no standby is being made beside another"
        return copy

    @property
    def replacing_lost(self) -> bool:
        return self.gone(self.replacing) or self.leaving(self.replacing)

    @property
    def replaced(self) -> bool:
        """The new standby holds a checkpoint of the whole unit: MECHANISMS C9.

        What it says was said after it had read this record, since then it has restored from the log's end.
        """
        report = self.report(self.replacing)
        return report is not None and report.epoch >= self.change.epoch and self.ready(self.replacing)
