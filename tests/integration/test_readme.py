"""The README's commands, in the order of its text, do what it says, whatever files of the person lie in the folder."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.commands import HOLDFAST
from tests.support.readme import Step, job_files, steps

PATIENCE_S = 240
WRITTEN = ("flights.ndjson", ".holdfast")
"""Files of the README's own printf, and the data directory, in which logs stay."""
OWN = ("json", "queue", "random", "selectors", "types", "polars", "yaml", "services", "schemas", "holdfast")
"""Modules of libraries, which files of the person who types the commands happen to be named as."""


@pytest.mark.kafka
@pytest.mark.slow
def test_the_commands_of_the_readme_do_what_it_says(tmp_path: Path) -> None:
    for name, text in job_files().items():
        (tmp_path / name).write_text(text)
    own = {f"{name}.py" for name in OWN}
    for name in own:
        (tmp_path / name).write_text(f"raise SystemError('{name} is no library')\n")
    assert len(steps()) >= 10
    try:
        for step in steps():
            follows(step, tmp_path)
        assert {path.name for path in tmp_path.iterdir()} <= {*job_files(), *WRITTEN, *own}, "nothing else is left"
    finally:
        typed("holdfast down --purge", tmp_path)


def follows(step: Step, folder: Path) -> None:
    done = typed(step.command, folder)
    assert done.returncode == 0, f"$ {step.command}\n{done.stdout}{done.stderr}"
    lines = iter(f"{done.stdout}\n{done.stderr}".splitlines())
    for expected in step.prints:
        assert any(line.startswith(expected) for line in lines), (
            f"$ {step.command} does not print {expected!r}\n{done.stdout}{done.stderr}"
        )


def typed(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """As in a shell of a person who has just set holdfast up."""
    path = f"{HOLDFAST.parent}{os.pathsep}{os.environ['PATH']}"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    kept = {name: os.environ[name] for name in ("HOLDFAST_CACHE",) if name in os.environ}
    return subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**environment, **kept, "PATH": path},
        timeout=PATIENCE_S,
        check=False,
    )
