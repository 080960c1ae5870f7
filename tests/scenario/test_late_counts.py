"""Records dropped as late are counted once each, by source: not once a copy, nor again after a failover."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from holdfast.schemas.assignments import PRIMARY
from holdfast.schemas.topics import Partition
from holdfast.services.audit.replay import replay
from holdfast.services.controller.conductor import Conductor
from holdfast.services.controller.core.controller import Controller
from holdfast.services.controller.effects import Means
from holdfast.services.controller.polled_conductor import PolledConductor
from holdfast.services.recovery.polled_replica import PolledReplica
from holdfast.services.view.cluster import ClusterView
from holdfast.services.view.losses import dropped_as_late, losses, once_each
from tests.scenario.test_idle_sources import JOB, START_MS, visits
from tests.support.memory_cluster import GENERATION, MemoryCluster

BESIDE = msgspec.structs.replace(PRIMARY, send=False, commit=False)


def dropped(cluster: MemoryCluster) -> dict[str, int]:
    """What `status` and `results` say."""
    return shown(cluster).late_dropped(cluster.plan)


def shown(cluster: MemoryCluster) -> ClusterView:
    view = ClusterView(cluster.cluster)
    for message in cluster.log.scan(Partition(cluster.topics.progress, 0)):
        view.read_progress(GENERATION, message.value())
    return view


def told(cluster: MemoryCluster, count: int) -> None:
    cluster.until(lambda: dropped(cluster) == {"visits": count})


def late(cluster: MemoryCluster, count: int) -> None:
    cluster.feed("visits", visits(0, [1] * count))
    cluster.turn(20)


def with_more(operators: Mapping[str, str], queried: Sequence[str]) -> str:
    """JOB with more operators, and a query for some of them."""
    lines = "".join(f"  {name}: {text}\n" for name, text in operators.items())
    queries = "".join(f"  {name}: {{input: {name}, sink: {{topic: {name}}}}}\n" for name in queried)
    minutes = "queries: {minutes: {input: minutes, sink: {topic: minutes}}}\n"
    assert minutes in JOB
    return JOB.replace(minutes, f"{lines}queries:\n  minutes: {{input: minutes, sink: {{topic: minutes}}}}\n{queries}")


def test_late_rows_are_counted_once_whatever_copy_reports_them() -> None:
    cluster = MemoryCluster(JOB)
    first, second = cluster.start("w1"), cluster.start("w2")
    cluster.place({unit: [first, (second, BESIDE)] for unit in cluster.units})
    for partition in (0, 1):
        cluster.feed("visits", visits(0, range(300)), partition)
    cluster.turn(50)
    assert shown(cluster).leap(cluster.plan) is None
    cluster.feed("visits", visits(0, [5_000]))
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
    leap = shown(cluster).leap(cluster.plan)
    assert leap is not None
    assert (leap.topic, leap.partition, leap.offset, leap.by_us // 1_000_000) == ("visits", 0, 300, 5_000 - 299)
    report = replay(cluster.log, cluster.cluster, cluster.plan.job)
    assert report.exact
    assert report.late_dropped == {"visits": 13}
    assert losses(report.late_dropped, report.records_lost) == "13 records dropped as late (visits 13), 0 lost"


def test_late_counts_are_known_after_the_job_has_ended_and_its_topics_are_gone() -> None:
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
    polling = PolledConductor(Conductor(cluster.log, cluster.cluster, core, clock, Means({})), cluster.log, clock)
    submit, appender = Partition(cluster.cluster.submit, 0), cluster.log.appender("user")
    for record in ({"name": ""}, {"command": "drain", "job": cluster.plan.job}):
        appender.append(submit, msgspec.json.encode(record))

    recovery = PolledReplica("recovery", cluster.log, cluster.cluster, 100, lambda: cluster.now_ms * 1000)

    def ended() -> bool:
        polling.turn()
        recovery.turn()
        job = core.jobs.get(GENERATION)
        return job is not None and job.settled

    cluster.until(ended)


def test_late_records_of_the_dead_letter_topic_do_not_count_as_dropped() -> None:
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


def test_late_records_of_a_union_are_counted_under_the_names_of_all_its_sources() -> None:
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
    reported = lambda: once_each(dropped(cluster)) == ({"others+visits": 3}, True)  # noqa: E731
    cluster.until(reported)


def test_a_record_that_two_operators_drop_counts_once() -> None:
    """Either window drops records that the other one keeps: their bounds differ."""
    more = {
        "sevens": "{aggregate: {seen: 'count()'}, key: [n], input: same, window: {size_s: 7}, parallelism: 2}",
        "same": "{select: [n, at], input: visits}",
        "slow": "{filter: 'n > 0', input: visits}",
        "alike": "{dedup: {within_s: 90}, key: [n, at], input: visits}",
        "of_slow": "{aggregate: {n: 'count()'}, input: slow, window: {size_s: 100}}",
        "pairs": "{join: {left: visits, right: shown, 'on': [n], within_s: 20}}",
        "shown": "{select: ['n', 'n AS m'], input: slow}",
    }
    cluster = MemoryCluster(with_more(more, ("sevens", "alike", "of_slow", "pairs")))
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    for partition in (0, 1):
        cluster.feed("visits", visits(0, range(300)), partition)
    cluster.turn(50)
    again = range(180, 300)
    cluster.feed("visits", visits(0, again))
    cluster.run_to_end()
    now = START_MS // 1000 + 299
    gone = [second for second in again if START_MS // 1000 + second < (now - 7) // 7 * 7 + 7]
    assert 0 < len(gone) < len(again)
    assert once_each(dropped(cluster)) == ({"visits": len(gone)}, True)
    report = replay(cluster.log, cluster.cluster, cluster.plan.job)
    assert report.exact
    assert report.late_dropped == dropped(cluster)


def test_the_larger_count_is_sure_for_streams_that_may_share_records() -> None:
    more = {
        "odd": "{filter: 'n % 2 = 1', input: visits}",
        "even": "{filter: 'n % 2 = 0', input: visits}",
        "of_odd": "{aggregate: {n: 'count()'}, input: odd, window: {size_s: 10}}",
        "of_even": "{aggregate: {n: 'count()'}, input: even, window: {size_s: 10}}",
    }
    job = with_more(more, ("of_odd", "of_even"))
    cluster = MemoryCluster(job)
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    for partition in (0, 1):
        cluster.feed("visits", visits(0, range(300)), partition)
    cluster.turn(50)
    at = START_MS // 1000
    open_s = (at + 299) // 60 * 60 - at
    cluster.feed("visits", [{"n": n, "at": (at + open_s + 1) * 1_000} for n in (1, 1, 1, 2, 2)])
    cluster.run_to_end()
    assert dropped(cluster) == {"visits>odd": 3, "visits>even": 2}
    assert dropped_as_late(dropped(cluster)) == "at least 3 records dropped as late (visits 3)"
