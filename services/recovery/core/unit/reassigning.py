"""The standby of a unit moves to another worker while the unit stays protected: the copies of each record on the way.

Source: MECHANISMS C7 and C9, PROTOCOL 8. First record: a new standby beside the former one (REASSIGN). Second record,
once the new one holds a whole checkpoint: the former one goes (REPLACE). Any failure between the two leads back to the
ordinary rows of switching.py, and the former standby, which is the second copy, takes over if it is needed.
"""

from __future__ import annotations

from services.recovery.core.unit.moving import Copies, Rooms, with_flags
from services.recovery.core.unit.situation import Situation


def begin(s: Situation, rooms: Rooms) -> Copies | None:
    """Three copies for a while; the new one is the last. None: its worker holds as many standbys as it may."""
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
