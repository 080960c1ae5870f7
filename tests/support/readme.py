"""The commands of the README, in the order of its text, and what it says that they print."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"
_SHELL = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
_JOB = re.compile(
    r"`(\w+\.yaml)`[^\n]*\n\n```yaml\n(.*?)^```|`(\w+\.yaml)`.*?\n```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Step:
    """prints: lines, each the beginning of a line that the command prints, in this order."""

    command: str
    prints: tuple[str, ...]


def steps() -> list[Step]:
    found: list[Step] = []
    for block in _SHELL.findall(README.read_text(encoding="utf-8")):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *prints = part.splitlines()
            found.append(Step(command, tuple(prints)))
    return found


def job_files() -> dict[str, str]:
    """The text of each job file, by the name that stands before it."""
    found = {}
    for first, text, other, more in _JOB.findall(README.read_text(encoding="utf-8")):
        found[first or other] = text or more
    return found
