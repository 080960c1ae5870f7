"""What the conductor makes of records, and what it tells the core of the user's topics."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from holdfast.schemas.plans import Ended, Plan, Rejection, encode
from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.controller.core import actions as do
from holdfast.services.controller.core.controller import RETRY_MS
from holdfast.services.controller.drafter import MOST_ERRORS
from holdfast.services.log.kafka.durability import Durability
from holdfast.services.planning.plan import make_plan
from tests.unit.controller.cluster import CLUSTER, Cluster, Temper, job


def planned(start: str = "earliest", config: dict[str, str] | None = None, **more: Any) -> Plan:
    """The plan of a job that reads `user`, whose two partitions hold 3 and 1 records, one a second from 2026 on."""
    cluster = Cluster()
    cluster.log.create([TopicSpec("user", 2, config or {})])
    appender = cluster.log.appender("test")
    for second in range(3):
        appender.append(Partition("user", 0), b"{}", timestamp_ms=1_767_225_600_000 + second * 1000)
    appender.append(Partition("user", 1), b"{}", timestamp_ms=1_767_225_600_000)
    cluster.submit(job(sources={"s": {"topic": "user", "fields": {"x": "int"}, "start": start}}, **more))
    cluster.settle()
    return cluster.plan()


@pytest.mark.parametrize(
    ("start", "first"),
    [
        ("earliest", {0: 0, 1: 0}),
        ("latest", {0: 3, 1: 1}),
        ("2026-01-01T00:00:01Z", {0: 1, 1: 1}),
        ("2026-01-01T01:00:02+01:00", {0: 2, 1: 1}),
        ("2026-01-01T00:00:00", {0: 0, 1: 0}),
    ],
)
def test_reading_begins_where_the_job_says_and_the_plan_pins_it(start: str, first: dict[int, int]) -> None:
    assert planned(start).sources[0].first == first


@pytest.mark.parametrize(
    ("config", "warned"),
    [
        ({}, ""),
        ({"cleanup.policy": "delete", "retention.ms": "-1"}, ""),
        ({"cleanup.policy": "delete", "retention.ms": "3600000"}, ""),
        ({"cleanup.policy": "delete", "retention.ms": "60000"}, "retention.ms is 60000"),
        ({"cleanup.policy": "compact", "min.compaction.lag.ms": "0"}, "min.compaction.lag.ms is 0"),
        ({"cleanup.policy": "compact", "retention.ms": "60000"}, ""),
    ],
)
def test_a_topic_that_keeps_records_too_short_is_warned_of(config: dict[str, str], warned: str) -> None:
    found = [warning for warning in planned(config=config).warnings if "replay_horizon_s" in warning]
    assert len(found) == bool(warned)
    assert all(warned in warning for warning in found)


@pytest.mark.parametrize(
    ("policy", "retention_ms", "warned"),
    [
        ("delete", "86400000", True),
        ("compact,delete", "86400000", True),
        ("delete", "-1", False),
        ("compact", "1", False),
    ],
)
def test_a_table_whose_rows_do_not_stay_is_warned_of(policy: str, retention_ms: str, warned: bool) -> None:
    cluster = Cluster()
    config = {"cleanup.policy": policy, "retention.ms": retention_ms, "min.compaction.lag.ms": "86400000"}
    cluster.log.create([TopicSpec("user", 1), TopicSpec("table", 1, config)])
    fields = {"x": "int"}
    sources = {"s": {"topic": "user", "fields": fields}, "t": {"topic": "table", "fields": fields, "table": ["x"]}}
    join = {"join": {"left": "s", "right": "t", "on": ["x"]}}
    cluster.submit(job(sources=sources, operators={"n": join}))
    cluster.settle()
    found = [warning for warning in cluster.plan().warnings if warning.startswith("sources.t.topic: retention.ms")]
    assert len(found) == warned


def test_a_shorter_replay_horizon_is_kept_to() -> None:
    config = {"cleanup.policy": "delete", "retention.ms": "60000"}
    assert not any("replay_horizon_s" in warning for warning in planned(config=config, replay_horizon_s=30).warnings)


@pytest.mark.parametrize(
    ("buffering", "config", "warned"),
    [
        ("source", {"retention.ms": "39000"}, "retention.ms is 39000"),
        ("source", {"retention.ms": "40000"}, ""),
        ("source", {"retention.bytes": "1000"}, "retention.bytes is 1000"),
        ("adaptive", {"retention.ms": "39000"}, "retention.ms is 39000"),
        ("upstream", {"retention.ms": "39000"}, ""),
    ],
)
def test_a_users_topic_that_deletes_records_a_recovery_reads_again_gives_a_warning(
    buffering: str, config: dict[str, str], warned: str
) -> None:
    tolerance = {"buffering": buffering, "checkpoint": {"policy": "aligned"}}
    made = planned(config={"cleanup.policy": "delete", **config}, fault_tolerance=tolerance, replay_horizon_s=0)
    found = [warning for warning in made.warnings if "buffering" in warning]
    assert len(found) == bool(warned)
    assert all(warned in warning for warning in found)


def test_malformed_records_are_counted_and_skipped() -> None:
    cluster = Cluster()
    for topic in (CLUSTER.plans, CLUSTER.assignments, CLUSTER.heartbeats):
        for record in (b"", b"{", b'{"type": "what"}', b"[]"):
            cluster.append(topic, record)
    cluster.submit(job())
    cluster.start("w1")
    cluster.pass_s(0.8)
    assert cluster.replicas["c0"].conductor.refusals.counts == {
        CLUSTER.plans: 4,
        CLUSTER.assignments: 4,
        CLUSTER.heartbeats: 4,
    }
    assert cluster.states()[-1] == "running"
    for _ in range(2):
        cluster.append(cluster.names().progress, b"{")
    cluster.command("drain")
    cluster.pass_s(0.2)
    cluster.run_out()
    cluster.pass_s(0.2)
    assert cluster.replicas["c0"].conductor.refusals.counts[cluster.names().progress] == 2
    assert isinstance(cluster.decisions()[-1], Ended)


@pytest.mark.parametrize("keep", [True, False])
def test_topics_that_a_replay_reads_outlive_a_job_that_keeps_its_cuts(keep: bool) -> None:
    cluster = Cluster()
    cluster.submit(job(keep_cuts=keep))
    cluster.start("w1")
    cluster.pass_s(0.8)
    recorded = cluster.names().recorded
    assert recorded < set(cluster.job_topics())
    cluster.command("cancel")
    cluster.pass_s(0.5)
    assert isinstance(cluster.decisions()[-1], Ended)
    assert set(cluster.job_topics()) == (recorded if keep else set())


def test_a_decision_on_a_generation_that_cannot_be_is_malformed() -> None:
    cluster = Cluster()
    cluster.submit(job())
    cluster.settle()
    rejection = Rejection("x", "latest", cluster.plan().id, ())
    cluster.append(CLUSTER.plans, encode(rejection))
    cluster.settle()
    assert cluster.replicas["c0"].conductor.refusals.counts == {CLUSTER.plans: 1}


@pytest.mark.parametrize("times", [MOST_ERRORS - 1, 99])
def test_a_defect_in_the_planner_rejects_the_job_and_stops_no_other(
    times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error that passes does not: it is planned again."""
    raised = itertools.count(1)

    def fragile(spec: Any, **more: Any) -> Plan:
        if spec.name == "other" and next(raised) <= times:
            raise KeyError("q")
        return make_plan(spec, **more)

    monkeypatch.setattr("holdfast.services.controller.drafter.make_plan", fragile)
    cluster = Cluster()
    cluster.submit(job("other"))
    cluster.submit(job())
    for _ in range(MOST_ERRORS):
        cluster.settle()
        cluster.now_ms += RETRY_MS
    found = {decision.job: decision for decision in cluster.decisions()}
    rejection = found.pop("other")
    assert [type(one) for one in found.values()] == [Plan]
    assert isinstance(rejection, Plan) == (times < MOST_ERRORS)
    if isinstance(rejection, Rejection):
        assert rejection.problems[0].message == "cannot be planned: KeyError('q')"


def test_topics_get_the_replicas_and_the_least_number_of_them_in_sync_that_the_settings_say() -> None:
    (topic,) = Durability(3, 2).of([TopicSpec("a", 4, {"cleanup.policy": "delete"})])
    assert topic == TopicSpec("a", 4, {"cleanup.policy": "delete", "min.insync.replicas": "2"}, replicas=3)
    assert Durability().of([topic]) == [topic]


def test_a_status_that_could_not_be_published_is_published_later() -> None:
    cluster = Cluster(0)
    replica = cluster.start_replica("c0", Temper(fails=lambda action: isinstance(action, do.PublishStatus)))
    cluster.submit(job())
    cluster.pass_s(0.2)
    assert cluster.statuses() == []
    replica.conductor.temper = Temper()
    cluster.pass_s(1)
    assert cluster.states() == ["starting"]
