"""What jobs run on fails in the middle of them: Kafka dies, Kafka hangs, a disk is full. Nothing is lost."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
from functools import partial

import pytest

from holdfast.schemas import commands
from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.planning.loader import load
from tests.support.cluster import LocalCluster
from tests.support.commands import DEADLINE_S, HOLDFAST, until
from tests.support.orders import PATIENT, check, orders

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
SINKS = ("shops", "hours", "big")
OUTAGE = PATIENT.replace("name: orders", "name: outage").replace("topic: ", "topic: outage-")
WIDE = """
name: wide
sources: {s: {topic: wide, fields: {key: string}}}
operators: {n: {aggregate: {n: "count()"}, key: [key], input: s}}
queries: {all: {input: n, sink: {topic: wide-out}}}
fault_tolerance: {default: {scheme: none}, fail_stop_timeout_s: 600, checkpoint: {interval_ms: 200}}
"""
"""Its unit stays with its worker, whatever becomes of it."""
KEY_BYTES, KEYS_AT_ONCE, FILE_BYTES = 1000, 1000, 1 << 20


def assert_exact(cluster: LocalCluster, job: str, records: int) -> None:
    cluster.await_taken_in(job, records)
    found = cluster.asked("replay", job)
    assert (found["lost"], found["duplicated"], found["wrong"]) == (0, 0, 0), found


@pytest.mark.long
def test_kafka_dies_and_kafka_hangs_in_the_middle_of_a_job(cluster: LocalCluster) -> None:
    """In each run: struck/test_failover.py restarts Kafka below a job; test_service_logs.py has an outage."""
    fed = orders(30_000)
    third = len(fed) // 3
    cluster.log.create([TopicSpec("outage-orders", 2), *(TopicSpec(f"outage-{name}", 1) for name in SINKS)])
    cluster.submit(commands.encode(load(OUTAGE, "job.yaml").as_plain()))
    cluster.await_state("outage", "running")
    before = cluster.end("outage-big")
    cluster.feed("outage-orders", fed[:third])
    cluster.await_more("outage-big", before)
    os.kill(former := cluster.kafka(), signal.SIGKILL)
    cluster.feed("outage-orders", fed[third : 2 * third])
    until(lambda: cluster.kafka() != former, "Kafka is back")
    before = cluster.end("outage-big")
    os.kill(cluster.kafka(), signal.SIGSTOP)
    try:
        asked = [str(HOLDFAST), "status", "outage", "--data-dir", str(cluster.folder)]
        said = subprocess.run(asked, capture_output=True, text=True, check=False)
    finally:
        os.kill(cluster.kafka(), signal.SIGCONT)
    assert said.returncode == 1
    assert "Check that the broker runs" in " ".join(said.stderr.split())
    cluster.feed("outage-orders", fed[2 * third :])
    cluster.await_more("outage-big", before)
    assert_exact(cluster, "outage", len(fed))
    cluster.call("cancel", "outage", "--drain")
    check(lambda query: cluster.rows(f"outage-{query}"), fed)
    until(lambda: cluster.events("kafka-restarted"), "it is reported")


def test_a_worker_whose_disk_is_full_stops_and_says_so_and_its_units_continue(cluster: LocalCluster) -> None:
    """A limit of the size of its files stands for the full disk."""
    wide = Partition("wide", 0)
    cluster.log.create([TopicSpec(wide.topic, 1), TopicSpec("wide-out", 1)])
    cluster.submit(commands.encode(load(WIDE, "wide.yaml").as_plain()))
    cluster.await_state("wide", "running")
    (unit,) = cluster.asked("units", "wide")
    victim = cluster.workers()[unit["copies"][0]["worker"]]
    assert victim.pid is not None
    resource.prlimit(victim.pid, resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    chance, keys = random.Random(0), 0  # repeated values would be compressed to a few bytes

    def back() -> bool:
        return cluster.workers()[victim.worker].incarnation != victim.incarnation

    def counted_or_back(fed: int) -> bool:
        return back() or cluster.end("wide-out") >= fed

    while not back():
        for _ in range(KEYS_AT_ONCE):
            cluster.appender.append(wide, b'{"key":"%s"}' % chance.randbytes(KEY_BYTES // 2).hex().encode())
        cluster.appender.flush(DEADLINE_S)
        keys += KEYS_AT_ONCE
        until(partial(counted_or_back, keys), "they are counted")
    (stopped,) = until(lambda: cluster.events("worker-stops"), "it says so")
    assert stopped.worker == victim.worker
    assert "the state directory cannot be used" in stopped.detail
    assert_exact(cluster, "wide", keys)
