"""Moves the cluster's processes to a newer format once every live process reads it.

Source: PROTOCOL 8, decision 0078. A process that is silent for longer than LIVE_US counts as gone; if it lives, it ends
when it reads in `assignments` that the format is newer than its own release.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.schemas import formats
from holdfast.schemas.heartbeats import Heartbeat, HeartbeatRecord

LIVE_US = 10_000_000


@dataclass(slots=True)
class Readers:
    """Formats that processes read, by process.

    began_us: attentive time since which every live process was heard; None: this replica does not act yet.
    """

    began_us: int | None = None
    _heard: dict[str, tuple[int, int]] = field(default_factory=dict)

    def hear(self, name: str, reads: int, now_us: int) -> None:
        """Notes the newest format that a process reads."""
        self._heard[name] = reads, now_us

    def read(self, record: HeartbeatRecord, now_us: int) -> None:
        """Takes a heartbeat of a worker, or the exit notice of its parent."""
        if isinstance(record, Heartbeat):
            self.hear(record.worker, record.reads, now_us)
        else:
            self._heard.pop(record.worker, None)

    def due(self, now: int, now_us: int) -> int:
        """Returns the format to write from now on; 0 if no change is due. Processes heard in the last LIVE_US count."""
        if now >= formats.NEWEST or self.began_us is None or now_us - self.began_us < LIVE_US:
            return 0
        self._heard = {name: one for name, one in self._heard.items() if now_us - one[1] < LIVE_US}
        reads = [reads for reads, _ in self._heard.values()]
        return formats.NEWEST if reads and min(reads) >= formats.NEWEST else 0
