"""Users' topics that change under a running job, on a real broker."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.cimpl import NewPartitions

from schemas.topics import Partition, TopicSpec
from tests.integration.test_bad_input import Site
from tests.support.commands import DEADLINE_S, run, until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]
JOB = """
name: NAME
keep_cuts: true
sources: {s: {topic: NAME-in, fields: {id: int}}}
queries: {all: {input: s, sink: {topic: NAME-out}}}
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("cluster"))
    try:
        site.start()
        yield site
    finally:
        run(site.folder, "down")
    until(lambda: not site.processes(), "nothing is left")


def submit(site: Site, folder: Path, name: str, partitions: int = 1) -> None:
    site.log.create([TopicSpec(f"{name}-in", partitions)])
    (folder / f"{name}.yaml").write_text(JOB.replace("NAME", name))
    site.call("submit", str(folder / f"{name}.yaml"), "--create-topics")


def feed(site: Site, topic: str, numbers: range, partition: int = 0) -> None:
    appender = site.log.appender("feed")  # one that was there before knows nothing of new partitions
    for number in numbers:
        appender.append(Partition(topic, partition), json.dumps({"id": number}).encode())
    appender.flush(DEADLINE_S)
    appender.close()


def grow(site: Site, topic: str, partitions: int) -> None:
    (done,) = site.log._admin.create_partitions([NewPartitions(topic, partitions)]).values()
    done.result(DEADLINE_S)
    until(lambda: site.log.describe([topic])[topic].partitions == partitions, "the new partitions are there")
    site.log.offsets([Partition(topic, index) for index in range(partitions)], "end")


def ids(site: Site, name: str, count: int) -> Counter[int]:
    return Counter(row["id"] for row in site.rows(name, count))


def test_new_partitions_are_read_while_the_job_runs_and_by_a_drain(site: Site, tmp_path: Path) -> None:
    submit(site, tmp_path, "grown")
    feed(site, "grown-in", range(100))
    assert ids(site, "grown", 100) == Counter(range(100))
    grow(site, "grown-in", 3)
    feed(site, "grown-in", range(100, 200), 1)
    feed(site, "grown-in", range(200, 300), 2)
    assert ids(site, "grown", 300) == Counter(range(300))
    grow(site, "grown-in", 4)
    feed(site, "grown-in", range(300, 400), 3)
    site.call("cancel", "grown", "--drain")
    assert ids(site, "grown", 400) == Counter(range(400))
    assert "exact" in site.call("replay", "grown")


def replace(site: Site, topic: str, partitions: int = 1) -> None:
    site.log.delete([topic])
    site.log.create([TopicSpec(topic, partitions)])


def status(site: Site, name: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(site.call("status", name, "--json"))
    return found


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_topic_that_was_created_anew_stops_the_job_until_a_person_says_where_to_go_on(
    site: Site, tmp_path: Path, start: str
) -> None:
    name = f"anew-{start}"
    submit(site, tmp_path, name)
    feed(site, f"{name}-in", range(50))
    assert ids(site, name, 50) == Counter(range(50))
    replace(site, f"{name}-in", 2)
    until(lambda: status(site, name)["state"] == "stopped", "the job stops")
    assert f"topic {name}-in of source s was deleted and created again" in status(site, name)["error"]
    feed(site, f"{name}-in", range(100, 300))
    feed(site, f"{name}-in", range(300, 400), 1)
    assert "--from earliest" in site.call("resume", name, status=1)
    assert ids(site, name, 50) == Counter(range(50)), "nothing of the new topic is read"
    site.call("resume", name, "--from", start)
    feed(site, f"{name}-in", range(400, 450), 1)
    after = range(100, 450) if start == "earliest" else range(400, 450)
    assert ids(site, name, 50 + len(after)) == Counter([*range(50), *after])
    site.call("cancel", name, "--drain")
    assert ids(site, name, 50 + len(after)) == Counter([*range(50), *after])
    assert "nothing of it can be computed again" in " ".join(site.call("replay", name, status=1).split())


def test_rows_for_a_sink_whose_topic_is_gone_wait_for_it(site: Site, tmp_path: Path) -> None:
    submit(site, tmp_path, "away")
    feed(site, "away-in", range(20))
    assert ids(site, "away", 20) == Counter(range(20))
    site.log.delete(["away-out"])
    feed(site, "away-in", range(20, 60))
    until(lambda: status(site, "away")["state"] == "waiting", "the job waits")
    assert "topic away-out of a sink is gone" in status(site, "away")["error"]
    site.log.create([TopicSpec("away-out", 1)])
    assert ids(site, "away", 40) == Counter(range(20, 60))
    until(lambda: status(site, "away")["state"] == "running", "the job runs again")
    site.call("cancel", "away", "--drain")
    assert ids(site, "away", 40) == Counter(range(20, 60))
