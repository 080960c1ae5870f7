"""The copies of a record: the result of a move, and its parts."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.schemas.assignments import PRIMARY, Copy
from holdfast.schemas.heartbeats import Heartbeat
from holdfast.services.recovery.core.placement.room import Candidate, Room
from holdfast.services.recovery.core.unit.facts.schemes import Rung

Copies = tuple[Copy, ...]
Rooms = Callable[[], Room]
"""Returns the room of the workers. Only a move that needs a worker calls it: it costs a pass over all units."""


def leading(copy: Copy | Candidate | Heartbeat) -> Copy:
    return Copy(copy.worker, copy.incarnation, PRIMARY)


def with_flags(copy: Copy | Candidate | Heartbeat, rung: Rung) -> Copy:
    return Copy(copy.worker, copy.incarnation, rung.flags)
