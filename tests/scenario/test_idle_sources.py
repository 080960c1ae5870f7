"""Sources that fall silent, come back, or only seem to be silent: nothing that is in order is lost as late."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from holdfast.schemas import cuts
from holdfast.schemas.cuts import Cut
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.errors import Retriable
from holdfast.services.log.protocol import At
from tests.support.memory_cluster import MemoryCluster

START_MS = 1_600_000_000_000
JOB = """
name: visits
fault_tolerance: {default: {scheme: none}}
sources:
  visits:
    topic: visits
    fields: {n: int, at: timestamp}
    event_time: at
    unit: ms
    parallelism: 2
    idle_after_s: 1
operators:
  minutes: {aggregate: {n: "count()"}, input: visits, window: {size_s: 60}, emit: final}
queries: {minutes: {input: minutes, sink: {topic: minutes}}}
"""


def started(job: str = JOB) -> MemoryCluster:
    cluster = MemoryCluster(job)
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    return cluster


def visits(first_s: int, seconds: Iterable[int]) -> list[dict[str, int]]:
    return [{"n": 1, "at": START_MS + (first_s + second) * 1_000} for second in seconds]


def passes(cluster: MemoryCluster, seconds: float) -> None:
    """A worker that waits turns a few times a second."""
    for _ in range(int(seconds * 5)):
        cluster.now_ms += 199
        cluster.turn()


def counted(cluster: MemoryCluster) -> int:
    return sum(row["n"] for row in cluster.rows("minutes"))


def watermarks(cluster: MemoryCluster) -> dict[str, int]:
    """The last of each source task."""
    found = {}
    for message in cluster.log.scan(Partition(cluster.topics.cuts, 0)):
        record = cuts.decode(message.value() or b"")
        if isinstance(record, Cut):
            found[record.task] = record.watermark
    return found


def test_a_backfill_in_two_pieces_loses_nothing() -> None:
    """The clock moved the watermark of a silent source: 100 s later its next records, in order, were late."""
    cluster = started()
    for first_s in (0, 120):
        for partition in (0, 1):
            cluster.feed("visits", visits(first_s, range(partition * 3, 110 + partition * 3)), partition)
            cluster.turn(20)
        passes(cluster, 100)
    cluster.run_to_end()
    assert counted(cluster) == 440


def test_a_partition_whose_leader_is_away_is_not_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes no records meanwhile, and has met its end before: those that its writers kept came late."""
    cluster = started()
    away = Partition("visits", 1)
    asked, up = cluster.log.offsets, [False]

    def offsets(partitions: Iterable[Partition], at: At) -> dict[Partition, int]:
        wanted = list(partitions)
        if away in wanted and not up[0]:
            raise Retriable("no leader")
        return asked(wanted, at)

    cluster.feed("visits", visits(0, [0]), 1)
    cluster.turn(20)
    monkeypatch.setattr(cluster.log, "offsets", offsets)
    for second in range(0, 300, 10):
        cluster.feed("visits", visits(0, range(second, second + 10)))
        passes(cluster, 1)
    up[0] = True
    cluster.feed("visits", visits(0, range(1, 300)), 1)
    passes(cluster, 1)
    cluster.run_to_end()
    assert counted(cluster) == 600


def test_a_partition_that_is_idle_among_others_holds_nothing_back() -> None:
    cluster = started()
    cluster.feed("visits", visits(0, [0]), 1)
    for second in range(0, 300, 10):
        cluster.feed("visits", visits(0, range(second, second + 10)))
        passes(cluster, 1)
    assert counted(cluster) >= 180, "what the other one has brought is closed, but for the last seconds"


def test_in_a_silence_of_all_no_watermark_moves() -> None:
    cluster = started()
    for partition in (0, 1):
        cluster.feed("visits", visits(0, range(partition, 90 + partition)), partition)
    passes(cluster, 5)
    before = watermarks(cluster)
    passes(cluster, 500)
    assert watermarks(cluster) == before


def test_a_silence_closes_what_is_open_where_the_source_says_so() -> None:
    cluster = started(JOB.replace("idle_after_s: 1", "idle_after_s: 1\n    close_after_idle_s: 20"))
    for partition in (0, 1):
        cluster.feed("visits", visits(0, range(partition, 90 + partition)), partition)
    passes(cluster, 19)
    assert counted(cluster) < 180
    passes(cluster, 3)
    assert counted(cluster) == 180
    cluster.feed("visits", visits(0, range(95, 150)))
    cluster.turn(20)
    cluster.run_to_end()
    assert counted(cluster) == 180 + 10, "the minute that was closed takes nothing more, the next one does"
