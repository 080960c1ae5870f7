"""The command `dead-letters` with a file: it is exported, mended by hand, and sent back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.schemas.dead_letters import DeadLetter, encode
from holdfast.schemas.topics import ClusterTopics, Partition, TopicSpec
from holdfast.services.cli import whereabouts
from holdfast.services.cli.dead_letters import dead_letters
from holdfast.services.kernel.errors import CommandFailed
from holdfast.services.log.memory import MemoryLog
from holdfast.services.view.door import Door, Whereabouts

CLUSTER = ClusterTopics("c")
TOPICS = CLUSTER.job("job", "0-abcdef")
SOURCE = Partition("orders", 0)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> MemoryLog:
    """A cluster with one dead letter of a job."""
    found = MemoryLog(lambda: 0)
    found.create([*CLUSTER.specs(), TopicSpec("orders"), TopicSpec(TOPICS.dead_letters)])
    found.put(SOURCE, b"bad", b"k", None)
    letter = DeadLetter("source", "no JSON object", 1, "orders", 0, 0, b"bad")
    found.put(Partition(TOPICS.dead_letters, 0), encode(letter), None, None)

    @contextmanager
    def connected(*_: Any) -> Iterator[Door]:
        yield Door(found, CLUSTER, found.topics(), Whereabouts(Path(), "here:9092", "c", False))

    monkeypatch.setattr(whereabouts, "connected", connected)
    return found


def test_an_exported_file_is_mended_and_sent_back_once(
    log: MemoryLog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.ndjson"
    dead_letters("job", export=file)
    with pytest.raises(CommandFailed, match="exists already"):
        dead_letters("job", export=file)
    file.write_text(file.read_text().replace('"bad"', '{"a": 1}'))
    dead_letters("job", file, replay=True)
    dead_letters("job", file, replay=True)
    assert [(one.key(), one.value()) for one in log.scan(SOURCE)] == [(b"k", b"bad"), (b"k", b'{"a":1}')]
    said = capsys.readouterr().out
    assert "wrote 1 record to" in said
    assert "sent 1 record back to orders" in said
    assert "1 record sent back before" in said


def test_a_file_that_cannot_be_used_is_an_error_of_the_call(log: MemoryLog, tmp_path: Path) -> None:
    file = tmp_path / "bad.ndjson"
    calls: list[tuple[str, dict[str, Any]]] = [
        ("a file goes with --replay", {"file": file}),
        ("--export goes without", {"export": file, "replay": True}),
        ("cannot be read: No such file", {"file": file, "replay": True}),
    ]
    for reason, words in calls:
        with pytest.raises(CommandFailed, match=reason) as failed:
            dead_letters("job", **words)
        assert failed.value.code == 2
    file.write_text("{")
    with pytest.raises(CommandFailed, match="line 1: no JSON"):
        dead_letters("job", file, replay=True)
    assert len(list(log.scan(SOURCE))) == 1
