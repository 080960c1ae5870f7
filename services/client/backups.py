"""Backups: savepoints of a job by a schedule; the newest are kept.

Source: JOBS "holdfast savepoint". A folder holds them, each in a directory named by its time. Nothing else in the
    folder is touched, and the oldest are deleted only once a newer one is complete.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import floor
from pathlib import Path

from holdfast.services.client.places import StorePlace
from holdfast.services.client.savepoint_files import MANIFEST, remove
from holdfast.services.client.savepoints import Saved
from holdfast.services.kernel.errors import CommandFailed, Retriable

NAME = "%Y%m%dT%H%M%SZ"
_NAMED = re.compile(r"\d{8}T\d{6}Z")


@dataclass(frozen=True, slots=True)
class Schedule:
    """A savepoint every `every_s` seconds; the newest `keep` are kept."""

    every_s: float
    keep: int


@dataclass(frozen=True, slots=True)
class Backup:
    """A savepoint that was due.

    saved: the written savepoint; None if it failed.
    trouble: reason of a failure, or reason for which older savepoints could not be deleted.
    deleted: older savepoints that were deleted.
    """

    path: Path | StorePlace
    saved: Saved | None = None
    trouble: str = ""
    deleted: tuple[Path | StorePlace, ...] = ()


def backups(folder: Path | StorePlace) -> list[Path | StorePlace]:
    """Complete backups in the folder, the oldest first. Raises OSError where a store does not answer."""
    if not folder.is_dir():
        return []
    named = (one for one in folder.iterdir() if _NAMED.fullmatch(one.name))
    return sorted((one for one in named if (one / MANIFEST).is_file()), key=lambda one: one.name)


def back_up(
    folder: Path | StorePlace,
    schedule: Schedule,
    take: Callable[[Path | StorePlace], Saved],
    clock_s: Callable[[], float],
    wait: Callable[[float], None],
) -> Iterator[Backup]:
    """Takes a savepoint for each item that the caller requests. A failed one is not repeated before the next is due.

    Args:
        take: writes a savepoint to a directory; raises CommandFailed or Retriable.
        clock_s: returns the time of day in seconds.
        wait: waits for a number of seconds.
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
            yield _pruned(Backup(path, saved), folder, schedule.keep)
        due_s += schedule.every_s * (1 + floor(max(0.0, clock_s() - due_s) / schedule.every_s))


def _pruned(taken: Backup, folder: Path | StorePlace, keep: int) -> Backup:
    """Deletes the oldest backups. A backup that a store does not delete stays, and is tried again after the next
    backup.
    """
    deleted: list[Path | StorePlace] = []
    try:
        for path in backups(folder)[:-keep]:
            remove(path)
            deleted.append(path)
    except OSError as error:
        why = error.strerror or str(error)
        return replace(taken, trouble=f"older ones could not be deleted: {why}", deleted=tuple(deleted))
    return replace(taken, deleted=tuple(deleted))
