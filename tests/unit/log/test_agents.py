"""What a Faust app of ours leaves on the disk: nothing."""

from __future__ import annotations

import inspect
import os
from pathlib import Path

import faust
import pytest

from holdfast.schemas.topics import Partition
from holdfast.services.log.faust.agents import make_app


def test_an_app_makes_no_directories_where_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app = make_app("app", "127.0.0.1:1", {}, {Partition("plans", 0): "plans"}, lambda *_: None, lambda *_: None)
    assert app.conf.tabledir == Path("v1") / "tables", "what Faust would make"
    app._create_directories()
    assert os.listdir(tmp_path) == []


def test_faust_makes_them_in_this_method() -> None:
    """Else another release of Faust makes them elsewhere, and nobody notices."""
    assert "_create_directories()" in inspect.getsource(faust.App)
