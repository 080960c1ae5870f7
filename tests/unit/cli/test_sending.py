"""`send --create-topics --job`: a table's topic is made compacted."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.schemas.topics import ClusterTopics, TopicSpec
from holdfast.services.cli import sending
from holdfast.services.kernel.errors import CommandFailed

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
    assert sending._partitions(door, topic, tmp_path / "rows", True, 3, str(file) if job else None) == 3
    assert log.created == [TopicSpec(topic, 3, config)]


def test_a_job_without_create_topics_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="--job goes with --create-topics"):
        sending.send("carriers", tmp_path / "rows", job="job.yaml")
