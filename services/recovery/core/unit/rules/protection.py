"""Protection of a unit as its scheme requires it, and the next step of its secondary towards that."""

from __future__ import annotations

from holdfast.services.recovery.core.unit.facts.changing import Gate, Step, next_step
from holdfast.services.recovery.core.unit.facts.schemes import Rung
from holdfast.services.recovery.core.unit.facts.stance import UNDER_WAY, Stance
from holdfast.services.recovery.core.unit.rules import blame, unanswered
from holdfast.services.recovery.core.unit.situation import Situation

CALM_US = 1_000_000
"""Time from the loss of a secondary, or a takeover, to the new secondary; a takeover lasts a tenth of that."""


def protected(s: Situation) -> bool:
    """True if the copies are placed as the scheme requires and answer, or the unit has ended or is crowded."""
    if s.over or s.crowded:
        return True
    if s.stance is Stance.ALONE:
        return s.target is Rung.ABSENT and s.ready(s.primary)
    if s.stance in UNDER_WAY:
        return s.ready(s.primary) and (s.target is Rung.ABSENT or any(map(s.ready, s.others)))
    settled = s.stance is Stance.NORMAL and step(s) is None
    return settled and s.ready(s.primary) and s.ready(s.secondary)


def lacks_standby(s: Situation) -> bool:
    """True if the unit is to have a standby, and nothing prevents making it now."""
    return s.target is not Rung.ABSENT and _calm(s) and not blame.unloadable(s) and not blame.pauses(s)


def settled(s: Situation) -> bool:
    """True if all copies are placed as the scheme requires, answer, and no change is requested; progress does not
    matter.
    """
    stance = s.stance
    placed = step(s) is None if stance is Stance.NORMAL else stance is Stance.ALONE and s.target is Rung.ABSENT
    calm = s.crash is None and s.part is None and s.verdict is None and s.directed is None and s.outranked is None
    wanted = bool(s.relief or s.backup_to or s.change.unshown)
    asked = unanswered.scheme(s) or unanswered.rollback(s) or unanswered.move(s) is not None
    return placed and calm and not wanted and not asked and s.well


def at_rest(s: Situation) -> bool:
    """True if nothing is under way for the unit, and nothing is asked for."""
    if s.crowded:
        return True
    settled = protected(s) and s.stance not in UNDER_WAY
    return settled and not unanswered.scheme(s) and unanswered.move(s) is None


def step(s: Situation) -> Step | None:
    """Returns the next step of the secondary towards its scheme, whether its gate is open or not; None at the
    target.
    """
    return next_step(Rung.of(s.secondary.flags), _next_target(s))


def gate_open(s: Situation) -> bool:
    """True if a step of the secondary is left and its condition holds."""
    due = step(s)
    if due is None:
        return False
    if s.scheme.switches_back and Rung.of(s.secondary.flags) is Rung.ACTIVE:
        return s.calm(s.primary)
    if due.gate is None:
        return True
    if due.gate is Gate.CAUGHT_UP:
        return s.caught_up(s.secondary, s.primary)
    return s.covering.durable(s.change, s.report(s.primary))


def secondary_unwanted(s: Situation) -> bool:
    """True if the scheme has no secondary, and the present one may go."""
    due = step(s)
    return due is not None and due.rung is Rung.ABSENT and gate_open(s)


def _next_target(s: Situation) -> Rung:
    """Returns the next rung of the secondary: until its versions have shown equal bytes, it processes and sends
    nothing.
    """
    if s.target is Rung.ABSENT or s.may_lead(s.secondary):
        return s.target
    return Rung.STANDBY


def _calm(s: Situation) -> bool:
    """True if the takeovers around the last change are over: loading another copy would slow down their workers."""
    return s.age_us >= CALM_US
