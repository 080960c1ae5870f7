"""A drill: a takeover as after a failure of the primary, asked for by a user, of a unit that is fully protected.

Source: docs/decisions/0094. The copies of its record are those of a failure.
"""

from __future__ import annotations

from holdfast.services.kernel.plans.pinning import Fit
from holdfast.services.recovery.core.unit.facts.copies import Copies, Rooms, leading
from holdfast.services.recovery.core.unit.rules import protection, unanswered
from holdfast.services.recovery.core.unit.situation import Situation


def due(s: Situation) -> bool:
    """True if a drill was asked for and can be made now."""
    return _asked(s) and not against(s)


def refusal(s: Situation) -> str:
    """Returns why the requested drill cannot be made; empty if it can, or if that may still change."""
    return against(s) if _asked(s) and s.asked_move_age_us >= unanswered.HEARD_US else ""


def against(s: Situation) -> str:
    """Returns why a takeover now would be no drill of a protected unit; empty if it would be one."""
    if s.terms.host:
        return "what Spark does is not estimated"
    if s.misses is None:
        return f"under {s.scheme.name} nobody takes over"
    if s.over or s.crowded or unanswered.scheme(s) or not protection.protected(s) or s.crash is not None:
        return "it is not protected as it should be"
    others = (beat for beat in s.detector.alive() if beat.worker != s.primary.worker and not beat.leaving)
    if not any(beat.hosts == s.terms.host and s.fit(beat) is Fit.EQUAL for beat in others):
        return "no other worker can take it"
    return ""


def place_elsewhere(s: Situation, rooms: Rooms) -> Copies | None:
    """Places a unit without a secondary on another worker."""
    chosen = rooms().for_primary(s.change.unit, without=[s.primary.worker])
    return None if chosen is None else (leading(chosen),)


def _asked(s: Situation) -> bool:
    asked = unanswered.move(s)
    return asked is not None and asked.drill
