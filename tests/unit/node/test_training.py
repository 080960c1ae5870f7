"""A broker that records its classes for later starts gets the time that this takes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.services.node.kafka import broker
from holdfast.services.node.kafka.broker import START_TIMEOUT_S, STOP_TIMEOUT_S, EmbeddedKafka


def test_a_jvm_that_writes_its_archive_is_waited_for_as_long_as_for_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It writes when it is asked to end; on a machine with nothing to spare for a minute, and SIGKILL loses it."""
    given: list[float] = []

    def stopped(grace_s: float) -> int:
        given.append(grace_s)
        (tmp_path / "classes.jsa").write_text("classes")
        return 0

    def started(self: EmbeddedKafka, *_: Any) -> None:
        child: Any = SimpleNamespace(stop=stopped)
        self._child = child

    archive = tmp_path / "kept.jsa"
    parts: dict[str, Any] = {"find_java": None, "_command": [], "_archive": archive}
    for name, found in parts.items():
        monkeypatch.setattr(broker, name, lambda *_, found=found: found)
    monkeypatch.setattr(broker, "require", lambda _: SimpleNamespace(directory=tmp_path))
    monkeypatch.setattr(EmbeddedKafka, "_start", started)
    assert EmbeddedKafka(tmp_path).train() == archive
    assert archive.read_text() == "classes"
    assert given == [START_TIMEOUT_S]
    assert given[0] >= 4 * STOP_TIMEOUT_S
