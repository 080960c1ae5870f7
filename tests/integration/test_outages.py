"""What jobs run on fails in the middle of them: Kafka dies, Kafka stands still, a disk is full. Nothing is lost."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from schemas import commands
from schemas.topics import Partition, TopicSpec
from services.planning.loading import load
from tests.integration.test_main_job import Cluster
from tests.support.commands import DEADLINE_S, HOLDFAST, until
from tests.support.orders import PATIENT, check, orders

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]
WIDE = """
name: wide
sources: {s: {topic: wide, fields: {key: string}}}
operators: {n: {aggregate: {n: "count()"}, key: [key], input: s}}
queries: {all: {input: n, sink: {topic: wide-out}}}
fault_tolerance: {default: {scheme: none}, fail_stop_timeout_s: 600, checkpoint: {interval_ms: 200}}
"""
"""Its unit stays with its worker, whatever becomes of it."""
KEY_BYTES, KEYS_AT_ONCE, FILE_BYTES = 1000, 1000, 1 << 20


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    try:
        yield Cluster(folder)
    finally:
        subprocess.run([HOLDFAST, "down", "--data-dir", str(folder)], check=False, capture_output=True)


def kafka(cluster: Cluster) -> int:
    """Its process."""
    pid = until(lambda: json.loads((cluster.folder / "cluster.json").read_text())["kafka_pid"], "Kafka runs")
    return int(pid)


def events(cluster: Cluster, kind: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in cluster.call("events", "--json").splitlines()]
    return [event for event in found if event["kind"] == kind]


def assert_exact(cluster: Cluster, job: str, records: int) -> None:
    until(lambda: cluster.taken_in(job) == records, "all is taken in")
    found = json.loads(cluster.call("replay", job, "--json"))
    assert (found["lost"], found["duplicated"], found["wrong"]) == (0, 0, 0), found


def test_kafka_dies_and_kafka_stands_still_in_the_middle_of_a_job(cluster: Cluster) -> None:
    fed = orders(30_000)
    third = len(fed) // 3
    cluster.log.create([TopicSpec("orders", 2), *(TopicSpec(name, 1) for name in ("shops", "hours", "big"))])
    cluster.submit(commands.encode(load(PATIENT, "job.yaml").as_plain()))
    until(lambda: cluster.status("orders") == "running", "the job runs")
    before = cluster.delivered("big")
    cluster.feed("orders", fed[:third])
    cluster.await_more("big", before)
    os.kill(former := kafka(cluster), signal.SIGKILL)
    cluster.feed("orders", fed[third : 2 * third])
    until(lambda: kafka(cluster) != former, "Kafka is back")
    before = cluster.delivered("big")
    os.kill(kafka(cluster), signal.SIGSTOP)
    try:
        asked = [str(HOLDFAST), "status", "orders", "--data-dir", str(cluster.folder)]
        said = subprocess.run(asked, capture_output=True, text=True, check=False)
    finally:
        os.kill(kafka(cluster), signal.SIGCONT)
    assert said.returncode == 1
    assert "Check that the broker runs" in " ".join(said.stderr.split())
    cluster.feed("orders", fed[2 * third :])
    cluster.await_more("big", before)
    assert_exact(cluster, "orders", len(fed))
    cluster.call("cancel", "orders", "--drain")
    check(cluster.rows, fed)
    until(lambda: events(cluster, "kafka-restarted"), "it is reported")


def test_a_worker_whose_disk_is_full_stops_and_says_so_and_its_units_go_on(cluster: Cluster) -> None:
    """A limit of the size of its files stands for the full disk."""
    wide = Partition("wide", 0)
    cluster.log.create([TopicSpec(wide.topic, 1), TopicSpec("wide-out", 1)])
    cluster.submit(commands.encode(load(WIDE, "wide.yaml").as_plain()))
    until(lambda: cluster.status("wide") == "running", "the job runs")
    (unit,) = json.loads(cluster.call("units", "wide", "--json"))
    victim = cluster.workers()[unit["copies"][0]["worker"]]
    resource.prlimit(victim["pid"], resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    chance, keys = random.Random(0), 0  # repeated values would be compressed to a few bytes

    def back() -> bool:
        return bool(cluster.workers()[victim["worker"]]["incarnation"] != victim["incarnation"])

    def counted_or_back(fed: int) -> bool:
        return back() or cluster.delivered("wide-out") >= fed

    while not back():
        for _ in range(KEYS_AT_ONCE):
            cluster.appender.append(wide, b'{"key":"%s"}' % chance.randbytes(KEY_BYTES // 2).hex().encode())
        cluster.appender.flush(DEADLINE_S)
        keys += KEYS_AT_ONCE
        until(partial(counted_or_back, keys), "they are counted")
    (stopped,) = until(lambda: events(cluster, "worker-stops"), "it says so")
    assert stopped["worker"] == victim["worker"]
    assert "the state directory cannot be used" in stopped["detail"]
    assert_exact(cluster, "wide", keys)
