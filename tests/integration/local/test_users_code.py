"""Users' code on real workers: answers that it awaits though its leader is killed, and an error that nobody foresaw."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from holdfast.schemas import cuts
from holdfast.schemas.cuts import Answered
from holdfast.schemas.topics import TopicSpec
from tests.integration.local.conftest import faults
from tests.support.cluster import LocalCluster
from tests.support.commands import DEADLINE_S

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
NAMED = """
name: named
keep_cuts: true
sources: {s: {topic: named-in, fields: {id: int}}}
operators:
  named: {python: "naming_plugin:Named", input: s, ask: {rows: 10, timeout_s: 5}}
queries: {all: {input: named, sink: {topic: named-out}}}
"""
FAULTY = """
name: faulty
sources: {s: {topic: faulty-in, fields: {id: int, shop: string}, parallelism: 2}}
operators: {o: {python: "faulty_plugin:Same", input: s}}
queries: {all: {input: o, sink: {topic: faulty-out, partitions: 1}}}
fault_tolerance: {default: {scheme: hybrid}}
"""
RECORDS = 2_000
TIMES = 2


def submit(cluster: LocalCluster, folder: Path, name: str, job: str, partitions: int = 1) -> None:
    (folder / f"{name}.yaml").write_text(job)
    cluster.log.create([TopicSpec(f"{name}-in", partitions)])
    cluster.call("submit", str(folder / f"{name}.yaml"), "--create-topics", "--timeout", f"{2 * DEADLINE_S:g}")


def test_a_killed_leader_leaves_each_row_with_one_answer_and_a_replay_asks_nobody(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    submit(cluster, tmp_path, "named", NAMED)
    for first in range(0, 400, 50):
        cluster.append("named-in", *(json.dumps({"id": number}).encode() for number in range(first, first + 50)))
        if first == 150:
            cluster.until(lambda: len(cluster.rows("named-out")) >= 50, "rows are out")
            (unit,) = [one for one in cluster.asked("units", "named") if one["unit"] == "named-0"]
            (leader,) = [copy["worker"] for copy in unit["copies"] if copy["state"] == "running"]
            cluster.kill(str(leader))
    cluster.until(lambda: len(cluster.rows("named-out")) >= 400, "every row is out")
    rows = cluster.rows("named-out")
    assert Counter(row["id"] for row in rows) == Counter(range(400)), "each once"
    records = [cuts.decode(value) for value in cluster.values(cluster.topics_of("named").cuts)]
    assert any(isinstance(one, Answered) and one.parts for one in records)
    cluster.call("replay", "named")
    cluster.call("cancel", "named")


def test_workers_that_meet_an_unexpected_error_have_their_units_tried_again(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    for number in range(TIMES):
        (faults(cluster) / str(number)).touch()
    submit(cluster, tmp_path, "faulty", FAULTY, partitions=2)
    rows = [{"id": number, "shop": ""} for number in range(RECORDS)]
    cluster.feed("faulty-in", rows)
    cluster.call("cancel", "faulty", "--drain")
    assert sorted(row["id"] for row in cluster.rows("faulty-out")) == list(range(RECORDS))
    assert not list(faults(cluster).iterdir()), "each was met"
    events = [event for event in cluster.events("copy-faulted") if event.job == "faulty"]
    assert len(events) == TIMES, json.dumps([event.detail for event in events])
    for event in events:
        assert event.detail.startswith("TypeError: 'module' object does not support item assignment, at ")
        assert "faulty_plugin.py" in event.detail, "with its traceback"
    assert not [event for event in cluster.events("copy-failed", "job-failed") if event.job == "faulty"]
