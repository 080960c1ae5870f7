"""Savepoints and updates with a real Kafka and real processes, by the commands that a person types, amid kills."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from holdfast.schemas.plans import Ended
from holdfast.schemas.topics import TopicSpec
from holdfast.services.audit.replay import replay
from tests.support.cluster import LocalCluster

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

JOB = """
name: kept
batch_interval_ms: 20
sources:
  orders: {topic: kept-in, fields: {shop: string, amount: int}, parallelism: 2}
operators:
  per_shop: {aggregate: {n: "count()", total: "sum(amount)"}, key: [shop], input: orders, parallelism: 2, emit: each}
queries:
  all: {input: per_shop, sink: {topic: kept-out}}
"""
FILTERED = JOB.replace("input: orders, p", "input: sold, p").replace(
    "operators:", 'operators:\n  sold: {filter: "amount >= 0", input: orders}'
)
RECORDS, SHOPS = 6_000, 50


def kill_controller(cluster: LocalCluster) -> None:
    """Its parent starts the next one."""
    found = cluster.files.cluster()
    assert found is not None
    assert found.controller_pid is not None
    os.kill(found.controller_pid, signal.SIGKILL)


@pytest.mark.long
def test_each_record_is_counted_once_through_a_savepoint_and_updates_amid_kills(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    for name, partitions in (("kept-in", 2), ("kept-out", 1)):
        cluster.log.create([TopicSpec(name, partitions)])
    one, two, path = tmp_path / "one.yaml", tmp_path / "two.yaml", tmp_path / "saved"
    one.write_text(JOB)
    two.write_text(FILTERED)
    cluster.call("submit", str(one))
    fed = 0

    def feed() -> None:
        nonlocal fed
        while fed < RECORDS:
            some = [{"shop": f"s{i % SHOPS}", "amount": i} for i in range(fed, min(fed + 40, RECORDS))]
            cluster.feed("kept-in", some)
            fed += len(some)
            time.sleep(0.05)

    feeding = threading.Thread(target=feed)
    feeding.start()
    cluster.until(lambda: fed > 400, "records are fed")
    cluster.call("pause", "kept")
    assert json.loads(cluster.call("savepoint", "kept", str(path), "--json"))["silence_s"] is None
    cluster.call("cancel", "kept")
    cluster.call("submit", str(two), "--from", str(path))
    assert json.loads(cluster.call("savepoint", "kept", str(tmp_path / "again"), "--json"))["silence_s"] < 30
    killed = threading.Timer(0.5, lambda: kill_controller(cluster))
    killed.start()
    cluster.call("update", "kept", str(one))
    killed.join()
    killed = threading.Timer(1.0, lambda: cluster.kill("worker-1"))
    killed.start()
    cluster.call("update", "kept", str(two))
    killed.join()
    feeding.join()
    cluster.until(lambda: len(cluster.rows("kept-out")) >= RECORDS, "a row of each record")
    rows = Counter((row["shop"], row["n"]) for row in cluster.rows("kept-out"))
    assert len(rows) == RECORDS
    assert set(rows.values()) == {1}
    assert max(n for _, n in rows) == RECORDS // SHOPS
    assert replay(cluster.log, cluster.topics, "kept").exact
    assert sum(isinstance(one, Ended) and one.job == "kept" for one in cluster.decisions()) == 3
    cluster.call("cancel", "kept")
    cluster.until(lambda: not [t for t in cluster.log.topics() if "savepoints" in t], "no savepoint is left")
