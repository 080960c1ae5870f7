"""Deletes the checkpoint directories of jobs that are over, made by any driver."""

from __future__ import annotations

import math
import re
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

LOOK_MS = 60_000.0
_OF_A_JOB = re.compile(r"[a-z][a-z0-9_-]*\.(?P<generation>\d+-[0-9a-f]{6})")


class Leftovers:
    """Leftover directories in a directory that drivers share.

    Args:
        over: True for a generation that has ended or has left `jobs.plans`; False while that is unknown.
        run: runs a call beside the loop, since deleting many files takes long.
    """

    def __init__(
        self,
        root: Path,
        over: Callable[[str], bool],
        run: Callable[[Callable[[], None]], None] = lambda call: threading.Thread(target=call, daemon=True).start(),
    ) -> None:
        self._root = root
        self._over = over
        self._run = run
        self._looked_ms = -math.inf

    def look(self, now_ms: float) -> None:
        """Deletes directories of ended generations, at most once a minute."""
        if now_ms - self._looked_ms < LOOK_MS:
            return
        self._looked_ms = now_ms
        gone = [path for path in self._root.glob("*") if self._is_over(path.name)]
        if gone:
            self._run(lambda: _delete(gone))

    def _is_over(self, name: str) -> bool:
        found = _OF_A_JOB.fullmatch(name)
        return found is not None and self._over(found["generation"])


def _delete(paths: list[Path]) -> None:
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)
