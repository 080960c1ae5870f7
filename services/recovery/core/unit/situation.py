"""Situation of one unit: its last valid assignment, and the reports about the copies and workers that it names.

Each subject has its conclusions in a file of its own: blame.py, stranding.py, protection.py, unanswered.py (requests of
users), moving.py, reassigning.py, versions.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from holdfast.schemas.assignments import Change, Copy, Flags
from holdfast.schemas.heartbeats import FAULTED, CopyState, Heartbeat
from holdfast.services.kernel.liveness.detector import Detector
from holdfast.services.kernel.plans.pinning import Fit
from holdfast.services.recovery.core.placement.sharing import Outranked
from holdfast.services.recovery.core.unit.facts.changing import Covering, caught_up
from holdfast.services.recovery.core.unit.facts.crashes import Crash
from holdfast.services.recovery.core.unit.facts.proving import Proofs
from holdfast.services.recovery.core.unit.facts.rollback import NOWHERE, Rollback
from holdfast.services.recovery.core.unit.facts.schemes import SCHEMES, Rung, Scheme
from holdfast.services.recovery.core.unit.facts.stance import MOST, Stance, stance
from holdfast.services.recovery.core.unit.facts.terms import Asked, AskedMove, Directed, Part, Terms, Want
from holdfast.services.recovery.core.unit.facts.verdict import Verdict

_SERVES: dict[str, tuple[str, ...]] = {
    "virgin": ("deployed", "restoring", "synced", "opening", "running", "ended"),
    "synced": ("synced", "opening", "running", "ended"),
    "live": ("running", "ended"),
}
"""Reported states in which a copy with that state flag has reached what its flags promise."""


@dataclass(slots=True)  # never changed; a frozen one takes three times as long to make, for each unit in each sweep
class Situation:
    """A unit at one moment.

    change: its last valid change.
    offset: of the change in `assignments`.
    age_us: time since this replica read the change.
    terms: of the unit's job.
    asked: the scheme asked for last.
    detector, covering: reports of workers, and checkpoints that cover a change.
    asked_move: the move asked for last.
    asked_move_age_us: time since this replica read that request.
    relief: the worker to which balance moves the unit; empty: none.
    backup_to: the worker to which the unit's standby is to move; empty: none.
    want: the goal of the job for the unit.
    crash: the work at which its workers ended, unless the unit has come further since.
    crash_age_us: time since the last crash.
    others_safe: true if every other unit is protected.
    outranked: why its standby goes although nothing has failed.
    policy: the checkpoint policy of its job.
    policy_open: true if another policy was asked for before the scheme and is not answered.
    rollback: the requested rollback, and its target.
    joins: the line of an incident on which the unit is to begin again although it has not failed; 0: none.
    verdict: of the controller of adaptive units, if it chooses another scheme.
    directed: the scheme of the replication plan, if it is another one and it is the unit's turn.
    part: of the unit in an incident; None: there is none.
    gathers: true while further units may turn out to be stranded.
    proofs: equal bytes shown by copies with other versions.
    asked_accept: offset of the last command that lets the present versions lead.
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
    policy: str = "sweep"
    policy_open: bool = False
    rollback: Rollback = NOWHERE
    joins: int = 0
    verdict: Verdict | None = None
    directed: Directed | None = None
    part: Part | None = None
    gathers: bool = False
    proofs: Proofs = field(default_factory=Proofs)
    asked_accept: int = -1
    scheme: Scheme = field(init=False)
    """Kept here because most rows of the table use it."""

    def __post_init__(self) -> None:
        self.scheme = SCHEMES.get(self.change.scheme, SCHEMES["none"])

    @property
    def stance(self) -> Stance:
        return stance(self.change)

    @property
    def crowded(self) -> bool:
        """True if the unit has more copies than the table has rows for; another version of this program gave it
        these.
        """
        return len(self.change.copies) > MOST[self.stance]

    @property
    def target(self) -> Rung:
        """The rung of the secondary that the scheme requires."""
        return self.terms.target(self.scheme.name)

    @property
    def target_flags(self) -> Flags:
        """Flags of a copy that continues as secondary; if the scheme has none, a later record removes the copy."""
        return (self.target if self.target is not Rung.ABSENT else Rung.HOT).flags

    @property
    def misses(self) -> int | None:
        """Number of heartbeats in a row that a leader may miss; None: it may miss any number."""
        return self.terms.misses_of(self.scheme.name)

    @property
    def primary(self) -> Copy:
        return self.change.copies[0]

    @property
    def secondary(self) -> Copy:
        return self.change.copies[1]

    @property
    def others(self) -> tuple[Copy, ...]:
        """All copies but the primary."""
        return self.change.copies[1:]

    @property
    def arriving(self) -> Copy:
        copy = self.change.arriving
        assert copy is not None, f"{self.change.unit} does not move"
        return copy

    @property
    def replacing(self) -> Copy:
        copy = self.change.replacing
        assert copy is not None, f"{self.change.unit}: no standby is being made beside another"
        return copy

    # -- goal of its job ----------------------------------------------------------------------------------------------

    @property
    def wanted(self) -> bool:
        """True if the unit is to have copies, has none, is not in quarantine, and every live worker was heard."""
        if self.want is None or not self.want.placed or self.change.deadly is not None:
            return False
        return not self.change.copies and self.detector.listened

    @property
    def new(self) -> bool:
        """True if no record has ever named the unit."""
        return self.change.epoch == 0

    @property
    def unwanted(self) -> bool:
        """True if the job stops, and no record after that goal has removed the unit's copies."""
        want = self.want
        return want is not None and not want.placed and (bool(self.change.copies) or want.undone(self.offset))

    # -- reports of a copy ----------------------------------------------------------------------------------------

    def report(self, copy: Copy) -> CopyState | None:
        return self.detector.report(copy.worker, copy.incarnation, self.change.unit)

    @property
    def well(self) -> bool:
        """True if all copies of the unit run without a fault, and their workers answer."""
        for copy in self.change.copies:
            if not self.detector.well(copy.worker, copy.incarnation, self.terms.fail_stop_us) or self.faulted(copy):
                return False
        return True

    def gone(self, copy: Copy) -> bool:
        """True if the copy is gone with its worker, or an unexpected error has stopped it alone."""
        return self.detector.gone(copy.worker, copy.incarnation, self.terms.fail_stop_us) or self.faulted(copy)

    def faulted(self, copy: Copy) -> bool:
        """True if an unexpected error has stopped the copy since its last assignment; a later assignment starts it
        again.
        """
        report = self.report(copy)
        return report is not None and report.state == FAULTED and report.epoch >= self.change.epoch

    def suspected(self, copy: Copy, misses: int | None) -> bool:
        return misses is not None and self.detector.misses(copy.worker, copy.incarnation) >= misses

    def silent(self, copy: Copy) -> bool:
        """True if the copy is suspected; it may be alive."""
        return self.suspected(copy, self.misses)

    def lost(self, copy: Copy) -> bool:
        """True if the copy is gone and not worth waiting for: a scheme without misses waits for its worker to
        return.
        """
        if self.misses is not None or self.faulted(copy):
            return self.gone(copy)
        return (
            self.returned(copy)
            or self.lives_otherwise(copy)
            or self.detector.silent_us(copy.worker) >= self.terms.fail_stop_us
        )

    def returned(self, copy: Copy) -> bool:
        """True if a later incarnation of the copy's worker lives and can take the unit."""
        return self.successor(copy) is not None

    def successor(self, copy: Copy) -> Heartbeat | None:
        """Returns the later incarnation of the copy's worker, if it lives and may lead."""
        beat = self._later(copy)
        return beat if beat is not None and self.fit(beat) is Fit.EQUAL else None

    def lives_otherwise(self, copy: Copy) -> bool:
        """True if a later incarnation of the worker lives with versions that may not lead; it cannot get the unit
        back.
        """
        return self._later(copy) is not None and not self.returned(copy)

    def _later(self, copy: Copy) -> Heartbeat | None:
        alive = (beat for beat in self.detector.alive() if beat.worker == copy.worker)
        return next((beat for beat in alive if beat.incarnation > copy.incarnation), None)

    def ready(self, copy: Copy) -> bool:
        """True if the copy can take over at once: it may lead, answers, and has reached what its flags promise."""
        report = self.report(copy)
        return (
            report is not None
            and self.may_lead(copy)
            and report.state in _SERVES.get(copy.flags.state, ())
            and not self.gone(copy)
            and not self.suspected(copy, 1)
        )

    def answers(self, copy: Copy) -> bool:
        return not self.gone(copy) and self.detector.answers(copy.worker, copy.incarnation, self.offset)

    def calm(self, copy: Copy) -> bool:
        """True if the copy has answered for `calm_us`, counted from the last record at the earliest.

        Another replica may have seen the silence that led to that record.
        """
        steady_us = min(self.age_us, self.detector.steady_us(copy.worker, copy.incarnation))
        return self.answers(copy) and steady_us >= self.terms.calm_us

    def leaving(self, copy: Copy) -> bool:
        return self.detector.leaving(copy.worker, copy.incarnation)

    def caught_up(self, copy: Copy, leader: Copy) -> bool:
        return caught_up(self.report(copy), self.report(leader), self.change.epoch) and not self.suspected(copy, 1)

    @property
    def runs(self) -> bool:
        """True if the unit's leader processes or has ended."""
        leader = self.change.committer
        report = None if leader is None or self.gone(leader) else self.report(leader)
        return self.over or (report is not None and report.state in _SERVES["live"])

    @property
    def over(self) -> bool:
        """True if the unit has ended: its last marker is valid, so no copy has anything left to process or to send.

        A copy has published the end in `progress` before it reports it. If all copies with that report are gone, it
        does not count, since perhaps no other replica read it.
        """
        ended = (copy for copy in self.change.copies if (report := self.report(copy)) and report.state == "ended")
        return any(not self.gone(copy) for copy in ended)

    # -- other workers, and other versions ----------------------------------------------------------------------------

    def host(self, worker: str) -> Heartbeat | None:
        """Returns the last heartbeat of the worker, if it answers."""
        return next((beat for beat in self.detector.alive() if beat.worker == worker), None)

    def fit(self, beat: Heartbeat) -> Fit:
        """Returns the fit of a worker's versions to the unit."""
        return self.terms.pin.fit(self.change, beat.versions)

    def may_lead(self, copy: Copy) -> bool:
        """True if the copy leads, or its versions have shown equal bytes."""
        return self.change.unshown_of(copy) is None
