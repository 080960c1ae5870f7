"""A unit whose scheme recovery may choose: the times at which the scheme may change, and the scheme chosen.

Source: MECHANISMS A4, docs/decisions/0093.
"""

from __future__ import annotations

from holdfast.services.recovery.core.unit.facts.stance import Stance
from holdfast.services.recovery.core.unit.rules import protection
from holdfast.services.recovery.core.unit.situation import Situation


def adaptable(s: Situation) -> bool:
    """True if the controller may change the unit's scheme: the last command asks for that, and nothing is under way."""
    ours = s.asked.adaptive and s.change.adaptive and s.change.asked <= s.asked.offset
    return ours and _calm(s) and not s.terms.host


def planned(s: Situation) -> bool:
    """True if the replication plan of the job directs another scheme for the unit, and nothing is under way."""
    if s.directed is None or s.directed.scheme == s.change.scheme:
        return False
    return s.change.asked <= s.directed.asked and s.asked.offset <= s.directed.asked and _calm(s)


def _calm(s: Situation) -> bool:
    calm = s.stance in (Stance.ALONE, Stance.NORMAL) and protection.at_rest(s) and s.crash is None
    return calm and not s.over and not s.crowded


def chosen(s: Situation) -> str:
    """Returns the scheme that the controller chooses in place of the present one; empty if it chooses none."""
    if s.verdict is None or s.verdict.chosen == s.change.scheme or not adaptable(s):
        return ""
    return s.verdict.chosen


def lag(s: Situation) -> int:
    """Returns the number of batches by which a processing secondary is behind; 0 if that is not known."""
    if len(s.change.copies) < 2 or not s.secondary.flags.process:
        return 0
    leader, copy = s.report(s.primary), s.report(s.secondary)
    return 0 if leader is None or copy is None else max(0, leader.batch - copy.batch)
