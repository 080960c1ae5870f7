"""Dead letters outlive their job for as long as it says."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.schemas.plans import Ended
from holdfast.schemas.topics import JobTopics, Partition
from holdfast.services.controller.conductor import KEPT_LOOK_MS
from holdfast.services.controller.kept import delete_over, kept
from tests.unit.controller.cluster import CLUSTER, Cluster, job

WEEK_MS = 7 * 24 * 3_600_000


def ended(letters: int, **settings: Any) -> Cluster:
    """A job that was cancelled when it had so many dead letters."""
    cluster = Cluster()
    cluster.submit(job(**settings))
    cluster.start("w1")
    cluster.pass_s(0.8)
    for _ in range(letters):
        cluster.append(cluster.names().dead_letters, b"{}")
    cluster.command("cancel")
    cluster.pass_s(0.5)
    assert isinstance(cluster.decisions()[-1], Ended)
    return cluster


def letters_of(cluster: Cluster) -> str:
    return cluster.names().dead_letters


def test_dead_letters_stay_when_their_job_ends() -> None:
    cluster = ended(letters=3)
    assert set(cluster.job_topics()) == {letters_of(cluster)}
    assert len(list(cluster.log.scan(Partition(letters_of(cluster), 0)))) == 3


@pytest.mark.parametrize(("letters", "settings"), [(0, {}), (3, {"keep_dead_letters_s": 0})])
def test_a_job_without_dead_letters_to_keep_leaves_no_topic(letters: int, settings: dict[str, Any]) -> None:
    assert set(ended(letters, **settings).job_topics()) == set()


def test_until_when_they_are_kept_follows_from_the_last_one() -> None:
    cluster = ended(letters=2, keep_dead_letters_s=7200)
    (one,) = kept(cluster.log, CLUSTER, cluster.log.topics())
    last = cluster.log.last(Partition(letters_of(cluster), 0))
    assert last is not None
    until_ms = last.timestamp()[1] + 7_200_000
    assert (one.until_ms, one.over(until_ms - 1), one.over(until_ms)) == (until_ms, False, True)


def test_topics_of_a_running_job_are_not_those_that_outlive_one() -> None:
    cluster = Cluster()
    cluster.submit(job())
    cluster.start("w1")
    cluster.pass_s(0.8)
    cluster.append(letters_of(cluster), b"{}")
    assert list(kept(cluster.log, CLUSTER, cluster.log.topics())) == []
    assert delete_over(cluster.log, CLUSTER, 2**62) == []


def test_topics_of_a_job_that_keeps_its_cuts_stay_with_them() -> None:
    cluster = ended(letters=2, keep_cuts=True)
    assert list(kept(cluster.log, CLUSTER, cluster.log.topics())) == []


def test_topics_that_are_over_go_with_the_mark_of_records_that_were_sent_back() -> None:
    cluster = ended(letters=2)
    names: JobTopics = cluster.names()
    cluster.log.create([names.replayed])
    (one,) = kept(cluster.log, CLUSTER, cluster.log.topics())
    assert one.until_ms is not None
    assert delete_over(cluster.log, CLUSTER, one.until_ms - 1) == []
    assert delete_over(cluster.log, CLUSTER, one.until_ms, ended=lambda generation: False) == []
    deleted = delete_over(cluster.log, CLUSTER, one.until_ms, ended=names.generation.__eq__)
    assert deleted == [names.dead_letters, names.replayed.name]
    assert set(cluster.job_topics()) == set()


def test_the_controller_deletes_them_when_their_time_is_over() -> None:
    cluster = ended(letters=2, keep_dead_letters_s=3_700)
    replica = cluster.replicas["c0"].conductor
    cluster.pass_s(0.2)
    cluster.now_ms += KEPT_LOOK_MS
    cluster.pass_s(0.2)
    assert set(cluster.job_topics()) == {letters_of(cluster)}
    cluster.now_ms += 3_700_000 + KEPT_LOOK_MS
    cluster.pass_s(0.2)
    assert replica.core.acting
    assert set(cluster.job_topics()) == set()
