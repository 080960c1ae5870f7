"""The command: the console is an extra, and what no option says is taken from the environment."""

from __future__ import annotations

import importlib.util
import json
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from holdfast.services.cli import whereabouts
from holdfast.services.cli.commands import app
from tests.support.shown_cluster import ShownCluster

ROOT = Path(__file__).parents[3]
NEEDS = re.compile(r"^\s*(?:from|import) (?:nicegui|fastapi|starlette|uvicorn|websockets|httpx)\b", re.MULTILINE)


def test_only_the_console_imports_what_the_extra_brings() -> None:
    files = [file for package in ("holdfast", "schemas", "services") for file in (ROOT / package).rglob("*.py")]
    found = {file.relative_to(ROOT).parts[:2] for file in files if NEEDS.search(file.read_text())}
    assert found == {("services", "console")}


def test_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    done = CliRunner().invoke(app, ["console"])
    assert done.exit_code == 1
    assert "there is no nicegui" in done.output
    assert "pip install 'holdfast-streams[console]'" in done.output


def test_settings_that_no_option_gives_are_taken_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    serving = pytest.importorskip("holdfast.services.console.server")
    served: list[Any] = []
    monkeypatch.setattr(serving, "serve", lambda _, one, __: served.append(one))
    monkeypatch.setattr(whereabouts, "connected", lambda *_: nullcontext(ShownCluster().door))
    said = {"PORT": "0", "ADDRESS": "0.0.0.0", "NAMES": "a.example b.example", "READ_ONLY": "true"}
    settings = {f"HOLDFAST_CONSOLE_{name}": value for name, value in said.items()}
    done = CliRunner().invoke(app, ["console", "--json", "--data-dir", str(tmp_path)], env=settings)
    (one,) = served
    one.bound_to.close()
    assert (one.address, one.names, one.read_only) == ("0.0.0.0", ("a.example", "b.example"), True)
    shown = json.loads(done.stdout)
    assert shown["address"] == f"http://127.0.0.1:{one.port}/?token={one.token}", "one that a browser here can open"
    assert (tmp_path / "console-token").stat().st_mode & 0o077 == 0
