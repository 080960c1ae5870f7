"""A peer at work: how many rows it has written, and the CPU it has used for them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from bench.rig.cluster import BenchCluster
from bench.rig.figures import Figures
from bench.rig.followed import DEADLINE_S, MeasureFailed
from bench.rig.machine import trees_cpu_s
from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.node.machine.processes import Child, tail

SAMPLE_S = 0.1
CHECKED_ROWS = 10_000
GRACE_S = 5.0


@dataclass(frozen=True, slots=True)
class Sample:
    """State at one time.

    time_s: seconds of a monotonic clock.
    rows: rows committed so far.
    cpu_s: CPU seconds of the peer's processes so far.
    """

    time_s: float
    rows: int
    cpu_s: float


class _Row(msgspec.Struct):
    user: str
    n: int


def run_peer(cluster: BenchCluster, name: str, command: Sequence[str], topic: str, records: int) -> Figures:
    """Records a second and CPU seconds per million records, from the first rows to the last. Raises MeasureFailed."""
    out = Partition(f"{topic}-{name}", 0)
    cluster.log.create([TopicSpec(out.topic, 1)])
    folder = cluster.folder / "peers" / name
    folder.mkdir(parents=True)
    child = Child(
        [*command, cluster.bootstrap_servers, topic, out.topic],
        log=cluster.folder / "logs" / f"peer-{name}.log",
        environment={"PYTHONPATH": "", "PYTHONUNBUFFERED": "1"},
        directory=folder,
    )
    try:
        samples = _samples(cluster, child, out, records)
    finally:
        child.stop(GRACE_S)
    _check(cluster, out, min(records, CHECKED_ROWS))
    return rates(samples)


def rates(samples: Sequence[Sample]) -> Figures:
    """Rates without the time before the first rows, which is start and warm-up. Raises MeasureFailed."""
    known = [sample for sample in samples if sample.rows > 0]
    first, last = known[0], known[-1]
    rows, took_s = last.rows - first.rows, last.time_s - first.time_s
    if rows <= 0:
        raise MeasureFailed("it was over before it could be timed: more --records are needed")
    return {
        "records_per_s": round(rows / took_s),
        "cpu_s_per_million": round((last.cpu_s - first.cpu_s) / rows * 1e6, 2),
    }


def _samples(cluster: BenchCluster, child: Child, out: Partition, records: int) -> list[Sample]:
    """Samples until all rows are committed. A transaction's marker counts as a row too: there are few."""
    found: list[Sample] = []
    deadline = time.monotonic() + DEADLINE_S
    while not found or found[-1].rows < records:
        if not child.running:
            raise MeasureFailed(f"it ended with status {child.returncode}:\n{tail(child.log, 5)}")
        if time.monotonic() > deadline:
            raise MeasureFailed(f"only {found[-1].rows if found else 0:,} of {records:,} rows after {DEADLINE_S:g} s")
        rows = cluster.log.offsets([out], "end")[out]
        found.append(Sample(time.monotonic(), rows, trees_cpu_s([child.pid])))
        time.sleep(SAMPLE_S)
    return found


def _check(cluster: BenchCluster, out: Partition, rows: int) -> None:
    """Raises MeasureFailed unless the peer has written one row for each record, with each key's count rising by one."""
    counts: dict[str, int] = {}
    for number, message in enumerate(cluster.log.scan(out)):
        if number == rows:
            return
        row = msgspec.json.decode(message.value() or b"", type=_Row)
        if row.n != counts.get(row.user, 0) + 1:
            raise MeasureFailed(f"{row.user} is counted {row.n} after {counts.get(row.user, 0)}")
        counts[row.user] = row.n
    raise MeasureFailed(f"only {sum(counts.values()):,} of {rows:,} rows are there")
