"""Blame: a unit whose own work ends or stops its workers is kept from further ones.

Source: PROTOCOL 8. At what work its workers ended is counted in crashes.py.
"""

from __future__ import annotations

from holdfast.services.recovery.core.unit.facts.crashes import OF_LOADING
from holdfast.services.recovery.core.unit.situation import Situation

SUSPECT_US = 10_000_000
"""A unit that may have ended its worker waits at most so long until every other one is protected again."""

PAUSE_US = 1_000_000
"""After the first unexpected error the unit waits so long for its next copy; a standby leads at once."""

STATUS_US = 250_000
"""By then the status of a process that has died is known, or nobody says it."""


def deadly(s: Situation) -> bool:
    """Its workers ended at the same place, again and again. While a copy runs, others that cannot be loaded are
    not needed."""
    if s.crash is None or not s.crash.too_many:
        return False
    return s.crash.batch > 0 or s.crash.what not in OF_LOADING or not _runs(s)


def unloadable(s: Situation) -> bool:
    """No further copy is loaded beside the one that runs."""
    return s.crash is not None and s.crash.what in OF_LOADING and s.crash.too_many


def pauses(s: Situation) -> bool:
    """An unexpected error has just stopped a copy: what is wrong there may pass. Each pause is twice the one before."""
    if s.crash is None or not s.crash.error:
        return False
    return s.crash_age_us < PAUSE_US << (s.crash.count - 1)


def suspect(s: Situation) -> bool:
    """True if the unit may end the next worker, too, so that it waits until no other unit loses both of its copies by
    that.

    A first crash by a signal from outside says nothing; its cause is known a moment later.
    """
    return (_crashed_lately(s) or _hangs(s)) and not s.others_safe()


def _crashed_lately(s: Situation) -> bool:
    if s.crash is None or s.crash_age_us >= SUSPECT_US or s.crash.error:  # an error costs no other unit its worker
        return False
    return blamed(s) or (s.crash.status is None and s.crash_age_us < STATUS_US)


def blamed(s: Situation) -> bool:
    """Workers have ended at its work, and nothing outside did that; or an unexpected error has stopped a copy."""
    if s.crash is not None and s.crash.error:
        return True
    if s.crash is None or s.crash_age_us >= SUSPECT_US:
        return False
    return s.crash.count > 1 or s.crash.by_itself


def _hangs(s: Situation) -> bool:
    """The loop of its primary's worker hangs, and in its work."""
    copies = s.change.copies[:1]
    turns = (s.detector.turn(copy.worker, copy.incarnation) for copy in copies)
    within = any(turn is not None and turn.unit == s.change.unit for turn in turns)
    return within and s.detector.silent_us(s.primary.worker) < SUSPECT_US


def _runs(s: Situation) -> bool:
    reports = (s.report(copy) for copy in s.change.copies if not s.gone(copy))
    return any(report is not None and report.state == "running" for report in reports)
