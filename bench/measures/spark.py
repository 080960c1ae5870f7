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
from datetime import datetime
from string import Template
from typing import Any

import msgspec

from bench.rig.cluster import BenchCluster, now_ms
from bench.rig.feeder import Feeder
from bench.rig.figures import Figures, percentile
from bench.rig.followed import MeasureFailed
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
STATELESS = Template(
    _SOURCE
    + """
operators: {h: {spark: {sql: "SELECT number, at FROM input"}, mode: $mode, input: events}}
queries: {q: {input: h, sink: {topic: $topic-out}}}
"""
)
_EVENTS, _NUMBERED = "{user: string, amount: int, at: timestamp}", "{number: int, at: timestamp}"


def spark(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Measures all parts, in turn."""
    parts = {"": throughput, "micro_batch_": latency, "realtime_": realtime, "killed_": kills}
    figures: Figures = {}
    for prefix, measure in parts.items():
        cluster.say(f"spark: {prefix or 'throughput'}")
        found = measure(cluster, f"{name}-{prefix.strip('_').replace('_', '-') or 'windows'}", scale)
        figures |= {f"{prefix}{key}": value for key, value in found.items()}
    return figures


def throughput(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Rows a second from the start of the query to the last window that closes, ours and Spark's own."""
    topic, start = f"bench-{name}", int(now_ms()) - scale.records
    cluster.log.create([TopicSpec(topic, PARTITIONS), *(TopicSpec(f"{topic}-{end}", 1) for end in ("out", "alone"))])
    cluster.preload(topic, scale.records, KEYS, lambda i: start + i, PARTITIONS)
    alone_ms = _alone(cluster, topic)
    expected = _end(cluster, f"{topic}-alone")
    settings = {"name": name, "fields": _EVENTS, "scheme": "passive"}
    with cluster.running(WINDOWED, topic, **settings) as job:
        job.await_running()
        _until(lambda: _end(cluster, f"{topic}-out") >= expected, "windows close")
        ours_ms = _last_ms(cluster, f"{topic}-out") - _activations(cluster)[-1].time_ms
    return {
        "rows_per_s": round(scale.records / ours_ms * 1000),
        "alone_rows_per_s": round(scale.records / alone_ms * 1000),
        "share_of_alone": round(alone_ms / ours_ms, 2),
    }


def _alone(cluster: BenchCluster, topic: str) -> float:
    """Milliseconds from the start of the query to its last row."""
    jars = ensure("spark")
    paths = ",".join(str(jars.directory / jar) for jar in sorted(jars.sums))
    command = [sys.executable, "-m", "bench.measures.spark_alone", "--servers", cluster.bootstrap_servers]
    command += ["--jars", paths, "--topic", topic, "--query", QUERY, "--partitions", str(PARTITIONS)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert process.stdout is not None
        began_ms = int(process.stdout.readline() or 0)
        if not began_ms:
            raise MeasureFailed("Spark alone did not start")
        seen, quiet_since = 0, time.monotonic()
        while not seen or time.monotonic() - quiet_since < 10:
            time.sleep(LOOK_S)
            if (now := _end(cluster, f"{topic}-alone")) != seen:
                seen, quiet_since = now, time.monotonic()
        return _last_ms(cluster, f"{topic}-alone") - began_ms
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
                    _until(lambda: "synced" in _states(cluster), "a standby is ready")
                time.sleep(2)
                victim, before = _activations(cluster)[-1].worker, len(_activations(cluster))
                behind, killed_ms = _next(cluster, topic), now_ms()
                os.killpg(cluster.workers()[victim], signal.SIGKILL)
                _until(lambda before=before: len(_activations(cluster)) > before, "another driver is active")
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


def _end(cluster: BenchCluster, topic: str) -> int:
    return len(list(cluster.log.scan(Partition(topic, 0))))


def _last_ms(cluster: BenchCluster, topic: str) -> int:
    message = cluster.log.last(Partition(topic, 0))
    assert message is not None
    return message.timestamp()[1]


def _activations(cluster: BenchCluster) -> list[events.Event]:
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
