"""What Spark reads and writes is trimmed with the cut log, up to what a driver or a copy that begins again needs."""

from __future__ import annotations

from collections import Counter

import pytest

from holdfast.schemas.commits import Commit
from holdfast.schemas.commits import decode as decode_commit
from holdfast.schemas.topics import Partition
from holdfast.services.worker.core import cut_trims
from holdfast.services.worker.sources import cut_trimmer
from tests.scenario import test_marked_rows as marked
from tests.scenario import test_recut as recut
from tests.support.memory_cluster import MemoryCluster

BEHIND = recut.JOB.replace("keep_cuts: true", "replay_horizon_s: 0").replace(
    "  heavy:", "  before: {filter: 'x >= 0', input: s}\n  heavy:"
)
BEHIND = BEHIND.replace('"SELECT * FROM input"}, input: s}', '"SELECT * FROM input"}, input: before}')
LIVE = marked.JOB.replace("keep_cuts: true", "replay_horizon_s: 0")


@pytest.fixture(autouse=True)
def trimmed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cut_trims, "FEWEST_RECORDS", 4)
    monkeypatch.setattr(cut_trims, "RECORDS_A_TASK", 0)
    monkeypatch.setattr(cut_trims, "SHORTEST_MS", 20)
    monkeypatch.setattr(cut_trimmer, "LOOK_MS", 20)


class Reader(recut.StandIn):
    """A driver that reads rows: all that there are."""

    def stop(self, newest: int) -> dict[str, dict[int, int]]:
        ((topic, first),) = self._first.items()
        ends = self._log.offsets([Partition(topic, index) for index in first], "end")
        return {topic: {one.index: end for one, end in ends.items()}}


def start(cluster: MemoryCluster, partition: Partition) -> int:
    return cluster.log.offsets([partition], "start")[partition]


def test_rows_are_kept_from_where_the_micro_batch_began_whose_commit_is_the_first_that_is_left() -> None:
    cluster = MemoryCluster(BEHIND, describe=recut.describe)
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    topic, commits = cluster.topics.rows("heavy"), Partition(cluster.topics.commits("heavy"), 0)
    rows = [Partition(topic, index) for index in cluster.plan.spark[0].first]
    driver = Reader(cluster, 1)
    for x in range(40):
        cluster.feed("s", [{"x": x, "at": f"2020-01-01T00:00:{x:02}Z"}])
        cluster.turn(30)
        assert driver.commit([driver.write(x, 1)], x)
        cluster.turn(50)
    first = next(iter(cluster.log.scan(commits)))
    kept = decode_commit(first.value() or b"")
    assert isinstance(kept, Commit)
    starts = {one.index: start(cluster, one) for one in rows}
    assert starts == kept.start[topic]
    assert sum(starts.values()) > 10
    assert driver.known.k > kept.k, "what is kept is not what was committed last"


def test_lanes_of_real_time_mode_are_kept_from_the_row_that_says_what_counts_next() -> None:
    cluster = MemoryCluster(LIVE, describe=marked.describe)
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    driver, lane = marked.StandIn(cluster, 1), Partition(cluster.topics.commits("heavy"), 1)
    for number in range(30):
        driver.write(5 * number, 5 * number + 5)
        cluster.turn(80)
        if number % 10 == 9:
            cluster.kill("w1")
            worker = cluster.start("w1")
            cluster.place({unit: [worker] for unit in cluster.units})
    assert 50 < start(cluster, lane) < 150
    assert start(cluster, Partition(lane.topic, 0)) == 0, "fences stay: one for each takeover"
    cluster.control("drain")
    driver.finish()
    cluster.until(cluster.ended)
    assert Counter(row["x"] for row in cluster.rows("plain")) == Counter(range(150))
