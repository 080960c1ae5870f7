"""Folders and files that cannot be used: an error names the place, the cause, and the setting that names another place.

The words of the operating system are not enough: it says "No such file or directory" of a folder that cannot be made.
"""

from __future__ import annotations

import errno
import getpass
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.services.kernel.errors import CommandFailed
from holdfast.services.node.machine.disk import shortage

DATA_SETTING = "give a folder that can be written: --data-dir, or HOLDFAST_HOME"
CACHE_SETTING = "give a folder that can be written: HOLDFAST_CACHE"
FULL = (errno.ENOSPC, errno.EDQUOT)


def cache_dir() -> Path:
    """Directory of resolved sets: HOLDFAST_CACHE, else ~/.cache/holdfast."""
    return Path(os.environ.get("HOLDFAST_CACHE") or "~/.cache/holdfast").expanduser().absolute()


def explained(error: OSError, data_dir: Path | None = None) -> tuple[str, str]:
    """Place and cause; and the fix, empty if that depends on the use of the file.

    Args:
        data_dir: of the cluster that the command is about.
    """
    place = Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes | os.PathLike) else data_dir
    if place is None:
        return str(error), ""
    place = place.absolute()
    for folder, name, setting in _known(data_dir):
        if place.is_relative_to(folder):
            return f"{name} {folder}: {cause(error, place, to_be_made=True)}", _fix(error, setting)
    return f"{place}: {cause(error, place)}", "free some room" if error.errno in FULL else ""


def _known(data_dir: Path | None) -> Iterator[tuple[Path, str, str]]:
    """Folder, name and setting of each place that a command uses unasked."""
    if data_dir is not None:
        yield data_dir.absolute(), "the data folder", DATA_SETTING
    yield cache_dir(), "the cache", CACHE_SETTING


def cause(error: OSError, place: Path, *, to_be_made: bool = False) -> str:
    existing = next(folder for folder in (place, *place.parents) if os.path.lexists(folder))
    match error.errno:
        case errno.EROFS:
            return f"the file system of {existing} can only be read"
        case errno.EACCES | errno.EPERM:
            return f"the user {_user()} may not use {existing}"
        case errno.ENOTDIR | errno.EEXIST:
            return f"{existing} is a file, no folder"
        case errno.ENOENT if to_be_made and existing != place:
            return f"nothing can be made in {existing}"
        case errno.ENOENT if existing not in (place, place.parent):
            return f"there is no folder {place.parent}"
        case code if code in FULL:
            return shortage(existing) or "its disk is full"
    return error.strerror or str(error)


@contextmanager
def using(folder: Path, setting: str) -> Iterator[None]:
    """Steps that need the folder. Raises CommandFailed if the operating system refuses one."""
    try:
        yield
    except OSError as error:
        place = folder.absolute()
        raise CommandFailed(f"{place}: {cause(error, place, to_be_made=True)}", _fix(error, setting)) from error


def _fix(error: OSError, setting: str) -> str:
    return f"free some room, or {setting}" if error.errno in FULL else setting


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
