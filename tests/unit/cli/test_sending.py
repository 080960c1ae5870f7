"""`send` makes a table's topic compacted, and on Ctrl-C leaves whole what it has sent, also while a pipe is silent."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import typer

from holdfast.schemas.topics import ClusterTopics, Partition, TopicSpec
from holdfast.services.cli import records
from holdfast.services.client.feed import Feed
from holdfast.services.client.writer import Writer
from holdfast.services.kernel.errors import CommandFailed
from holdfast.services.log.memory import MemoryLog
from holdfast.services.log.patience import Patience

JOB = """
name: job
sources:
  flights: {topic: flights, fields: {carrier: string}}
  carriers: {topic: carriers, fields: {carrier: string, name: string}, table: [carrier]}
operators:
  named: {join: {left: flights, right: carriers, "on": [carrier]}, input: flights}
queries: {q: {input: named, sink: {topic: out}}}
""".replace(", input: flights}\nqueries", "}\nqueries")


class Log:
    def __init__(self) -> None:
        self.created: list[TopicSpec] = []

    def create(self, specs: list[TopicSpec]) -> None:
        self.created += specs


@pytest.mark.parametrize(
    ("topic", "job", "config"),
    [
        ("carriers", True, {"cleanup.policy": "compact"}),
        ("flights", True, {}),
        ("carriers", False, {}),
    ],
)
def test_a_topic_that_the_job_reads_as_a_table_is_compacted(
    tmp_path: Path, topic: str, job: bool, config: dict[str, str]
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    log = Log()
    door = cast(Any, SimpleNamespace(log=log, topics=ClusterTopics("holdfast"), present={}))
    assert records._partitions(door, topic, tmp_path / "rows", True, 3, str(file) if job else None) == 3
    assert log.created == [TopicSpec(topic, 3, config)]


def test_a_job_without_create_topics_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="--job goes with --create-topics"):
        records.send("carriers", tmp_path / "rows", job="job.yaml")


class SilentPipe:
    """A feed that gives two records; then Ctrl-C comes while the next ones are waited for."""

    share, blank = 0.0, 0

    def blocks(self) -> Iterator[list[bytes]]:
        yield [b"1", b"2"]
        signal.raise_signal(signal.SIGINT)
        pytest.fail("the read that waited went its way")


@pytest.mark.parametrize("rate", [None, 1e6])
def test_ctrl_c_ends_a_silent_pipe_at_once_and_what_was_sent_is_there(
    rate: float | None, capsys: pytest.CaptureFixture[str]
) -> None:
    log, former = MemoryLog(lambda: 0), signal.getsignal(signal.SIGINT)
    log.create([TopicSpec("t", 1)])
    writer = Writer(log.appender("send"), "t", 1)
    with pytest.raises(typer.Exit) as ended:
        records._run(cast(Feed, SilentPipe()), writer, rate, "t", False, Patience(9.0, print))
    assert ended.value.exit_code == 130
    assert [message.value() for message in log.scan(Partition("t", 0))] == [b"1", b"2"]
    said = capsys.readouterr()
    assert said.out.startswith("2 records in t, ")
    assert said.err == "stopped: the first 2 records are there to stay\n"
    assert signal.getsignal(signal.SIGINT) is former


def test_a_first_ctrl_c_between_two_reads_lets_the_block_go_and_a_second_one_ends_at_once() -> None:
    with records._until_interrupted() as interrupted:
        blocks = interrupted.reading(iter([[b"1"], [b"2"]]))
        assert next(blocks) == [b"1"]
        assert not interrupted()
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupted()
        assert list(blocks) == []
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
