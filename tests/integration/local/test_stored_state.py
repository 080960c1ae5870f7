"""The state of a job on real processes is read by command and over HTTP, while it is led and after a takeover."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from holdfast.schemas.topics import TopicSpec
from tests.support.cluster import LocalCluster

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

JOB = """
name: read
batch_interval_ms: 20
sources:
  orders: {topic: read-in, fields: {shop: string, amount: int, at: timestamp}, event_time: at}
operators:
  per_shop: {aggregate: {n: "count()", total: "sum(amount)"}, key: [shop], input: orders, parallelism: 2}
  hourly: {aggregate: {n: "count()"}, key: [shop], input: orders, window: {size_s: 3600}}
queries:
  all: {input: per_shop, sink: {topic: read-out}}
  by_hour: {input: hourly, sink: {topic: read-hourly}}
"""
SHOPS, EACH = 100, 20


def ask(cluster: LocalCluster, path: str) -> Any:
    """Answer of the API of the cluster's console."""
    site, _, token = json.loads(cluster.call("console", "--json"))["address"].partition("/?token=")
    request = urllib.request.Request(f"{site}/api/v1{path}", headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return json.load(error)


def test_totals_and_windows_are_read_by_command_and_over_http_also_after_a_takeover(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    for name in ("read-in", "read-out", "read-hourly"):
        cluster.log.create([TopicSpec(name, 1)])
    job = tmp_path / "job.yaml"
    job.write_text(JOB)
    cluster.call("submit", str(job))

    def feed() -> None:
        now = time.strftime("%Y-%m-%dT%H:00:00Z", time.gmtime())
        cluster.feed("read-in", [{"shop": f"s{i % SHOPS}", "amount": 1, "at": now} for i in range(SHOPS * EACH)], 1)

    def totals(each: int) -> bool:
        lines = cluster.lines("state", "read", "per_shop", "--json", "--limit", "1000")
        assert len({line["key"]["shop"] for line in lines}) == len(lines)
        return {line["key"]["shop"]: line["value"] for line in lines} == {
            f"s{shop}": {"n": each, "total": each} for shop in range(SHOPS)
        }

    feed()
    cluster.until(lambda: totals(EACH), "checkpoints hold all totals")
    cluster.kill("worker-1")
    cluster.kill("worker-2")
    feed()
    cluster.until(lambda: totals(2 * EACH), "they hold all totals after takeovers")
    (one,) = cluster.lines("state", "read", "per_shop", "s7", "--json")
    assert one["value"] == {"n": 2 * EACH, "total": 2 * EACH}
    cluster.until(lambda: len(cluster.lines("state", "read", "hourly", "--prefix", "s1", "--json")) == 11, "windows")
    found = ask(cluster, "/jobs/read/state/per_shop?key=s7")
    assert [entry["value"] for entry in found["entries"]] == [one["value"]]
    assert (found["more"], ask(cluster, "/jobs/read/state/per_shop?most=99")["more"]) == (False, True)
    assert "no operator 'hurly'" in ask(cluster, "/jobs/read/state/hurly")["error"]
    cluster.call("cancel", "read")
