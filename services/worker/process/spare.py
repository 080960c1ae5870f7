"""The worker's part of a spare: a process that has loaded everything waits until its parent names the worker to become.

The parent's part is services/node/members/spares.py.
"""

from __future__ import annotations

import os

import msgspec

TOLD_BY = "HOLDFAST_TOLD_BY"
"""Variable with the descriptor from which a spare reads its settings. The end of the stream without content means that
no worker needs the spare."""


class Run(msgspec.Struct, frozen=True):
    """Settings of the worker that a spare becomes. `log` is the file for its later output; empty for no change."""

    environment: dict[str, str]
    log: str = ""


def become() -> bool:
    """Waits, if this process is a spare, and applies the settings that it receives. False if the process must end."""
    given = os.environ.pop(TOLD_BY, "")
    if not given:
        return True
    with os.fdopen(int(given), "rb") as told:
        said = told.read()
    if not said:
        return False
    run = msgspec.json.decode(said, type=Run)
    os.environ.update(run.environment)
    if run.log:
        file = os.open(run.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.dup2(file, 1)
        os.dup2(file, 2)
        os.close(file)
    return True
