"""Services that the copies of one driver share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.schemas.events import Event
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.decided import Author
from holdfast.services.log.protocol import Appender, Log


@dataclass(frozen=True, slots=True)
class DriverServices:
    """The services of a host for its copies. `refuse` is called with the position of a job's record that does not fit,
    the reason, and the job."""

    log: Log
    appender: Appender
    author: Author
    clock_ms: Callable[[], float]
    time_ms: Callable[[], int]
    happened: Callable[[Event], None]
    refuse: Callable[[Partition, int, str, str], None]
