"""Spark operators: throughput beside Spark alone, latency in both modes, and drivers killed under load.

Source: PROTOCOL 12.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from string import Template
from typing import Any

import msgspec

from bench.rig import jobs
from bench.rig.cluster import BenchCluster, now_ms
from bench.rig.feeder import Feeder
from bench.rig.figures import Figures, percentile
from bench.rig.followed import MeasureFailed
from bench.rig.machine import trees_cpu_s
from bench.rig.scale import Scale
from holdfast.schemas import events, heartbeats
from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.kernel.errors import Retriable
from holdfast.services.node.machine.artifacts import ensure

PARTITIONS = 2
KEYS = 100
RATE_PER_S = 500
KILLS = 5
"""Under each scheme."""
WAIT_S = 300.0
LOOK_S, LOOK_AT_ALL_S = 0.05, 2.0
QUIET_S = 10.0
"""Time without a new row behind which Spark alone has ended."""
BEATS = 100
"""Number of heartbeats read: some seconds of a cluster's heartbeats."""

QUERY = "SELECT window(at, '10 seconds'), user, count(*) AS n, sum(amount) AS total FROM input GROUP BY 1, 2"
_SOURCE = """
name: $name
sources: {events: {topic: $topic, fields: $fields, event_time: at, unit: ms}}
fault_tolerance: {default: {scheme: $scheme}}
"""
WINDOWED = Template(
    _SOURCE
    + f'operators: {{h: {{spark: {{sql: "{QUERY}"}}, input: events}}}}\n'
    + """
queries: {q: {input: h, sink: {topic: $topic-out}}}
"""
)
PROJECTION = "SELECT user, amount * 2 AS twice, at FROM input"
PROJECTED = Template(
    _SOURCE
    + f'operators: {{h: {{spark: {{sql: "{PROJECTION}"}}, mode: micro-batch, input: events}}}}\n'
    + """
queries: {q: {input: h, sink: {topic: $topic-out}}}
"""
)
STATELESS = Template(
    _SOURCE
    + """
operators: {h: {spark: {sql: "SELECT number, at FROM input"}, mode: $mode, input: events}}
queries: {q: {input: h, sink: {topic: $topic-out}}}
"""
)
EVENTS, _NUMBERED = "{user: string, amount: int, at: timestamp}", "{number: int, at: timestamp}"


def spark(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Measures all parts, in turn."""
    parts = {"": throughput, "projected_": projected, "micro_batch_": latency, "realtime_": realtime, "killed_": kills}
    figures: Figures = {}
    for prefix, measure in parts.items():
        cluster.say(f"spark: {prefix or 'throughput'}")
        found = measure(cluster, f"{name}-{prefix.strip('_').replace('_', '-') or 'windows'}", scale)
        figures |= {f"{prefix}{key}": value for key, value in found.items()}
    return figures


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of a query from its start to its last row.

    took_ms: milliseconds.
    cpu_s: seconds of CPU of the whole cluster, brokers included, and of Spark alone.
    """

    took_ms: float
    cpu_s: float


def throughput(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Rows a second from the start of the query to the last window that closes, ours and Spark's own; and CPU, which a
    busy machine changes less."""
    return _beside_alone(cluster, name, scale, WINDOWED, QUERY)


def projected(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """The same for a query that gives a row for each record, in micro-batches."""
    return _beside_alone(cluster, name, scale, PROJECTED, PROJECTION)


def _beside_alone(cluster: BenchCluster, name: str, scale: Scale, job: Template, query: str) -> Figures:
    topic, start = f"bench-{name}", int(now_ms()) - scale.records
    cluster.log.create([TopicSpec(topic, PARTITIONS), *(TopicSpec(f"{topic}-{end}", 1) for end in ("out", "alone"))])
    cluster.preload(topic, scale.records, KEYS, lambda i: start + i, PARTITIONS)
    alone, expected = _alone(cluster, topic, query)
    before = len(activations(cluster))
    with cluster.running(job, topic, name=name, fields=EVENTS, scheme="passive"):
        _until(lambda: len(activations(cluster)) > before, "the query starts")
        began_s, rows = cluster_cpu_s(cluster), Counted(cluster, f"{topic}-out")
        _until(lambda: rows.count() >= expected, "all rows are there")
        ours_ms = _last_ms(cluster, f"{topic}-out") - activations(cluster)[-1].time_ms
        ours = Cost(ours_ms, cluster_cpu_s(cluster) - began_s)
    return {
        "rows_per_s": round(scale.records / ours.took_ms * 1000),
        "alone_rows_per_s": round(scale.records / alone.took_ms * 1000),
        "share_of_alone": round(alone.took_ms / ours.took_ms, 2),
        "cpu_us_per_row": round(ours.cpu_s / scale.records * 1e6, 2),
        "alone_cpu_us_per_row": round(alone.cpu_s / scale.records * 1e6, 2),
        "cpu_share_of_alone": round(alone.cpu_s / ours.cpu_s, 2),
    }


class Counted:
    """Number of rows in a topic's only partition; each look reads only what is new."""

    def __init__(self, cluster: BenchCluster, topic: str) -> None:
        self._log = cluster.log
        self._partition = Partition(topic, 0)
        self._end = 0
        self._next = 0
        self._count = 0

    def count(self) -> int:
        end = self._log.offsets([self._partition], "end")[self._partition]
        if end > self._end:
            for message in self._log.scan(self._partition, self._next):
                self._next, self._count = message.offset() + 1, self._count + 1
            self._end = end
        return self._count


def cluster_cpu_s(cluster: BenchCluster, *others: int) -> float:
    """CPU seconds so far of all processes of the cluster, and of other ones with their children."""
    supervisor = cluster.supervisor()
    assert supervisor is not None
    return trees_cpu_s([supervisor, *others])


def _alone(cluster: BenchCluster, topic: str, query: str) -> tuple[Cost, int]:
    """The cost of Spark alone, and the number of rows."""
    jars = ensure("spark")
    paths = ",".join(str(jars.directory / jar) for jar in sorted(jars.sums))
    command = [sys.executable, "-m", "bench.measures.spark_alone", "--servers", cluster.bootstrap_servers]
    command += ["--jars", paths, "--topic", topic, "--query", query, "--partitions", str(PARTITIONS)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert process.stdout is not None
        began_ms = int(process.stdout.readline() or 0)
        if not began_ms:
            raise MeasureFailed("Spark alone did not start")
        began_s, rows = cluster_cpu_s(cluster, process.pid), Counted(cluster, f"{topic}-alone")
        seen, quiet_since, cpu_s = 0, time.monotonic(), 0.0
        while not seen or time.monotonic() - quiet_since < QUIET_S:
            time.sleep(LOOK_S)
            if (now := rows.count()) != seen:
                seen, quiet_since, cpu_s = now, time.monotonic(), cluster_cpu_s(cluster, process.pid) - began_s
        return Cost(_last_ms(cluster, f"{topic}-alone") - began_ms, cpu_s), seen
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def latency(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Milliseconds from a record's own time, at which it was sent, to the broker's time of its row."""
    return _latency(cluster, name, scale, "micro-batch")


def realtime(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Milliseconds as by `latency`, where the query may run in real-time mode."""
    return _latency(cluster, name, scale, "auto")


def _latency(cluster: BenchCluster, name: str, scale: Scale, mode: str) -> Figures:
    """Once rows come out: a query that starts takes seconds for its first."""
    topic = _numbered(cluster, name)
    with cluster.running(STATELESS, topic, name=name, fields=_NUMBERED, scheme="passive", mode=mode) as job:
        job.await_running()
        with _feeder(cluster, topic) as feeder:
            _await_row_of(cluster, topic, now_ms(), _next(cluster, topic))
            began_ms = now_ms()
            time.sleep(scale.seconds)
        sent = len(feeder.sent_ms)
        _until(lambda: len(_rows(cluster, f"{topic}-out")) >= sent, "all rows are there", LOOK_AT_ALL_S)
    waits = [at - row["at_ms"] for at, row in _rows(cluster, f"{topic}-out") if row["at_ms"] > began_ms]
    return {"p50_ms": round(percentile(waits, 0.5)), "p99_ms": round(percentile(waits, 0.99))}


def kills(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Under each scheme: the leading driver is killed under load, and every row is checked."""
    figures: Figures = {}
    for scheme in ("hybrid", "passive"):
        figures |= {f"{scheme}_{key}": value for key, value in _kills(cluster, f"{name}-{scheme}", scheme).items()}
    return figures


def _kills(cluster: BenchCluster, name: str, scheme: str) -> Figures:
    took_ms, topic = [], _numbered(cluster, name)
    settings = {"name": name, "fields": _NUMBERED, "scheme": scheme, "mode": "micro-batch"}
    with cluster.running(STATELESS, topic, **settings) as job:
        job.await_running()
        with _feeder(cluster, topic) as feeder:
            for _ in range(KILLS):
                _await_row_of(cluster, topic, now_ms(), _next(cluster, topic))
                if scheme == "hybrid":
                    settled(cluster)
                time.sleep(2)
                victim, before = activations(cluster)[-1].worker, len(activations(cluster))
                behind, killed_ms = _next(cluster, topic), now_ms()
                os.killpg(cluster.workers()[victim], signal.SIGKILL)
                _until(lambda before=before: len(activations(cluster)) > before, "another driver is active")
                took_ms.append(_await_row_of(cluster, topic, killed_ms, behind) - killed_ms)
                _until(lambda victim=victim: victim in cluster.workers(), "the driver returns")
        sent = len(feeder.sent_ms)
        found: Counter[int] = Counter()

        def complete() -> bool:
            found.clear()
            found.update(row["number"] for _, row in _rows(cluster, f"{topic}-out"))
            return len(found) >= sent

        _until(complete, "all rows are there", LOOK_AT_ALL_S)
    return {
        "p50_ms": round(statistics.median(took_ms)),
        "worst_ms": round(max(took_ms)),
        "lost": float(sum(number not in found for number in range(sent))),
        "duplicated": float(sum(count - 1 for count in found.values())),
        "wrong": float(sum(number >= sent for number in found)),
    }


# -- topics -----------------------------------------------------------------------------------------------------------


def _numbered(cluster: BenchCluster, name: str) -> str:
    topic = f"bench-{name}"
    cluster.log.create([TopicSpec(topic, 1), TopicSpec(f"{topic}-out", 1)])
    return topic


def _feeder(cluster: BenchCluster, topic: str) -> Feeder:
    def record(number: int) -> bytes:
        return msgspec.json.encode({"number": number, "at": int(now_ms())})

    return Feeder(cluster.users_appender("feeder"), topic, RATE_PER_S, record)


def feeder_of_events(cluster: BenchCluster, topic: str) -> Feeder:
    """A feeder of what WINDOWED reads."""
    return Feeder(
        cluster.users_appender("feeder"), topic, RATE_PER_S, lambda number: jobs.record(number, KEYS, int(now_ms()))
    )


def settled(cluster: BenchCluster) -> None:
    """Returns once a standby has rehearsed."""
    _until(lambda: "synced" in _states(cluster), "a standby is ready")


def _rows(cluster: BenchCluster, topic: str, start: int = 0) -> list[tuple[int, dict[str, Any]]]:
    """The broker's time, and the row with `at_ms`, from offset `start`."""
    found = []
    for message in cluster.log.scan(Partition(topic, 0), start):
        row = msgspec.json.decode(message.value() or b"")
        moment = msgspec.convert(row["at"], type=datetime)
        found.append((message.timestamp()[1], row | {"at_ms": moment.timestamp() * 1000}))
    return found


def _next(cluster: BenchCluster, topic: str) -> int:
    """Offset that the next row gets."""
    partition = Partition(f"{topic}-out", 0)
    return cluster.log.offsets([partition], "end")[partition]


def _await_row_of(cluster: BenchCluster, topic: str, sent_ms: float, behind: int) -> float:
    """The broker's time of the first row of a record sent after `sent_ms`; rows before offset `behind` are older."""
    found: list[int] = []

    def there() -> bool:
        found[:] = [at for at, row in _rows(cluster, f"{topic}-out", behind) if row["at_ms"] > sent_ms][:1]
        return bool(found)

    _until(there, "results continue")
    return found[0]


def _last_ms(cluster: BenchCluster, topic: str) -> int:
    message = cluster.log.last(Partition(topic, 0))
    assert message is not None
    return message.timestamp()[1]


def activations(cluster: BenchCluster) -> list[events.Event]:
    """The events of drivers that began to lead the operator."""
    found = [events.decode(m.value() or b"") for m in cluster.log.scan(Partition(cluster.topics.events, 0))]
    return [one for one in found if one.kind == "unit-active" and one.unit == "spark-h-0"]


def _states(cluster: BenchCluster) -> list[str]:
    """State of its copy of the operator in each driver's last report."""
    partition = Partition(cluster.topics.heartbeats, 0)
    end = cluster.log.offsets([partition], "end")[partition]
    beats = [heartbeats.decode(m.value() or b"") for m in cluster.log.scan(partition, max(0, end - BEATS))]
    last = {beat.worker: beat for beat in beats if isinstance(beat, heartbeats.Heartbeat)}
    copies = [copy for beat in last.values() for copy in beat.copies]
    return [copy.state for copy in copies if copy.unit.endswith("/spark-h-0")]


def _until(condition: Any, what: str, look_s: float = LOOK_S) -> None:
    deadline = time.monotonic() + WAIT_S
    while True:
        with suppress(Retriable):  # a broker this busy does not answer at times
            if condition():
                return
        if time.monotonic() > deadline:
            raise MeasureFailed(f"not within {WAIT_S:g} s: {what}")
        time.sleep(look_s)
