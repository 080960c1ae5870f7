"""Moves the cluster's processes to a newer format once every process that lives reads it.

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
    """Formats that processes read, in attentive time. began_us: since then nobody was missed; None: not yet."""

    began_us: int | None = None
    _heard: dict[str, tuple[int, int]] = field(default_factory=dict)

    def hear(self, name: str, reads: int, now_us: int) -> None:
        """reads: the newest format that the process reads."""
        self._heard[name] = reads, now_us

    def read(self, record: HeartbeatRecord, now_us: int) -> None:
        """Takes in a heartbeat of a worker, or of its parent."""
        if isinstance(record, Heartbeat):
            self.hear(record.worker, record.reads, now_us)
        else:
            self._heard.pop(record.worker, None)

    def due(self, now: int, now_us: int) -> int:
        """The format to write from now on; 0: that of now. All that lives has been heard in the last LIVE_US."""
        if now >= formats.NEWEST or self.began_us is None or now_us - self.began_us < LIVE_US:
            return 0
        self._heard = {name: one for name, one in self._heard.items() if now_us - one[1] < LIVE_US}
        reads = [reads for reads, _ in self._heard.values()]
        return formats.NEWEST if reads and min(reads) >= formats.NEWEST else 0
