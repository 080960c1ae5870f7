"""Spark is an extra: what does not use it runs without pyspark and pandas, and what does says what to install."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.services.controller.spark_analysis import ask
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.node import doctor
from holdfast.services.node.settings import Settings
from holdfast.services.planning import spark_installation

ROOT = Path(__file__).parents[2]
SPARK = ("pyspark", "py4j", "pandas")
IMPORT_ALL = """
import importlib, pkgutil, sys
import holdfast
for package in (holdfast,):
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not found.name.startswith("holdfast.services.spark."):
            importlib.import_module(found.name)
print(*sorted(sys.modules))
"""
HIDDEN = f"""
import sys
from importlib.abc import MetaPathFinder

class Hidden(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {SPARK}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hidden())
import importlib.util
_find = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in {SPARK} else _find(name, package)
"""
JOB = """
name: heavy
sources: {given: {topic: given, fields: {k: string}}}
operators: {sums: {spark: {sql: "SELECT k, count(*) AS n FROM input GROUP BY k"}, input: given}}
queries: {all: {input: sums, sink: {topic: all}}}
"""


def script(text: str, cwd: Path = ROOT, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", text, *words], capture_output=True, text=True, cwd=cwd, check=False)


@pytest.mark.slow
def test_every_module_but_those_of_spark_loads_neither_pyspark_nor_pandas() -> None:
    done = script(IMPORT_ALL)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert "holdfast.services.worker.process.main" in loaded
    assert loaded & set(SPARK) == set()


@pytest.mark.slow
def test_every_module_but_those_of_spark_loads_where_pyspark_and_pandas_are_absent() -> None:
    done = script(HIDDEN + IMPORT_ALL)
    assert done.returncode == 0, done.stderr


COMMAND = "from holdfast.services.cli.__main__ import main; main()"


@pytest.mark.slow
@pytest.mark.parametrize("words", [["check", "job.yaml"], ["try", "job.yaml", "--input", "given=given.ndjson"]])
def test_a_job_on_spark_is_refused_with_the_command_that_installs_it(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "given.ndjson").write_text('{"k": "a"}\n')
    done = script(HIDDEN + COMMAND, tmp_path, *words)
    assert done.returncode != 0
    said = " ".join((done.stdout + done.stderr).split())
    assert "there is no pyspark and no pandas" in said
    assert "pip install 'holdfast-streams[spark]'" in said


def test_a_driver_without_spark_ends_with_the_command_that_installs_it() -> None:
    done = script(HIDDEN + "from holdfast.services.spark.__main__ import main; sys.exit(main())")
    assert (done.returncode, done.stdout) == (1, "")
    assert "pip install 'holdfast-streams[spark]'" in done.stderr


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


@pytest.mark.usefixtures("absent")
def test_a_controller_refuses_such_a_job_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(JobRejected) as refused:
        ask(None)  # type: ignore[arg-type]  # it is not looked at
    (problem,) = refused.value.problems
    assert (problem.path, spark_installation.COMMAND in problem.hint) == ("spark", True)


@pytest.mark.usefixtures("absent")
def test_doctor_names_the_command(tmp_path: Path) -> None:
    found = doctor.spark(Settings(home=tmp_path))
    assert (found.verdict, spark_installation.COMMAND in found.advice) == (doctor.Verdict.WARN, True)
