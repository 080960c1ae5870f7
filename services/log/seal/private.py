"""Files of a cluster are readable by their owner alone: state and logs hold users' records, and
settings hold secrets.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

OWNER = 0o700
_OTHERS = 0o077


def keep_private() -> None:
    """Makes files and directories that this process and its children create from now on
    readable by their owner alone.
    """
    os.umask(_OTHERS)


def make_private(directory: Path) -> None:
    """Removes the access of other users to a directory of an earlier version, if it exists and this user owns it."""
    with suppress(OSError):
        directory.chmod(OWNER)


def refused(file: Path) -> str:
    """Advice for a file that this process may not read: the users that may, this process's user, and the fix."""
    try:
        owner = f"user {file.stat().st_uid}"
    except OSError:
        owner = "its owner"
    return (
        f"{owner} may read {file}, and this process runs as user {os.geteuid()}: run it as that user. In containers, "
        "`export HOLDFAST_UID=$(id -u)` as the owner of the file before `docker compose`, or as root give the file to "
        "the containers' user: `chown 10001`"
    )
