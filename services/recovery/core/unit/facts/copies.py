"""The copies of a record: what a move makes, and what it is made from."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.schemas.assignments import PRIMARY, Copy
from holdfast.schemas.heartbeats import Heartbeat
from holdfast.services.recovery.core.placement.room import Candidate, Room
from holdfast.services.recovery.core.unit.facts.schemes import Rung

Copies = tuple[Copy, ...]
Rooms = Callable[[], Room]
"""Asked only by a move that looks for a worker: it costs a look at all units."""


def leading(copy: Copy | Candidate | Heartbeat) -> Copy:
    return Copy(copy.worker, copy.incarnation, PRIMARY)


def with_flags(copy: Copy | Candidate | Heartbeat, rung: Rung) -> Copy:
    return Copy(copy.worker, copy.incarnation, rung.flags)
