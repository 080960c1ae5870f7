"""Advice for a person when the demo fails: the end of the log that matters, and the command to run again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

LINES, BYTES = 15, 256 * 1024
_TROUBLE = re.compile(r"\berror\b|Traceback|\bERROR\b|Exception", re.IGNORECASE)


def end_of_log(logs: Path) -> tuple[str, list[str]]:
    """Name and last lines of the newest log with an error, or else of the supervisor's log; an empty name without any
    log.
    """
    tails = {path: _tail(path) for path in logs.glob("*.log")}
    told = {path: lines for path, lines in tails.items() if any(map(_TROUBLE.search, lines))}
    supervisor = {path: lines for path, lines in tails.items() if path.name == "supervisor.log"}
    found = told or supervisor or tails
    if not found:
        return "", []
    newest = max(found, key=lambda path: (path.stat().st_mtime, path.name))
    return newest.name, found[newest][-LINES:]


def advice(folder: Path, arguments: Sequence[str]) -> list[str]:
    """Lines to print after a failure."""
    logs = folder / "cluster" / "logs"
    name, lines = end_of_log(logs)
    again = " ".join(["./scripts/demo", *map(shlex.quote, arguments)])
    return [*([f"the last lines of {name}:", *(f"  {line}" for line in lines)] if lines else []),
            f"data and logs are kept in {folder}" + (f", logs in {logs}" if logs.exists() else ""),
            f"run again: {again}"]  # fmt: skip


def _tail(path: Path) -> list[str]:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - BYTES))
        return file.read().decode(errors="replace").splitlines()[-200:]
