"""Savepoints on Kafka that no job names are deleted once they have lain there for an hour."""

from __future__ import annotations

from holdfast.schemas.topics import ClusterTopics
from holdfast.services.controller.conductor import KEPT_LOOK_MS
from holdfast.services.controller.left_over import LEFT_MS, LeftOver
from tests.unit.controller.cluster import CLUSTER, Cluster
from tests.unit.controller.test_updates import two_updates

TOPICS = ClusterTopics("c")
ONE, TWO = TOPICS.savepoint("1").name, TOPICS.savepoint("2").name
PRESENT = (ONE, TWO, "c.jobs.plans", "c.savepoints")


def test_a_savepoint_is_left_over_once_nobody_has_named_it_for_an_hour() -> None:
    left = LeftOver(TOPICS)
    assert left.due(PRESENT, {ONE, TWO}, 0) == []
    assert left.due(PRESENT, {TWO}, 10) == []
    assert left.due(PRESENT, {TWO}, 9 + LEFT_MS) == []
    assert left.due(PRESENT, {TWO}, 10 + LEFT_MS) == [ONE]


def test_a_savepoint_that_was_named_meanwhile_has_an_hour_again() -> None:
    left = LeftOver(TOPICS)
    left.due(PRESENT, {TWO}, 0)
    left.due(PRESENT, {ONE, TWO}, LEFT_MS)
    assert left.due(PRESENT, {TWO}, LEFT_MS + 1) == []


def test_a_controller_deletes_what_a_killed_command_has_left_and_nothing_that_a_job_began_with() -> None:
    cluster = Cluster(0)
    cluster.start_replica("c0")
    two_updates(cluster)
    kept = {name for name in cluster.log.topics() if name.startswith(CLUSTER.savepoints)}
    left = CLUSTER.savepoint("left")
    cluster.log.create([left])
    for _ in range(3):
        cluster.now_ms += max(KEPT_LOOK_MS, LEFT_MS // 2)
        cluster.pass_s(0.2)
    assert {name for name in cluster.log.topics() if name.startswith(CLUSTER.savepoints)} == kept
    assert kept
