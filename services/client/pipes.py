"""Pipes given as files, such as <(zcat rows.gz) of a shell or /dev/stdin: without a length, and gone once read.

Source: JOBS "send ... feed a file".
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import IO

from holdfast.services.client.unusable import UnusableFile

_DEVICES = Path("/dev")
"""A shell gives the standard input and its pipes names there, also where they are redirected from a file."""


def is_pipe(path: Path) -> bool:
    """True for a pipe or a device; false for a file, a directory, and a path where nothing is."""
    return path.exists() and not path.is_dir() and (not path.is_file() or _DEVICES in path.absolute().parents)


def copied(file: IO[bytes]) -> IO[bytes]:
    """A copy of the rest of the file, which can be read more than once. Raises OSError."""
    copy: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
    try:
        shutil.copyfileobj(file, copy)
    except BaseException:
        copy.close()
        raise
    copy.seek(0)
    return copy


def refuse_pipe(path: Path, why: str) -> None:
    """Raises UnusableFile for a pipe. `why`: the reason that a pipe does not suffice."""
    if is_pipe(path):
        raise UnusableFile(f"{path} is a pipe, which is gone once it is read, and {why}", "write it to a file before")
