"""Backups: savepoints of a job by a schedule, of which the newest are kept.

Source: JOBS "holdfast savepoint". A folder holds them, each in a directory that is named by its time. Nothing else in
the folder is touched, and the oldest go only once a newer one is complete.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from math import floor
from pathlib import Path

from holdfast.services.client.savepoint_files import MANIFEST
from holdfast.services.client.saving import Saved
from holdfast.services.kernel.errors import CommandFailed, Retriable

NAME = "%Y%m%dT%H%M%SZ"
_NAMED = re.compile(r"\d{8}T\d{6}Z")


@dataclass(frozen=True, slots=True)
class Schedule:
    """A savepoint every so many seconds, of which `keep` stay."""

    every_s: float
    keep: int


@dataclass(frozen=True, slots=True)
class Backup:
    """A savepoint that was due. saved: as it was written; trouble: why it was not. deleted: older ones that went."""

    path: Path
    saved: Saved | None = None
    trouble: str = ""
    deleted: tuple[Path, ...] = ()


def backups(folder: Path) -> list[Path]:
    """Complete ones, the oldest first."""
    if not folder.is_dir():
        return []
    return sorted(one for one in folder.iterdir() if _NAMED.fullmatch(one.name) and (one / MANIFEST).is_file())


def back_up(
    folder: Path,
    schedule: Schedule,
    take: Callable[[Path], Saved],
    clock_s: Callable[[], float],
    wait: Callable[[float], None],
) -> Iterator[Backup]:
    """Takes savepoints for as long as it is asked for the next one. One that fails is not taken again before its time.

    Args:
        take: writes a savepoint to a directory; raises CommandFailed or Retriable.
        clock_s: time of day. wait: lets so many seconds pass.
    """
    due_s = clock_s()
    while True:
        wait(max(0.0, due_s - clock_s()))
        path = folder / datetime.fromtimestamp(clock_s(), UTC).strftime(NAME)
        try:
            saved = take(path)
        except (CommandFailed, Retriable) as error:
            yield Backup(path, trouble=str(error))
        else:
            yield Backup(path, saved, deleted=tuple(_pruned(folder, schedule.keep)))
        due_s += schedule.every_s * (1 + floor(max(0.0, clock_s() - due_s) / schedule.every_s))


def _pruned(folder: Path, keep: int) -> Iterator[Path]:
    for path in backups(folder)[:-keep]:
        (path / MANIFEST).unlink()  # from here on it is none, also if this is as far as it gets
        shutil.rmtree(path, ignore_errors=True)
        yield path
