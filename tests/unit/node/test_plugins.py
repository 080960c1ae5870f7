"""`up` refuses a plugin that cannot be imported, and says which and why."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from holdfast.services.cli import cluster
from holdfast.services.kernel.errors import CommandFailed
from holdfast.services.node.plugins import check_plugins


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    return tmp_path


def refused(plugins: str, timeout_s: float = 60.0) -> CommandFailed:
    with pytest.raises(CommandFailed) as found:
        check_plugins(plugins, timeout_s)
    return found.value


def test_modules_of_the_folder_and_of_packages_are_imported_elsewhere(folder: Path) -> None:
    (folder / "scoring.py").write_text("import os\nprint('hello')\nopen('ran', 'w').write(str(os.getpid()))\n")
    (folder / "models").mkdir()
    (folder / "models" / "late.py").write_text("")
    check_plugins(" scoring, models.late,")
    assert int((folder / "ran").read_text()) != os.getpid()
    check_plugins("")


def test_the_first_one_that_cannot_be_imported_is_named_with_cause_and_fix(folder: Path) -> None:
    (folder / "scoring.py").write_text("")
    (folder / "broken.py").write_text("raise RuntimeError('no licence')")
    (folder / "leaves.py").write_text("raise SystemExit(3)")
    (folder / "dies.py").write_text("import os, sys\nprint('last words', file=sys.stderr, flush=True)\nos._exit(4)")
    error = refused("scoring,broken")
    assert error.message == "HOLDFAST_PLUGINS names broken, which cannot be imported here: RuntimeError: no licence"
    assert error.hint == "mend it, or take it out of HOLDFAST_PLUGINS"
    assert "SystemExit: 3" in refused("leaves").message
    assert "ended with status 4: last words" in refused("dies").message
    error = refused("scorings")
    assert "ModuleNotFoundError: No module named 'scorings'" in error.message
    assert error.hint == "did you mean 'scoring'?"
    assert "the folder that holds it" in refused("absent").hint


def test_a_module_that_does_not_come_to_an_end_is_refused(folder: Path) -> None:
    (folder / "hangs.py").write_text("import threading\nthreading.Event().wait()")
    assert refused("hangs", timeout_s=1.0).message.endswith("that takes longer than 1 s")


def test_up_looks_before_it_starts_anything(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_PLUGINS", "absent")
    with pytest.raises(CommandFailed, match="HOLDFAST_PLUGINS names absent"):
        cluster.up(data_dir=folder / "data", kafka="nowhere.invalid:9092")


def test_a_module_that_needs_a_session_of_spark_is_left_to_drivers(folder: Path) -> None:
    (folder / "pyspark").mkdir()
    (folder / "pyspark" / "__init__.py").write_text("class NoSession(RuntimeError): ...")
    (folder / "heavy.py").write_text("from pyspark import NoSession\nraise NoSession('create one first')")
    check_plugins("pyspark,heavy")
