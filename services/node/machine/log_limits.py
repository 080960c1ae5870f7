"""Limits of the log of a process: its size, and the number of former ones that are kept: `x.log`, then `x.log.1`, the
newest.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class LogLimits:
    """Limits of a log.

    bytes: size at which a file is full.
    former: number of former files kept.
    """

    bytes: int = 16 * MIB
    former: int = 1

    def exceeded(self, log: Path) -> bool:
        return log.exists() and log.stat().st_size > self.bytes

    def rotate(self, log: Path) -> None:
        """Moves the log of a process that does not run. Raises OSError."""
        newest = self._make_room(log)
        if newest is None:
            log.unlink()
        else:
            log.replace(newest)

    def bound(self, log: Path) -> None:
        """Bounds the log of a process that continues in the same file, which it appends to.

        Where there is no room for two, its messages are dropped. Raises OSError.
        """
        if not self.exceeded(log):
            return
        newest = self._make_room(log)
        if newest is not None:
            try:
                shutil.copyfile(log, newest)
            except OSError:
                newest.unlink(missing_ok=True)
        os.truncate(log, 0)

    def _make_room(self, log: Path) -> Path | None:
        """Path to which the full log moves, after older files were renumbered and the oldest deleted; None if none is
        kept.
        """
        kept = {number: log.with_name(f"{log.name}.{number}") for number in range(1, self.former + 1)}
        for path in log.parent.glob(f"{log.name}.*"):
            if path.name.removeprefix(f"{log.name}.").isdigit() and path not in kept.values():
                path.unlink(missing_ok=True)
        for number in range(self.former, 1, -1):
            if kept[number - 1].exists():
                kept[number - 1].replace(kept[number])
        return kept.get(1)
