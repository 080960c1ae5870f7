"""`holdfast topics --clean` deletes what is the cluster's, all of it, and only when the cluster does not run."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.schemas.topics import ClusterTopics, Partition, TopicSpec
from holdfast.services.client.cleanup import clean, clean_over, owned
from holdfast.services.kernel.errors import CommandFailed
from holdfast.services.log.memory import MemoryLog
from holdfast.services.view.door import Door, Whereabouts

TOPICS = ClusterTopics("c")
JOB = TOPICS.job("flights", "7-abcdef")
THEIRS = ("flights", "c.flights", "c.jobs.other", "cc.jobs.plans", "holdfast.jobs.plans")


def door(log: MemoryLog) -> Door:
    return Door(log, TOPICS, log.topics(), Whereabouts(Path(), "here:9092", "c", False))


@pytest.fixture
def log() -> MemoryLog:
    log = MemoryLog(lambda: 0)
    log.create([*TOPICS.specs(), *JOB.specs(2, {JOB.data("events", 0): 2}), JOB.replayed])
    log.create([TopicSpec(name) for name in THEIRS])
    return log


def test_the_topics_of_the_cluster_and_of_its_jobs_are_listed_with_their_owner(log: MemoryLog) -> None:
    found = {line.topic: line.owner for line in owned(door(log))}
    assert not set(found) & set(THEIRS)
    assert {topic for topic, owner in found.items() if owner == "cluster"} == {spec.name for spec in TOPICS.specs()}
    assert found[JOB.data("events", 0)] == found[JOB.cuts] == found[JOB.replayed.name] == "flights@7-abcdef"


def test_all_of_them_are_deleted_and_nothing_else(log: MemoryLog) -> None:
    deleted = clean(door(log), sleep=lambda _: None)
    assert set(log.topics()) == set(THEIRS)
    assert len(deleted) == len(TOPICS.specs()) + len(JOB.specs(2, {JOB.data("events", 0): 2})) + 1


def test_a_cluster_whose_heartbeats_come_in_keeps_its_topics(log: MemoryLog) -> None:
    beat = Partition(TOPICS.heartbeats, 0)
    before = log.topics()
    with pytest.raises(CommandFailed, match="runs"):
        clean(door(log), sleep=lambda _: log.appender("worker").append(beat, b"{}"))
    assert log.topics() == before


def test_dead_letters_of_a_job_that_is_gone_are_listed_with_their_end_and_deleted_after_it(log: MemoryLog) -> None:
    week_ms = 7 * 24 * 3_600_000
    other = TOPICS.job("ships", "9-abcdef")
    log.create([spec for spec in other.specs(1, {}) if spec.name == other.dead_letters])
    log.put(Partition(other.dead_letters, 0), b"{}", None, None, timestamp_ms=5_000)
    until = {line.topic: line.kept_until_ms for line in owned(door(log))}
    assert (until[other.dead_letters], until[JOB.dead_letters]) == (5_000 + week_ms, None)
    assert [line.topic for line in clean_over(door(log))] == [other.dead_letters]
    assert JOB.dead_letters in log.topics()
