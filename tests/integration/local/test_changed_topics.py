"""Users' topics that change under a running job, on a real broker."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from holdfast.schemas.topics import Partition, TopicSpec
from tests.support.cluster import LocalCluster, grow
from tests.support.commands import DEADLINE_S, until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
JOB = """
name: NAME
keep_cuts: true
sources: {s: {topic: NAME-in, fields: {id: int}}}
fault_tolerance: {default: {scheme: none}}
queries: {all: {input: s, sink: {topic: NAME-out}}}
"""


def submit(cluster: LocalCluster, folder: Path, name: str, partitions: int = 1) -> None:
    cluster.log.create([TopicSpec(f"{name}-in", partitions)])
    (folder / f"{name}.yaml").write_text(JOB.replace("NAME", name))
    cluster.call("submit", str(folder / f"{name}.yaml"), "--create-topics")


def feed(cluster: LocalCluster, topic: str, numbers: range, partition: int = 0) -> None:
    appender = cluster.log.appender("feed")  # one that was there before knows nothing of new partitions
    for number in numbers:
        appender.append(Partition(topic, partition), json.dumps({"id": number}).encode())
    appender.flush(DEADLINE_S)
    appender.close()


def ids(cluster: LocalCluster, name: str, count: int) -> Counter[int]:
    return Counter(row["id"] for row in cluster.results(name, count))


def test_new_partitions_are_read_while_the_job_runs_and_by_a_drain(cluster: LocalCluster, tmp_path: Path) -> None:
    submit(cluster, tmp_path, "grown")
    feed(cluster, "grown-in", range(100))
    assert ids(cluster, "grown", 100) == Counter(range(100))
    grow(cluster.log, "grown-in", 3)
    feed(cluster, "grown-in", range(100, 200), 1)
    feed(cluster, "grown-in", range(200, 300), 2)
    assert ids(cluster, "grown", 300) == Counter(range(300))
    grow(cluster.log, "grown-in", 4)
    feed(cluster, "grown-in", range(300, 400), 3)
    cluster.call("cancel", "grown", "--drain")
    assert ids(cluster, "grown", 400) == Counter(range(400))
    assert "exact" in cluster.told("replay", "grown")


def replace(cluster: LocalCluster, topic: str, partitions: int = 1) -> None:
    cluster.log.delete([topic])
    cluster.log.create([TopicSpec(topic, partitions)])


def status(cluster: LocalCluster, name: str) -> dict[str, str]:
    found: dict[str, str] = cluster.asked("status", name)
    return found


@pytest.mark.parametrize("start", ["earliest", pytest.param("latest", marks=pytest.mark.long)])
def test_a_topic_that_was_created_again_stops_the_job_until_a_person_says_where_to_continue(
    cluster: LocalCluster, tmp_path: Path, start: str
) -> None:
    name = f"anew-{start}"
    submit(cluster, tmp_path, name)
    feed(cluster, f"{name}-in", range(50))
    assert ids(cluster, name, 50) == Counter(range(50))
    replace(cluster, f"{name}-in", 2)
    until(lambda: status(cluster, name)["state"] == "stopped", "the job stops")
    assert f"topic {name}-in of source s was deleted and created again" in status(cluster, name)["error"]
    feed(cluster, f"{name}-in", range(100, 300))
    feed(cluster, f"{name}-in", range(300, 400), 1)
    assert "--from earliest" in cluster.told("resume", name, status=1)
    assert ids(cluster, name, 50) == Counter(range(50)), "nothing of the new topic is read"
    cluster.call("resume", name, "--from", start)
    feed(cluster, f"{name}-in", range(400, 450), 1)
    after = range(100, 450) if start == "earliest" else range(400, 450)
    assert ids(cluster, name, 50 + len(after)) == Counter([*range(50), *after])
    cluster.call("cancel", name, "--drain")
    assert ids(cluster, name, 50 + len(after)) == Counter([*range(50), *after])
    assert "nothing of it can be computed again" in " ".join(cluster.told("replay", name, status=1).split())


def test_rows_for_a_sink_whose_topic_is_gone_wait_for_it(cluster: LocalCluster, tmp_path: Path) -> None:
    submit(cluster, tmp_path, "away")
    feed(cluster, "away-in", range(20))
    assert ids(cluster, "away", 20) == Counter(range(20))
    cluster.log.delete(["away-out"])
    feed(cluster, "away-in", range(20, 60))
    gone = "topic away-out of a sink is gone"
    until(lambda: gone in status(cluster, "away")["error"], "the job says what it waits for")
    assert status(cluster, "away")["state"] == "waiting"
    cluster.log.create([TopicSpec("away-out", 1)])
    assert ids(cluster, "away", 40) == Counter(range(20, 60))
    until(lambda: status(cluster, "away")["state"] == "running", "the job runs again")
    cluster.call("cancel", "away", "--drain")
    assert ids(cluster, "away", 40) == Counter(range(20, 60))
