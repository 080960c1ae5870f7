"""The chain of `bench cost` on Kafka Streams, at a commit interval: CPU of its process and the broker, and delays."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import msgspec

from bench.measures.peers.peer import kafka_streams
from bench.rig import jobs
from bench.rig.cluster import BenchCluster, now_ms
from bench.rig.feeder import Feeder
from bench.rig.figures import Figures, spread
from bench.rig.followed import DEADLINE_S, MeasureFailed
from bench.rig.machine import trees_cpu_s
from bench.rig.spent import Spent
from bench.rig.tap import Tap
from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.node.machine.processes import Child, tail

SETTLING_S = 8.0
"""Seconds in which Java compiles frequent code."""
GRACE_S = 5.0


class _Row(msgspec.Struct):
    user: str
    n: int


def streams_beside(
    cluster: BenchCluster, name: str, commit_ms: int, rate_per_s: float, keys: int, seconds: float
) -> Figures:
    """Figures of Kafka Streams. Raises MeasureFailed, or the errors of kafka_streams.

    The broker's share includes the requests of the services of an idle cluster, as Holdfast's own figures do.
    """
    topic, out = f"bench-{name}", Partition(f"bench-{name}-streams", 0)
    command = [*kafka_streams("chain"), cluster.bootstrap_servers, topic, out.topic, str(commit_ms)]
    cluster.create(topic)
    cluster.log.create([TopicSpec(out.topic, 1)])
    folder = cluster.folder / "peers" / name
    folder.mkdir(parents=True)
    child = Child(command, log=cluster.folder / "logs" / f"peer-{name}.log", environment={}, directory=folder)
    reader = cluster.log.reader("bench-out")
    reader.assign({out: 0})
    record = lambda i: jobs.record(i, keys, int(now_ms()))  # noqa: E731
    try:
        with Tap(reader) as tap, Feeder(cluster.users_appender("feeder"), topic, rate_per_s, record) as feeder:
            _await_rows(cluster, child, out)
            time.sleep(SETTLING_S)
            began_s, before, cpu_s = time.monotonic(), Spent.of(cluster), trees_cpu_s([child.pid])
            first = len(feeder.sent_ms)
            time.sleep(seconds)
            took_s, after, spent_s = time.monotonic() - began_s, Spent.of(cluster), trees_cpu_s([child.pid]) - cpu_s
            last = len(feeder.sent_ms)
            time.sleep(10 * commit_ms / 1000)
    finally:
        child.stop(GRACE_S)
    appended = [float(message.timestamp()[1]) for message in cluster.log.scan(Partition(topic, 0))]
    rows = (
        (msgspec.json.decode(kept.message.value() or b"", type=_Row), kept.seen_ms) for kept in tap.kept.get(out, [])
    )
    found = delays(appended, keys, ((row.user, row.n, seen_ms) for row, seen_ms in rows))
    measured = [found[index] for index in range(first, last) if index in found]
    if not measured:
        raise MeasureFailed("no row could be matched with its records")
    own, broker = spent_s / took_s, (after.brokers - before.brokers) / took_s
    return {"cores": round(own + broker, 3), "process_cores": round(own, 3), "broker_cores": round(broker, 3),
            **spread(measured, "ms")}  # fmt: skip


def delays(appended_ms: Sequence[float], keys: int, rows: Iterable[tuple[str, int, float]]) -> dict[int, float]:
    """Milliseconds from the append of each record until a row counted it, by the record's number.

    Args:
        appended_ms: append times of the records of `jobs.record`.
        rows: user, count, and time at which the row was read.
    """
    of: dict[str, list[int]] = {}
    for index in range(len(appended_ms)):
        of.setdefault(jobs.key(index, keys).decode(), []).append(index)
    counted: dict[str, int] = {}
    found: dict[int, float] = {}
    for user, n, seen_ms in rows:
        for index in of.get(user, [])[counted.get(user, 0) : n]:
            found[index] = seen_ms - appended_ms[index]
        counted[user] = max(n, counted.get(user, 0))
    return found


def _await_rows(cluster: BenchCluster, child: Child, out: Partition) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not cluster.log.offsets([out], "end")[out]:
        if not child.running or time.monotonic() > deadline:
            raise MeasureFailed(f"Kafka Streams writes nothing:\n{tail(child.log, 5)}")
        time.sleep(0.1)
