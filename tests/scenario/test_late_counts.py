"""Records dropped as late are counted once each, by source: not once a copy, nor again after a failover."""

from __future__ import annotations

import msgspec

from schemas.assignments import PRIMARY
from schemas.topics import Partition
from services.audit.replaying import replay
from services.controller.conductor import Conductor
from services.controller.core.controller import Controller
from services.controller.polling import Polling
from services.recovery.polling import Polling as RecoveryPolling
from services.view.cluster import ClusterView
from services.view.losses import losses
from tests.scenario.test_idle_sources import JOB, visits
from tests.support.memory_cluster import GENERATION, MemoryCluster

BESIDE = msgspec.structs.replace(PRIMARY, send=False, commit=False)


def dropped(cluster: MemoryCluster) -> dict[str, int]:
    """What `status` and `results` say."""
    view = ClusterView(cluster.cluster)
    for message in cluster.log.scan(Partition(cluster.topics.progress, 0)):
        view.read_progress(GENERATION, message.value())
    return view.late_dropped(cluster.plan)


def told(cluster: MemoryCluster, count: int) -> None:
    cluster.until(lambda: dropped(cluster) == {"visits": count})


def late(cluster: MemoryCluster, count: int) -> None:
    cluster.feed("visits", visits(0, [1] * count))
    cluster.turn(20)


def test_they_are_counted_once_by_whatever_copy_reports_them() -> None:
    cluster = MemoryCluster(JOB)
    first, second = cluster.start("w1"), cluster.start("w2")
    cluster.place({unit: [first, (second, BESIDE)] for unit in cluster.units})
    for partition in (0, 1):
        cluster.feed("visits", visits(0, range(300)), partition)
    cluster.turn(50)
    late(cluster, 7)
    told(cluster, 7)
    cluster.kill("w1")
    cluster.place({unit: [second] for unit in cluster.units})
    cluster.turn(100)
    late(cluster, 5)
    told(cluster, 12)
    third = cluster.start("w3")
    cluster.kill("w2")
    cluster.place({unit: [third] for unit in cluster.units})
    cluster.turn(500)
    late(cluster, 1)
    told(cluster, 13)
    cluster.run_to_end()
    told(cluster, 13)
    report = replay(cluster.log, cluster.cluster, cluster.plan.job)
    assert report.exact
    assert report.late_dropped == {"visits": 13}
    assert losses(report.late_dropped, report.records_lost) == "13 records dropped as late (visits 13), 0 lost"


def test_they_are_known_after_the_job_has_ended_and_its_topics_are_gone() -> None:
    cluster = MemoryCluster(JOB)
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    for partition in (0, 1):
        cluster.feed("visits", visits(0, range(300)), partition)
    cluster.turn(50)
    late(cluster, 7)
    told(cluster, 7)
    cancel_and_drain(cluster)
    assert cluster.topics.progress not in cluster.log.topics()
    view = ClusterView(cluster.cluster)
    for topic in (cluster.cluster.plans, cluster.cluster.status):
        for message in cluster.log.scan(Partition(topic, 0)):
            view.read(topic, message.value())
    job = view.find(cluster.plan.job)
    assert job is not None
    status = view.status(job, 0)
    assert (status.state, status.records, status.late_dropped) == ("ended", 607, {"visits": 7})
    assert view.late_dropped(cluster.plan) == {"visits": 7}


def cancel_and_drain(cluster: MemoryCluster) -> None:
    """What `holdfast cancel --drain` asks for, done by a controller and recovery; returns when the job has ended."""
    clock = lambda: cluster.day_ms + cluster.now_ms  # noqa: E731
    core = Controller("controller")
    polling = Polling(Conductor(cluster.log, cluster.cluster, core, clock, versions={}), cluster.log, clock)
    submit, appender = Partition(cluster.cluster.submit, 0), cluster.log.appender("user")
    for record in ({"name": ""}, {"command": "drain", "job": cluster.plan.job}):
        appender.append(submit, msgspec.json.encode(record))

    recovery = RecoveryPolling("recovery", cluster.log, cluster.cluster, 100, lambda: cluster.now_ms * 1000)

    def ended() -> bool:
        polling.turn()
        recovery.turn()
        job = core.jobs.get(GENERATION)
        return job is not None and job.settled

    cluster.until(ended)


def test_those_that_go_to_the_dead_letter_topic_are_not_dropped() -> None:
    cluster = MemoryCluster(JOB.replace("idle_after_s: 1", "idle_after_s: 1\n    late: topic"))
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    for partition in (0, 1):
        cluster.feed("visits", visits(0, range(300)), partition)
    cluster.turn(50)
    late(cluster, 3)
    cluster.run_to_end()
    assert dropped(cluster) == {}
    assert [letter.reason for letter in cluster.dead_letters()] == ["late"] * 3
    report = replay(cluster.log, cluster.cluster, cluster.plan.job)
    assert losses(report.late_dropped, report.records_lost) == "0 records dropped as late, 0 lost"


def test_what_several_sources_bring_is_named_after_all_of_them() -> None:
    others = "  others: {topic: others, fields: {n: int, at: timestamp}, event_time: at, unit: ms}\noperators:"
    union = JOB.replace("operators:", others)
    union = union.replace("input: visits, window", "input: all, window").replace(
        "queries:", "  all: {union: [visits, others]}\nqueries:"
    )
    cluster = MemoryCluster(union)
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    for partition in (0, 1):
        cluster.feed("visits", visits(0, range(300)), partition)
    cluster.feed("others", visits(0, range(300)))
    cluster.turn(50)
    late(cluster, 3)
    told_of = lambda: dropped(cluster) == {"others+visits": 3}  # noqa: E731
    cluster.until(told_of)
