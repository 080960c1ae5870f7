"""Trims decided logs to snapshots that were read back, for a process with a single thread.

Source: PROTOCOL 1; limit and time of trims: services/decisions/snapshots.py.
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
    """Makes the trim that is due, if any. Blocks for the request."""
    upto = trims.due(now_us)
    if upto is not None and not trim(log, upto):
        trims.withdraw()


def trim(log: Log, upto: Mapping[Partition, int]) -> bool:
    """Trims; returns true if it succeeded. A log that ends below its snapshot has lost its tail and stays as it is."""
    try:
        log.trim(upto)
    except (Retriable, StateCorrupted) as error:
        _log.warning("not trimmed", upto={str(p): offset for p, offset in upto.items()}, cause=str(error))
        return False
    return True
