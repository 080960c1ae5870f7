"""Jobs that read what others deliver are drawn below them, rings and jobs without company as well."""

from __future__ import annotations

from holdfast.schemas import plans
from holdfast.schemas.decided import Id
from holdfast.schemas.plans import OperatorPlan, Plan, Rejection, SourcePlan
from holdfast.schemas.topics import ClusterTopics
from holdfast.services.view.cluster import ClusterView
from holdfast.services.view.pipelines import PipelineLine, pipelines, tree

TOPICS = ClusterTopics("t")


def plan(number: int, job: str, reads: str, writes: str) -> Plan:
    sinks = [
        OperatorPlan(f"sink-{one}", "sink", 1, (), {"query": one, "topic": one, "partitions": 1}, {})
        for one in writes.split()
    ]
    sources = [OperatorPlan(one, "source", 1, (), {}, {}) for one in reads.split()]
    return Plan(
        job=job,
        generation=f"{number}-aaaaaa",
        id=Id("controller", number),
        spec={},
        operators=(*sources, *sinks),
        edges=(),
        units=(),
        sources=tuple(SourcePlan(topic, topic, ((0,),), {0: 0}) for topic in reads.split()),
        sink_partitions={one: 1 for one in writes.split()},
        interval_ms=10,
        versions={},
    )


def lines(*decided: plans.Decision) -> list[PipelineLine]:
    view = ClusterView(TOPICS)
    for one in decided:
        view.read(TOPICS.plans, plans.encode(one))
    return pipelines(view, view.jobs())


def test_a_job_stands_below_the_topics_it_reads_and_what_it_feeds_is_drawn_once() -> None:
    jobs = lines(
        plan(1, "delays", "flights weather", "late early"),
        plan(2, "alarms", "late users", "alarms"),
        plan(3, "archive", "late", ""),
        Rejection("wrong", "4-aaaaaa", Id("controller", 4), ()),
    )
    assert list(tree(jobs)) == [
        "flights",
        "└─ job delays: accepted",
        "   ├─ late",
        "   │  ├─ job alarms: accepted",
        "   │  │  └─ alarms",
        "   │  └─ job archive: accepted",
        "   └─ early",
        "weather",
        "└─ job delays: accepted, see above",
        "users",
        "└─ job alarms: accepted, see above",
    ]
    assert jobs[0].reads == {"flights": (), "weather": ()}
    assert jobs[0].writes == {"late": ("alarms", "archive"), "early": ()}
    assert jobs[1].reads == {"late": ("delays",), "users": ()}


def test_jobs_that_feed_each_other_are_drawn_and_end() -> None:
    ring = lines(plan(1, "a", "x", "y"), plan(2, "b", "y", "x"), plan(3, "c", "z", "z"))
    assert list(tree(ring)) == [
        "x",
        "└─ job a: accepted",
        "   └─ y",
        "      └─ job b: accepted",
        "         └─ x",
        "            └─ job a: accepted, see above",
        "z",
        "└─ job c: accepted",
        "   └─ z",
        "      └─ job c: accepted, see above",
    ]


def test_latencies_add_up_along_the_slowest_way_and_a_ring_has_no_beginning() -> None:
    view = ClusterView(TOPICS)
    each = ((1, "a", "raw", "x"), (2, "b", "raw", "y"), (3, "c", "x y", "z"), (4, "d", "z r", "r"))
    for (number, job, reads, writes), latency in zip(each, (20.0, 35.5, 10.0, 5.0), strict=True):
        view.read(TOPICS.plans, plans.encode(plan(number, job, reads, writes)))
        known = (plans.QueryState(writes, True, latency_ms=latency),)
        status = plans.Status(job, f"{number}-aaaaaa", "running", 1, queries=known)
        view.read(TOPICS.status, plans.encode(status))
    found = pipelines(view, view.jobs())
    assert [line.end_to_end_ms for line in found] == [{"x": 20.0}, {"y": 35.5}, {"z": 45.5}, {"r": None}]
    assert [*tree(found)][:5] == [
        "raw",
        "├─ job a: running",
        "│  └─ x, 20 ms",
        "│     └─ job c: running",
        "│        └─ z, 10 ms; 45.5 ms end to end",
    ]
