"""Children keep compiled modules, also where the environment forbids them, and nothing is written beside sources."""

from __future__ import annotations

import os
import py_compile
import re
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.services.node.machine import bytecode
from holdfast.services.node.machine.bytecode import FORBIDDEN, PREFIX, is_compiled, of_children
from holdfast.services.node.machine.processes import Child

ROOT = Path(__file__).parents[3]


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Some modules are not compiled; where those of children go."""
    monkeypatch.setattr(bytecode, "_all_compiled", lambda: False)
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(FORBIDDEN, "1")
    monkeypatch.delenv(PREFIX, raising=False)
    return tmp_path / "cache" / "modules"


def test_a_child_keeps_its_compiled_modules_in_the_cache(missing: Path, tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "loaded.py").write_text("print('ran')")
    log = tmp_path / "log"
    child = Child([sys.executable, "-c", "import loaded"], log=log, directory=tmp_path / "ours")
    assert child.wait(300) == 0, log.read_text()
    assert log.read_text() == "ran\n"
    assert [path.name for path in missing.rglob("loaded*")] == [f"loaded.{sys.implementation.cache_tag}.pyc"]
    assert os.listdir(tmp_path / "ours") == ["loaded.py"]


def test_a_user_who_may_write_or_names_a_cache_keeps_the_environment(missing: Path) -> None:
    assert of_children({}) == {}
    assert of_children({FORBIDDEN: ""}) == {FORBIDDEN: ""}
    given = {FORBIDDEN: "1", PREFIX: "/elsewhere"}
    assert of_children(given) == given
    assert of_children({FORBIDDEN: "1", "A": "b"}) == {"A": "b", PREFIX: str(missing)}


def test_nothing_changes_if_all_is_compiled(missing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an image: a cache of its own would be compiled once more in each container."""
    monkeypatch.setattr(bytecode, "_all_compiled", lambda: True)
    assert of_children({FORBIDDEN: "1"}) == {FORBIDDEN: "1"}


def test_a_module_is_compiled_as_long_as_its_source_does_not_change(tmp_path: Path) -> None:
    source = tmp_path / "one.py"
    source.write_text("x = 1")
    assert not is_compiled(source)
    py_compile.compile(str(source))
    assert is_compiled(source)
    source.write_text("x = 10")
    assert not is_compiled(source)
    py_compile.compile(str(source), invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)
    assert is_compiled(source)


def test_every_module_of_ours_and_libraries_is_looked_at() -> None:
    found = {path.name for path in bytecode._sources()}
    assert {"bytecode.py", "heartbeats.py", "__init__.py"} <= found


def test_images_and_setup_compile_everything_with_our_own_sources() -> None:
    docker = (ROOT / "infra" / "docker" / "Dockerfile").read_text()
    assert FORBIDDEN not in docker
    assert docker.count("/opt/holdfast/bin/python -m compileall -q") == 2, "of services, and of Spark"
    setup = (ROOT / "scripts" / "setup").read_text()
    assert re.search(r"compileall -q -j 2 .*\.venv/lib services schemas holdfast bench ", setup)


@pytest.mark.parametrize(
    "module", ["holdfast.services.node.machine.processes", "holdfast.services.node.detached_start"]
)
def test_each_way_to_start_a_process_goes_by_it(module: str) -> None:
    text = (ROOT / f"{module.replace('.', '/')}.py").read_text()
    assert "{**of_children(), " in text
    assert "env={**os.environ" not in text


def test_nothing_else_starts_a_python_of_ours_with_an_environment_of_its_own() -> None:
    found = subprocess.run(
        ["grep", "-rln", "env={\\*\\*os.environ", str(ROOT / "services"), "--include=*.py"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    allowed = {"services/node/machine/java.py", "services/node/kafka/broker.py", "services/node/machine/artifacts.py"}
    assert {str(Path(line).relative_to(ROOT)) for line in found.stdout.split()} <= allowed
