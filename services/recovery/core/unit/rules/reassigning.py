"""The standby of a unit moves to another worker while the unit stays protected: conditions, and copies of each record.

Source: MECHANISMS C7 and C9, PROTOCOL 8. The first record (REASSIGN) adds a new standby beside the former one. The
second record (REPLACE), once the new standby holds a whole checkpoint, removes the former one. Any failure between the
two leads back to the ordinary rows of switching.py; the former standby, which is the second copy, takes over if needed.
"""

from __future__ import annotations

from holdfast.services.kernel.plans.pinning import Fit
from holdfast.services.recovery.core.placement.domains import Domains
from holdfast.services.recovery.core.unit.facts.copies import Copies, Rooms, with_flags
from holdfast.services.recovery.core.unit.facts.schemes import Rung
from holdfast.services.recovery.core.unit.rules import protection
from holdfast.services.recovery.core.unit.situation import Situation

# -- signs ------------------------------------------------------------------------------------------------------------


def followed(s: Situation) -> bool:
    """True if the unit is to have a standby on a kernel worker that follows checkpoints and processes nothing."""
    return s.target in (Rung.COLD, Rung.HOT) and not s.terms.host


def due(s: Situation) -> bool:
    """True if the standby is to move to another worker, that worker answers and may lead, and nothing else is under
    way.
    """
    if not s.backup_to or s.backup_to in {copy.worker for copy in s.change.copies}:
        return False
    beat = s.host(s.backup_to)
    fits = beat is not None and not beat.leaving and not nearer(s, beat.worker) and s.fit(beat) is Fit.EQUAL
    return fits and followed(s) and protection.at_rest(s)


def nearer(s: Situation, worker: str) -> bool:
    """True if the worker is in the primary's failure domain, and the standby is not."""
    domains, spread = Domains(s.detector.zones(), s.detector.hosts()), s.terms.spread
    own, there = domains.of(s.primary.worker, spread), domains.of(worker, spread)
    return own == there and domains.of(s.secondary.worker, spread) != own


def lost(s: Situation) -> bool:
    return s.gone(s.replacing) or s.leaving(s.replacing)


def complete(s: Situation) -> bool:
    """True if the new standby holds a checkpoint of the whole unit: MECHANISMS C9.

    Its report is later than its reading of this record, so it has restored up to the end of the log.
    """
    report = s.report(s.replacing)
    return report is not None and report.epoch >= s.change.epoch and s.ready(s.replacing)


# -- moves ------------------------------------------------------------------------------------------------------------


def begin(s: Situation, rooms: Rooms) -> Copies | None:
    """Returns three copies, the new standby last; None if its worker does not answer or holds no further standby."""
    to = s.host(s.backup_to)
    return (
        None
        if to is None or not rooms().takes_standby(to.worker)
        else (s.primary, s.secondary, with_flags(to, s.target))
    )


def replace(s: Situation, rooms: Rooms) -> Copies:
    return s.primary, s.replacing


def keep(s: Situation, rooms: Rooms) -> Copies:
    return s.primary, *(copy for copy in s.others if copy != s.replacing)
