"""The console beside the demo: its address is said, it stays until Ctrl-C, and it ends with the demo."""

from __future__ import annotations

import sys

import pytest

from bench.demo.watched import Watched
from bench.rig.followed import MeasureFailed

ADDRESS = "http://127.0.0.1:1/?token=t"
SERVES = f"import json, time; print(json.dumps({{'address': '{ADDRESS}'}}), flush=True); time.sleep(600)"


def test_the_address_is_said_and_the_console_ends_with_the_demo() -> None:
    said: list[str] = []
    watched = Watched([sys.executable, "-c", SERVES], said.append)
    watched.begin()
    assert said == [f"[bold]Watch it: {ADDRESS}[/bold]"]
    process = watched._process
    assert process is not None
    assert process.poll() is None
    watched.end()
    assert process.poll() is not None


def test_a_demo_ends_whose_console_does_not_start() -> None:
    watched = Watched([sys.executable, "-c", "raise SystemExit(1)"], lambda text: None)
    with pytest.raises(MeasureFailed, match="holdfast console failed"):
        watched.begin()
    watched.end()


def test_the_console_stays_until_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    watched = Watched([], said.append)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("bench.demo.watched.threading.Event.wait", interrupted)
    watched.stay()
    assert "stays until Ctrl-C" in said[0]
