"""The wheel runs a job with the user's code where there is no checkout, and holds nothing that a user does not need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {"holdfast"}
OPERATOR = """
import polars as pl
from holdfast import Context, KeyedTable, PythonOperator, State

class Nth(PythonOperator):
    output = {"k": "string", "nth": "int"}

    def __init__(self, start: int) -> None:
        self.start = start

    def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> pl.DataFrame:
        seen: KeyedTable = state.table("seen")
        rows = []
        for key in batch["k"]:
            seen.put(key, seen.get(key, self.start) + 1)
            rows.append((key, seen.get(key)))
        return pl.DataFrame(rows, schema=["k", "nth"], orient="row")
"""
JOB = """
name: counted
sources: {given: {topic: given, fields: {k: string}}}
operators: {nth: {python: "counting:Nth", key: [k], params: {start: 10}, input: given}}
queries: {all: {input: nth, sink: {topic: all}}}
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run("-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT))
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    run("-m", "pip", "install", "--no-deps", "--no-index", "--target", str(folder), str(wheel))
    return folder


def run(*arguments: str, cwd: Path | None = None, path: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONPATH": path}
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=cwd, env=environment)
    assert done.returncode == 0, done.stderr
    return done


def apart(installed: Path, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Without `site`, no .pth file puts the checkout on the path; the libraries are named by their folder."""
    libraries = next(one for one in sys.path if one.endswith("site-packages"))
    return run("-S", *arguments, cwd=cwd, path=os.pathsep.join([str(installed), libraries]))


def test_the_wheel_holds_what_is_installed_and_nothing_that_is_not(wheel: Path) -> None:
    names = [name.split("/") for name in ZipFile(wheel).namelist()]
    assert {name[0] for name in names if not name[0].endswith(".dist-info")} == PACKAGES


def test_a_job_with_the_users_code_runs_from_the_wheel_alone(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "counting.py").write_text(OPERATOR)
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "given.ndjson").write_text("".join(f'{{"k": "{key}"}}\n' for key in "aba"))
    probe = "import holdfast, holdfast.services, sys; "
    probe += "print(holdfast.__file__, holdfast.services.__file__, *sys.path, sep='\\n')"
    paths = apart(installed, tmp_path, "-c", probe).stdout.splitlines()
    assert all(path.startswith(str(installed)) for path in paths[:2])
    assert str(ROOT) not in paths

    command = str(installed / "bin" / "holdfast")
    done = apart(installed, tmp_path, command, "try", "job.yaml", "--input", "given=given.ndjson")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(one["k"], one["nth"]) for one in found] == [("a", 11), ("b", 11), ("a", 12)]


OWN = """
from counting import Nth
from services.scoring_lib import START
from schemas import NAMES

class FromOwn(Nth):
    def __init__(self) -> None:
        assert NAMES
        super().__init__(START)
"""
OWN_JOB = JOB.replace("counting:Nth", "own:FromOwn").replace(", params: {start: 10}", "")


@pytest.mark.parametrize("place", ["wheel", "checkout"])
def test_a_project_with_folders_of_our_names_keeps_them(place: str, installed: Path, tmp_path: Path) -> None:
    for name, text in (("services/scoring_lib.py", "START = 20"), ("schemas/__init__.py", "NAMES = ['k']")):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    (tmp_path / "counting.py").write_text(OPERATOR)
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "job.yaml").write_text(OWN_JOB)
    (tmp_path / "given.ndjson").write_text('{"k": "a"}\n')
    words = ["-m", "holdfast.services.cli", "try", "job.yaml", "--input", "given=given.ndjson"]
    done = apart(installed, tmp_path, *words) if place == "wheel" else run(*words, cwd=tmp_path)
    assert json.loads(done.stdout)["nth"] == 21


WINDOWED = """
name: counted
sources: {given: {topic: given, fields: {k: string, at: timestamp}, event_time: at}}
operators: {sums: {aggregate: {n: "count()"}, key: [k], window: {size_s: 60}, input: given}}
queries: {all: {input: sums, sink: {topic: all}}}
"""


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.timeout(1800)
def test_a_cluster_runs_a_job_from_an_environment_that_pip_has_made_of_the_wheel(wheel: Path, tmp_path: Path) -> None:
    """As a person without a checkout does it: an empty environment, an empty folder, and nothing of Spark."""
    environment, folder = tmp_path / "environment", tmp_path / "folder"
    folder.mkdir()
    run("-m", "venv", str(environment))
    python = environment / "bin" / "python"
    known = {
        name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_") and name != "PYTHONPATH"
    }

    def typed(*words: object) -> str:
        line = [str(word) for word in words]
        done = subprocess.run(line, capture_output=True, text=True, cwd=folder, env=known, check=False)
        assert done.returncode == 0, f"{' '.join(line)}\n{done.stdout}{done.stderr}"
        return done.stdout

    # With the lock as constraints, so that the test does not change with what others release.
    pinned = tmp_path / "constraints.txt"
    entries = (line.partition(" \\")[0] for line in (ROOT / "requirements.lock").read_text().splitlines())
    pinned.write_text("".join(f"{entry}\n" for entry in entries if entry[:1].isalnum()))
    typed(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", pinned, wheel)
    installed = typed(python, "-m", "pip", "list", "--format", "freeze").lower()
    assert "polars==" in installed
    assert "pyspark" not in installed
    assert "pandas" not in installed

    holdfast = environment / "bin" / "holdfast"
    (folder / "job.yaml").write_text(WINDOWED)
    (folder / "given.ndjson").write_text('{"k": "a", "at": "2026-01-01T00:00:00Z"}\n' * 3)
    try:
        assert "ready: Kafka at" in typed(holdfast, "up", "--detach")
        typed(holdfast, "send", "given", "given.ndjson", "--create-topics")
        typed(holdfast, "submit", "job.yaml", "--create-topics")
        typed(holdfast, "cancel", "counted", "--drain")
        rows = [json.loads(line) for line in typed(holdfast, "results", "counted", "all", "--limit", "1").splitlines()]
        assert [(row["k"], row["n"]) for row in rows] == [("a", 3)]
    finally:
        typed(holdfast, "down")
    assert {path.name for path in folder.iterdir()} == {"job.yaml", "given.ndjson", ".holdfast"}


def test_importing_holdfast_loads_no_client_of_kafka_and_no_spark(installed: Path, tmp_path: Path) -> None:
    probe = "import holdfast, sys; print(*{name.split('.')[0] for name in sys.modules})"
    loaded = set(apart(installed, tmp_path, "-c", probe).stdout.split())
    assert not loaded & {"confluent_kafka", "aiokafka", "faust", "pyspark", "py4j", "pandas", "rocksdict", "pydantic"}
