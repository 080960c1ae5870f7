"""Requests that a cluster's broker answers while a protected job runs at a steady rate: their clients, kinds and rates.

Kafka's own log of requests is switched on during the measurement. It costs more than the requests, so no other measure
runs meanwhile.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from rich.table import Table

from bench.failover.rounds import RATE_PER_S, WORKERS, record
from bench.rig import jobs
from bench.rig.cluster import BenchCluster
from bench.rig.feeder import Feeder
from bench.rig.figures import Figures
from bench.rig.followed import MeasureFailed
from bench.rig.scale import Scale
from bench.rig.spent import Spent
from bench.rig.trace import Trace
from holdfast.services.cli.terminal import console
from holdfast.services.node.machine.artifacts import require
from holdfast.services.node.machine.java import find_java

BUDGET_MS = 300
"""Batches are as far apart as on a full machine, and the same on every machine."""
SETTLING_S = 8.0
MOST_S = 8.0
"""A broker keeps 20 MB of its log."""
_NAMES = re.compile(r'"clientId":"([^"]*)","requestApiKeyName":"(\w+)"')
_OWN = re.compile(r"-?[0-9a-f]{6,}\b|\d+")
MOST_ROWS = 40


def requests(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Requests per second and per batch, by kind, without those of this bench, which feeds and reads; and the cores of
    the workers, which the log of requests does not disturb. Raises MeasureFailed.
    """
    cluster.start(WORKERS)
    topic = f"bench-{name}"
    cluster.create(topic)
    with cluster.running(jobs.within(jobs.FAILOVER, BUDGET_MS), topic, name=name, scheme="hybrid") as job:
        job.await_running()
        with Trace(cluster, job) as trace, Feeder(cluster.users_appender("feeder"), topic, RATE_PER_S, record):
            job.watch(SETTLING_S)
            _switch(cluster, "DEBUG")
            began_s, before = time.monotonic(), Spent.of(cluster)
            job.watch(min(scale.seconds, MOST_S))
            worker_cores = (Spent.of(cluster).workers - before.workers) / (time.monotonic() - began_s)
            _switch(cluster, "INFO")
    asked, first_ms, last_ms = counted(_lines(cluster.folder))
    took_s = (last_ms - first_ms) / 1000
    batches = max(sum(first_ms <= cut.time_ms <= last_ms for cut in trace.cuts()), 1)
    own = {key: n for key, n in asked.items() if not key[0].startswith("bench")}
    console(stderr=True).print(_table(asked, took_s))
    kinds = Counter[str]()
    for (_, kind), n in own.items():
        kinds[kind] += n
    return {
        "batches_per_s": round(batches / took_s, 1),
        "worker_cores": round(worker_cores, 3),
        "requests_per_s": round(sum(own.values()) / took_s, 1),
        "requests_per_batch": round(sum(own.values()) / batches, 1),
        "bench_requests_per_s": round((sum(asked.values()) - sum(own.values())) / took_s, 1),
        **{f"{kind.lower()}_per_s": round(n / took_s, 1) for kind, n in kinds.most_common(8)},
    }


def counted(lines: Iterable[str]) -> tuple[Counter[tuple[str, str]], float, float]:
    """Requests by client, whose numbers are left out, and kind, from lines of Kafka's log of requests; and the times of
    the first and of the last, in milliseconds. Raises MeasureFailed if there are none.
    """
    found, times = Counter[tuple[str, str]](), list[str]()
    for line in lines:
        if named := _NAMES.search(line):
            found[_OWN.sub("", named[1]) or "Kafka itself", named[2]] += 1
            times.append(line.split(maxsplit=1)[0])
    if not times:
        raise MeasureFailed("Kafka has logged no requests")
    first, last = (datetime.fromisoformat(one).timestamp() * 1000 for one in (min(times), max(times)))
    return found, first, last


def _lines(folder: Path) -> Iterable[str]:
    for file in sorted(folder.rglob("broker.log*")):
        with file.open(errors="replace") as lines:
            yield from lines


def _switch(cluster: BenchCluster, level: str) -> None:
    """Sets how much Kafka logs of requests. Raises MeasureFailed."""
    asked = ["--bootstrap-server", cluster.bootstrap_servers, "--entity-type", "broker-loggers", "--entity-name", "1"]
    tool = [find_java().path, "-cp", require("kafka").class_path, "kafka.admin.ConfigCommand", *asked]
    done = subprocess.run(
        [*tool, "--alter", "--add-config", f"kafka.request.logger={level}"], capture_output=True, text=True
    )
    if done.returncode:
        raise MeasureFailed(f"Kafka does not log its requests: {done.stderr.strip() or done.stdout.strip()}")


def _table(asked: Counter[tuple[str, str]], took_s: float) -> Table:
    table = Table("client", "request", "per s")
    for (client, kind), n in asked.most_common(MOST_ROWS):
        table.add_row(client, kind, f"{n / took_s:.1f}")
    return table
