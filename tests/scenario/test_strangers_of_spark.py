"""Records on a Spark operator's commit log that no driver wrote: skipped and reported, and every row comes out once."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas.commits import Commit, Named, encode
from holdfast.schemas.decided import Id
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.codecs.frames import FrameCodec
from holdfast.services.kernel.errors import StateCorrupted
from holdfast.services.spark.commits import Commits
from tests.scenario.test_recut import SCHEMA, SECOND_US, StandIn, new_cluster, to_the_end
from tests.scenario.test_strangers import RUBBISH, append, refused
from tests.support.examples import examples
from tests.support.memory_cluster import MemoryCluster
from tests.support.mutations import mutated


def log_of(cluster: MemoryCluster) -> Partition:
    return Partition(cluster.topics.commits("heavy"), 0)


def running() -> tuple[MemoryCluster, StandIn]:
    cluster = new_cluster()
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    driver = StandIn(cluster, 1)
    assert driver.batch(0, 20)
    cluster.turn(30)
    return cluster, driver


def a_driver(cluster: MemoryCluster, told: dict[int, str]) -> Commits:
    """What a driver makes of the log."""
    at = log_of(cluster)
    fits = FrameCodec(SCHEMA).check
    return Commits(
        cluster.log,
        at.topic,
        {"in": {0: 0}},
        "d",
        fits=fits,
        refuse=lambda _, offset, cause: told.update({offset: cause}),
    )


def forged(driver: StandIn, *named: int, **changes: int) -> bytes:
    """The next commit, as a stranger might write it."""
    known, stop = driver.known, {"in": {0: driver.known.stop["in"][0] + 5}}
    frames = tuple(Named(offset, 5) for offset in named)
    k, watermark, author = known.k + 1, known.watermark + SECOND_US, Id("stranger", 1)
    made = Commit(known.epoch, k, 1, known.stop, stop, frames, watermark, author, known.prev)
    return encode(msgspec.structs.replace(made, **changes))


@pytest.mark.parametrize("takeover", [False, True])
def test_rubbish_and_forged_commits_on_a_commit_log(takeover: bool) -> None:
    cluster, driver = running()
    at = log_of(cluster)
    for value in RUBBISH:
        append(cluster, at, value)
    fence = b'{"type":"fence","epoch":9007199254740992,"id":["x",1]}'
    append(cluster, at, fence, forged(driver, 10**9), forged(driver, 0), forged(driver, 1, 1), forged(driver, k=7))
    cluster.turn(50)
    if takeover:
        cluster.kill("w1")
        second = cluster.start("w2")
        cluster.place({unit: [second] for unit in cluster.units})
    told: dict[int, str] = {}
    seen = a_driver(cluster, told)
    assert driver.batch(20, 20)
    seen.follow()
    assert (seen.fold.k, seen.fold.prev) == (driver.known.k, driver.known.prev), "drivers and workers agree"
    assert len(told) >= len(RUBBISH) + 3
    to_the_end(cluster, driver, 40)
    assert refused(cluster) == {at.topic}


def test_a_commit_that_its_own_driver_cannot_have_meant_is_told_as_what_it_is() -> None:
    cluster, _driver = running()
    seen = a_driver(cluster, {})
    seen.follow()
    known = seen.fold
    bad = Commit(1, known.k + 1, 1, known.stop, known.stop, (Named(0, 1),), known.watermark, Id("d", 9), known.prev)
    answers: list[Exception | None] = []
    seen.propose(bad, answers.append)
    seen.follow()
    assert isinstance(answers[0], StateCorrupted)
    assert "names no frames at" in str(answers[0])


@examples(each_run=15, with_long=75)
@given(st.integers(0, 2**32))
def test_drivers_and_workers_read_on_whatever_lies_on_a_commit_log(seed: int) -> None:
    """What was changed may count, if it could have been written."""
    random, (cluster, driver) = Random(seed), running()
    at = log_of(cluster)
    values = [message.value() or b"" for message in cluster.log.scan(at)]
    seen = a_driver(cluster, {})
    for _ in range(12):
        append(cluster, at, mutated(random, random.choice([*values, forged(driver, 1, 2)])))
        cluster.turn(random.choice((1, 20)))
        seen.follow()
    feed = a_driver(cluster, {})
    feed.follow()
    assert feed.fold.prev == seen.fold.prev
    assert not [copy for worker in cluster.workers.values() for copy in worker.copies() if copy.state == "failed"]
