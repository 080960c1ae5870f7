"""Disk: files that a supervisor writes beside Kafka, on a disk that may be full. A failed write never ends it.

A write that fails is reported once and tried again; a second report follows when all failed writes have succeeded.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from holdfast.services.kernel.plurals import plural

LOW_BYTES = 16 * 1024 * 1024
"""Free bytes below which Kafka cannot make the next segments, and must not be started."""

SPACE = "what comes next"

Report = Callable[[str, str], None]
"""Takes the kind of an event and its detail."""


class Disk:
    """The disk under one directory, as a supervisor meets it. May be used from any thread.

    Args:
        report: called when something fails while all was well, and when all is well again.
    """

    def __init__(self, directory: Path, report: Report) -> None:
        self._directory = directory
        self._report = report
        self._failed: dict[str, str] = {}
        self._lock = threading.Lock()

    @property
    def trouble(self) -> str:
        """Message about things that cannot be written and why, empty while all is well."""
        return "; ".join(f"{what}: {why}" for what, why in self._failed.items())

    def tries(self, what: str, write: Callable[[], object]) -> bool:
        """Writes; False if that failed."""
        try:
            write()
        except OSError as error:
            self.fails(what, error.strerror or str(error))
            return False
        self.succeeds(what)
        return True

    def has_room(self, what: str) -> bool:
        """True if there is enough room for this part; otherwise the part counts as failed."""
        if why := shortage(self._directory):
            self.fails(what, why)
            return False
        return True

    def look(self) -> None:
        """Checks the room from time to time: a nearly full disk is reported while Kafka can still take the event."""
        if self.has_room(SPACE):
            self.succeeds(SPACE)

    def fails(self, what: str, why: str) -> None:
        with self._lock:
            first = not self._failed
            self._failed[what] = why
        if first:
            why = shortage(self._directory) or why
            self._report("disk-full", f"{what}: {why}; it is tried again until there is room")

    def succeeds(self, what: str) -> None:
        with self._lock:
            over = self._failed.pop(what, None) is not None and not self._failed
        if over:
            self._report("disk-has-room", f"all is written again in {self._directory}")


def shortage(directory: Path) -> str:
    """The message for a person if a directory's disk is full; empty if it has room, or if that is unknown."""
    try:
        found = os.statvfs(directory)
    except OSError:
        return ""
    free = found.f_bavail * found.f_frsize
    if free < LOW_BYTES:
        return f"no room in {directory}: {plural(free, 'byte')} free"
    if found.f_files and not found.f_favail:
        return f"no room in {directory}: no file can be added, it has {found.f_files:,}"
    return ""


def put(file: Path, text: str) -> None:
    """Replaces a file in one step, if its text differs: on a full disk the former file stays whole."""
    if file.exists() and file.read_text(errors="replace") == text:
        return
    beside = file.with_name(f".{file.name}")
    beside.write_text(text)
    beside.replace(file)
