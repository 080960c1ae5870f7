"""The console is an extra: only its own package needs NiceGUI, and the command says what to install."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.services.cli.commands import app

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
