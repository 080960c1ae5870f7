"""Standard streams and the current folder: where one is closed, full or gone, a command says so in one line."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress

UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of a write to a stream, which carry no file name."""


def open_closed() -> None:
    """Opens the null device in place of each closed stream; else the next file would get the stream's number."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115


def explain(error: OSError) -> bool:
    """Says on stderr what is wrong with a stream or the current folder. False if the error comes from elsewhere."""
    from holdfast.services.cli.terminal import say_error

    if error.filename is not None:
        return False
    if error.errno == errno.ENOENT and not _in_a_folder():
        say_error("the current folder is gone", "change to a folder that is there")
        return True
    if error.errno not in UNWRITABLE:
        return False
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)  # Python writes the rest of its buffers at the end, and must not fail again
    try:
        say_error(f"the output cannot be written: {error.strerror}", "free some room, or write it elsewhere")
    except OSError:
        os.dup2(null, 2)
    return True


def _in_a_folder() -> bool:
    with suppress(FileNotFoundError):
        return bool(os.getcwd())
    return False
