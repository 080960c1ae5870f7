"""Situation of one unit: its last valid assignment, and what is heard of the copies and workers that it names.

Conclusions for one subject stand in a file of its own: blame.py, stranding.py, protection.py, unanswered.py (what users
asked), moving.py, reassigning.py, versions.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from holdfast.schemas.assignments import Change, Copy, Flags
from holdfast.schemas.heartbeats import FAULTED, CopyState, Heartbeat
from holdfast.services.kernel.liveness.detector import Detector
from holdfast.services.kernel.plans.pinning import Fit
from holdfast.services.recovery.core.adaptive.choosing import Verdict
from holdfast.services.recovery.core.job.rollbacks import NOWHERE, Back
from holdfast.services.recovery.core.placement.sharing import Outranked
from holdfast.services.recovery.core.unit.facts.changing import Covering, caught_up
from holdfast.services.recovery.core.unit.facts.crashes import Crash
from holdfast.services.recovery.core.unit.facts.proving import Proofs
from holdfast.services.recovery.core.unit.facts.schemes import SCHEMES, Rung, Scheme
from holdfast.services.recovery.core.unit.facts.stance import MOST, Stance, stance
from holdfast.services.recovery.core.unit.facts.terms import Asked, AskedMove, Directed, Part, Terms, Want

_SERVES: dict[str, tuple[str, ...]] = {
    "virgin": ("deployed", "restoring", "synced", "opening", "running", "ended"),
    "synced": ("synced", "opening", "running", "ended"),
    "live": ("running", "ended"),
}
"""Reported states in which a copy with that state flag has reached what its flags promise."""


@dataclass(slots=True)  # nobody changes it; to make a frozen one takes three times as long, for each unit in each look
class Situation:
    """A unit at one moment.

    offset: of the change in `assignments`.
    age_us: since this replica read it.
    asked: the scheme asked for last.
    asked_move: the move asked for last, and for how long this replica knows of it.
    relief: the worker to which balance wants the unit moved.
    backup_to: the worker to which the unit's standby is to go.
    want: the job's wish for the unit.
    crash: the work at which its workers ended, unless the unit has come further since.
    crash_age_us: since the last crash.
    others_safe: true if every other unit is protected.
    outranked: why its standby goes, though nothing has failed.
    policy: the checkpoint policy of its job.
    policy_open: another one was asked for before the scheme, and that is not answered.
    rollback: asked for, and to where.
    joins: the line of an incident on which it is to begin again, though it has not failed; 0: none.
    verdict: of the controller of adaptive units, if it wants another scheme.
    directed: by the replication plan, if that wants another scheme, and it is the unit's turn.
    part: in an incident; None: there is none.
    gathers: further units may turn out to be stranded.
    proofs: what copies with other versions have shown.
    asked_accept: offset of the last command that lets the versions lead that run now.
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
    joins: int = 0
    verdict: Verdict | None = None
    directed: Directed | None = None
    part: Part | None = None
    gathers: bool = False
    proofs: Proofs = field(default_factory=Proofs)
    asked_accept: int = -1
    scheme: Scheme = field(init=False)
    """Asked for by most rows of the table."""

    def __post_init__(self) -> None:
        self.scheme = SCHEMES.get(self.change.scheme, SCHEMES["none"])

    @property
    def stance(self) -> Stance:
        return stance(self.change)

    @property
    def crowded(self) -> bool:
        """True if the unit has more copies than the table has rows for: the doing of a version that knows why."""
        return len(self.change.copies) > MOST[self.stance]

    @property
    def target(self) -> Rung:
        """The rung that the scheme wants for the secondary."""
        return self.terms.target(self.scheme.name)

    @property
    def target_flags(self) -> Flags:
        """For a copy that continues as secondary; where the scheme has none, it is let go in a later record."""
        return (self.target if self.target is not Rung.ABSENT else Rung.HOT).flags

    @property
    def misses(self) -> int | None:
        """Number of heartbeats in a row that a leader may miss."""
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

    # -- what its job wants -------------------------------------------------------------------------------------------

    @property
    def wanted(self) -> bool:
        """True if the unit is to have copies, has none, and every worker that could take one was heard; not in
        quarantine.
        """
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

    # -- what is heard of a copy ----------------------------------------------------------------------------------

    def report(self, copy: Copy) -> CopyState | None:
        return self.detector.report(copy.worker, copy.incarnation, self.change.unit)

    @property
    def well(self) -> bool:
        """All its copies are there and answer."""
        for copy in self.change.copies:
            if not self.detector.well(copy.worker, copy.incarnation, self.terms.fail_stop_us) or self.faulted(copy):
                return False
        return True

    def gone(self, copy: Copy) -> bool:
        """With its worker, or alone."""
        return self.detector.gone(copy.worker, copy.incarnation, self.terms.fail_stop_us) or self.faulted(copy)

    def faulted(self, copy: Copy) -> bool:
        """An unexpected error has stopped it since its last assignment; a later one starts it again."""
        report = self.report(copy)
        return report is not None and report.state == FAULTED and report.epoch >= self.change.epoch

    def suspected(self, copy: Copy, misses: int | None) -> bool:
        return misses is not None and self.detector.misses(copy.worker, copy.incarnation) >= misses

    def silent(self, copy: Copy) -> bool:
        """Suspected, but perhaps not gone."""
        return self.suspected(copy, self.misses)

    def lost(self, copy: Copy) -> bool:
        """Gone, and not worth waiting for: without misses the scheme waits for the worker to return as it was."""
        if self.misses is not None or self.faulted(copy):
            return self.gone(copy)
        return (
            self.returned(copy)
            or self.lives_otherwise(copy)
            or self.detector.silent_us(copy.worker) >= self.terms.fail_stop_us
        )

    def returned(self, copy: Copy) -> bool:
        """A later incarnation of its worker lives, and can take the unit."""
        return self.successor(copy) is not None

    def successor(self, copy: Copy) -> Heartbeat | None:
        """The later incarnation of its worker, if that lives and may lead."""
        beat = self._later(copy)
        return beat if beat is not None and self.fit(beat) is Fit.EQUAL else None

    def lives_otherwise(self, copy: Copy) -> bool:
        """A later incarnation lives, with versions that may not lead: it is never silent, and may not get it back."""
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
        """True if the copy answers, and has done so for as long as its job says, counted from the last record at the
        earliest: another replica may have seen the silence that led to it.
        """
        steady_us = min(self.age_us, self.detector.steady_us(copy.worker, copy.incarnation))
        return self.answers(copy) and steady_us >= self.terms.calm_us

    def leaving(self, copy: Copy) -> bool:
        return self.detector.leaving(copy.worker, copy.incarnation)

    def caught_up(self, copy: Copy, leader: Copy) -> bool:
        return caught_up(self.report(copy), self.report(leader), self.change.epoch) and not self.suspected(copy, 1)

    @property
    def runs(self) -> bool:
        """Its leader processes, or has ended."""
        leader = self.change.committer
        report = None if leader is None or self.gone(leader) else self.report(leader)
        return self.over or (report is not None and report.state in _SERVES["live"])

    @property
    def over(self) -> bool:
        """The unit has ended: its last marker is valid, so that no copy has anything left to process or to send.

        A copy that says so has published it in `progress` before; only if all that have are gone, perhaps none was
        heard.
        """
        ended = (copy for copy in self.change.copies if (report := self.report(copy)) and report.state == "ended")
        return any(not self.gone(copy) for copy in ended)

    # -- other workers, and other versions ----------------------------------------------------------------------------

    def host(self, worker: str) -> Heartbeat | None:
        """The worker, if it answers."""
        return next((beat for beat in self.detector.alive() if beat.worker == worker), None)

    def fit(self, beat: Heartbeat) -> Fit:
        """Fit of a worker's versions to the unit."""
        return self.terms.pin.fit(self.change, beat.versions)

    def may_lead(self, copy: Copy) -> bool:
        """True if the copy leads, or its versions have shown equal bytes."""
        return self.change.unshown_of(copy) is None
