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
