"""Blame: a unit whose own work ends or stops its workers is kept from further workers.

Source: PROTOCOL 8. crashes.py counts the work at which the workers of a unit ended.
"""

from __future__ import annotations

from holdfast.services.recovery.core.unit.facts.crashes import OF_LOADING
from holdfast.services.recovery.core.unit.situation import Situation

SUSPECT_US = 10_000_000
"""Longest time that a unit which may have ended its worker waits until every other unit is protected again."""

PAUSE_US = 1_000_000
"""Time from the first unexpected error to the unit's next copy; a standby leads at once."""

STATUS_US = 250_000
"""Time within which the exit status of a process arrives, if it arrives at all."""


def deadly(s: Situation) -> bool:
    """True if the unit's workers ended at the same place too often.

    Crashes at loading do not count while a copy runs.
    """
    if s.crash is None or not s.crash.too_many:
        return False
    return s.crash.batch > 0 or s.crash.what not in OF_LOADING or not _runs(s)


def unloadable(s: Situation) -> bool:
    """True if no further copy is loaded beside the one that runs: too many ended while they were loaded or restored."""
    return s.crash is not None and s.crash.what in OF_LOADING and s.crash.too_many


def pauses(s: Situation) -> bool:
    """True if an unexpected error has just stopped a copy: its cause may pass. Each pause is twice the pause before."""
    if s.crash is None or not s.crash.error:
        return False
    return s.crash_age_us < PAUSE_US << (s.crash.count - 1)


def suspect(s: Situation) -> bool:
    """True if the unit may end its next worker, too, and another unit could then lose its last copy.

    A first crash by a signal from outside is no ground for suspicion; its exit status is known a moment later.
    """
    return (_crashed_lately(s) or _hangs(s)) and not s.others_safe()


def _crashed_lately(s: Situation) -> bool:
    if s.crash is None or s.crash_age_us >= SUSPECT_US or s.crash.error:  # an error costs no other unit its worker
        return False
    return blamed(s) or (s.crash.status is None and s.crash_age_us < STATUS_US)


def blamed(s: Situation) -> bool:
    """True if workers have ended at the unit's work without a signal from outside, or an unexpected error stopped a
    copy.
    """
    if s.crash is not None and s.crash.error:
        return True
    if s.crash is None or s.crash_age_us >= SUSPECT_US:
        return False
    return s.crash.count > 1 or s.crash.by_itself


def _hangs(s: Situation) -> bool:
    """True if the loop of the primary's worker hangs in this unit's work."""
    copies = s.change.copies[:1]
    turns = (s.detector.turn(copy.worker, copy.incarnation) for copy in copies)
    within = any(turn is not None and turn.unit == s.change.unit for turn in turns)
    return within and s.detector.silent_us(s.primary.worker) < SUSPECT_US


def _runs(s: Situation) -> bool:
    reports = (s.report(copy) for copy in s.change.copies if not s.gone(copy))
    return any(report is not None and report.state == "running" for report in reports)
