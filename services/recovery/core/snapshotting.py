"""When a recovery replica writes a snapshot of `assignments`.

Source: PROTOCOL 1: anyone may. Every replica does once the log has grown enough since the last one that it has read
back; each waits for a few records more or less than the others, so one of them is usually first. A second one is
harmless.
"""

from __future__ import annotations

from zlib import crc32

from services.kernel.logs.standings import Standings

EVERY = 2_000
"""Records between two snapshots, at least."""
UNITS = 500
"""With more of them the more records: so snapshots stay a small part of the log."""
MAX_BYTES = 8 * 1024 * 1024
"""A larger snapshot is not written: Kafka takes records of 16 MiB."""


class Snapshotting:
    """Of one replica. every: records between two snapshots, at least."""

    def __init__(self, name: str, every: int = EVERY) -> None:
        self._every = every
        self._later = crc32(name.encode()) % (every // 4 + 1)
        self._asked = -1

    def due(self, standings: Standings) -> bool:
        """Whether to write one now; it counts as written until `withdraw`."""
        grown = standings.next - max(standings.snapshotted, self._asked)
        if grown < self._every * max(1.0, len(standings) / UNITS) + self._later:
            return False
        self._asked = standings.next
        return True

    def withdraw(self) -> None:
        """It was not appended, as far as anybody knows: it is due again."""
        self._asked = -1
