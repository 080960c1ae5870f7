"""Commands whose output is closed or full, whose folder is gone, or whose name is misspelt: one line, no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.services.cli import streams

HOLDFAST = Path(sys.executable).parent / "holdfast"


def said(words: str, tmp_path: Path) -> tuple[int, str]:
    """Status and stderr of a line of the shell, in which `holdfast` is this one."""
    done = subprocess.run(["bash", "-c", words], cwd=tmp_path, capture_output=True, text=True, check=False,
                          env={**os.environ, "PATH": f"{HOLDFAST.parent}:{os.environ['PATH']}"})  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("words", ["--help", "functions", "schema"])
def test_a_full_disk_below_the_output_is_one_line(words: str, tmp_path: Path) -> None:
    status, errors = said(f"holdfast {words} > /dev/full", tmp_path)
    expected = "error: the output cannot be written: No space left on device (free some room, or write it elsewhere)\n"
    assert (status, errors) == (1, expected)


def test_a_closed_output_is_no_error(tmp_path: Path) -> None:
    assert said("holdfast functions >&-", tmp_path) == (0, "")


def test_a_folder_that_is_gone_is_one_line(tmp_path: Path) -> None:
    status, errors = said("mkdir gone; cd gone; rmdir ../gone; holdfast list", tmp_path)
    assert (status, errors) == (1, "error: the current folder is gone (change to a folder that is there)\n")


def test_an_error_of_a_named_file_or_of_something_else_is_left_alone() -> None:
    assert not streams.explain(FileNotFoundError(2, "No such file", "some.yaml"))
    assert not streams.explain(ConnectionRefusedError(111, "Connection refused"))


def test_a_misspelt_command_names_the_nearest_one(tmp_path: Path) -> None:
    status, errors = said("holdfast sumbit job.yaml", tmp_path)
    assert status == 2
    assert "There is no command 'sumbit': did you mean 'submit'?" in errors
