"""Commands load what they need, and no library that is slow to load and does nothing for them."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.services.cli.commands import COMMANDS, Command

PROBE = """
import atexit, os, sys
def said():
    print("LOADED", *sorted({name for name in sys.modules if sys.modules[name] is not None}), file=sys.stderr)
atexit.register(said)
from holdfast.services.cli.__main__ import main
main()
"""
COMPUTE = {"numpy", "pandas", "polars", "pyarrow"}
SERVE = {"aiokafka", "asyncio", "confluent_kafka", "faust", "http.server", "prometheus_client", "rocksdict", "ssl"}
SHOW = {"pygments", "rich", "structlog"}
SPARK = {"pandas", "py4j", "pyspark"}
JOB = """
name: counted
sources: {given: {topic: given, fields: {k: string, at: timestamp}, event_time: at}}
operators: {counted: {aggregate: {n: "count()"}, key: [k], window: {size_s: 60}, input: given}}
queries: {all: {input: counted, sink: {topic: all}}}
"""


def loaded_by(folder: Path, *words: str) -> set[str]:
    """Modules that are loaded when the command ends."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *words], capture_output=True, text=True, cwd=folder, check=False
    )
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("LOADED")]
    return set(line.split()[1:])


@pytest.mark.parametrize("words", [["--help"], ["-h"]])
def test_the_page_of_all_commands_loads_no_command_and_nothing_that_is_slow(words: list[str], tmp_path: Path) -> None:
    loaded = loaded_by(tmp_path, *words)
    assert loaded & {*COMPUTE, *SERVE, *SHOW, *SPARK, "msgspec", "pydantic", "yaml"} == set()
    commands = {name for name in loaded if name.startswith("holdfast.services.cli.")}
    assert commands == {f"holdfast.services.cli.{name}" for name in ("__main__", "commands", "terminal")}


@pytest.mark.slow
def test_a_run_in_memory_loads_what_computes_and_nothing_that_serves_or_shows(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "given.ndjson").write_text('{"k": "a", "at": "2026-01-01T00:00:00Z"}\n' * 3)
    loaded = loaded_by(tmp_path, "try", "job.yaml", "--input", "given=given.ndjson")
    assert {"polars", "pyarrow"} <= loaded, "the job was not run"
    assert loaded & {*SERVE, *SHOW, *SPARK, "pydantic_settings"} == set()
    assert {path.name for path in tmp_path.iterdir()} == {"job.yaml", "given.ndjson"}


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_a_command_is_summed_up_by_the_first_paragraph_of_its_docstring(command: Command) -> None:
    said = inspect.getdoc(command.load()) or ""
    assert command.summary == " ".join(said.split("\n\n")[0].split())


def test_each_command_stands_in_the_table_once() -> None:
    assert len({command.name for command in COMMANDS}) == len(COMMANDS)
