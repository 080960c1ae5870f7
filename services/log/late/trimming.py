"""Trims decided logs to snapshots that were read back, where one thread does everything.

Source: PROTOCOL 1; up to where, and when: services/decisions/snapshots.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.schemas.topics import Partition
from holdfast.services.decisions.snapshots import Trims
from holdfast.services.diagnostics.logger import get_logger
from holdfast.services.kernel.errors import Retriable, StateCorrupted
from holdfast.services.log.protocol import Log

_log = get_logger()


def trim_due(log: Log, trims: Trims, now_us: int) -> None:
    """Trims what is due; blocks for the request."""
    upto = trims.due(now_us)
    if upto is not None and not trim(log, upto):
        trims.withdraw()


def trim(log: Log, upto: Mapping[Partition, int]) -> bool:
    """Trims; true if it was done. A log that ends below a snapshot of it has lost its tail: it is left as it is."""
    try:
        log.trim(upto)
    except (Retriable, StateCorrupted) as error:
        _log.warning("not trimmed", upto={str(p): offset for p, offset in upto.items()}, cause=str(error))
        return False
    return True
