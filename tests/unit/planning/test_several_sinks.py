"""A sink whose topic a row chooses: its queries, its mistakes, and rows that name no topic of the list."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.schemas.topics import Partition
from holdfast.services.audit.replay import replay
from holdfast.services.client.planned_job import missing_topics, plan
from holdfast.services.client.registration import with_schemas
from holdfast.services.client.trials import attempt
from holdfast.services.kernel.errors import CommandFailed, JobRejected
from holdfast.services.log.kafka.registry import Registry
from holdfast.services.log.patience import Patience
from holdfast.services.planning.loader import interpret
from holdfast.services.planning.several_sinks import names, whole
from holdfast.services.planning.user_topics import named
from holdfast.services.view.rows import sink_of, sinks_of
from tests.support.memory_cluster import MemoryCluster


def job(**sink: Any) -> dict[str, Any]:
    given = {"topics": ["orders.EU", "orders.us"], "topic_by": "'orders.' || region", **sink}
    return {
        "name": "orders",
        "sources": {"orders": {"topic": "orders", "fields": {"id": "int", "region": "string?"}}},
        "queries": {"placed": {"input": "orders", "sink": given}, "all": {"input": "orders", "sink": {"topic": "all"}}},
    }


def problems(raw: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(JobRejected) as rejected:
        plan(interpret(raw), None, "holdfast", [])
    return {one.path: one.message for one in rejected.value.problems}


def test_each_topic_is_a_query_in_the_unit_of_all() -> None:
    made = plan(interpret(job()), None, "holdfast", [])
    sinks = {one.params["query"]: one.params["topic"] for one in made.operators if one.kind == "sink"}
    assert sinks == {"placed-orders-eu": "orders.EU", "placed-orders-us": "orders.us", "all": "all"}
    assert len(made.units) == 1, "one transaction holds the rows of all topics"
    assert {one.name for one in missing_topics(interpret(job()), {}, "holdfast", [], None)} == {
        "orders", "orders.EU", "orders.us", "all"
    }  # fmt: skip
    assert named(interpret(job())) == {"orders", "orders.EU", "orders.us", "all"}
    assert [one.params["topic"] for one in sinks_of(made, "placed")] == ["orders.EU", "orders.us"]
    assert sink_of(made, "placed-orders-us").params["topic"] == "orders.us"
    with pytest.raises(CommandFailed, match="has several topics"):
        sink_of(made, "placed")
    with pytest.raises(CommandFailed, match="no query 'plac'"):
        sinks_of(made, "plac")


def test_a_job_without_such_a_sink_stays_as_it_is() -> None:
    raw = job()
    del raw["queries"]["placed"]
    assert whole(interpret(raw)).spec == interpret(raw)


def test_topics_whose_names_are_alike_have_numbers() -> None:
    assert names("q", ["a.b", "a-b", "..."]) == {"a.b": "q-a-b", "a-b": "q-topic2", "...": "q-topic3"}


def test_mistakes_are_shown_where_the_user_wrote_them() -> None:
    assert problems(job(topic_by="nope")).keys() == {"queries.placed.sink.topic_by"}
    assert "text" in problems(job(topic_by="id"))["queries.placed.sink.topic_by"]
    assert problems(job(topics=["a", "a"])) == {"queries.placed.sink.topics[1]": "'a' is named twice"}
    assert "queries.placed.sink.topics[0]" in problems(job(topics=["orders", "b"]))
    assert "queries.placed.sink.key" in problems(job(key="nope"))
    for sink, path in (
        ({"topic": "x"}, "queries.placed.sink.topics"),
        ({"topic_by": None}, "queries.placed.sink.topic_by"),
        ({"topics": None}, "queries.placed.sink.topic"),
        ({"topics": None, "topic": "x"}, "queries.placed.sink.topic_by"),
    ):
        with pytest.raises(JobRejected) as rejected:
            interpret(job(**sink))
        assert [one.path for one in rejected.value.problems] == [path]


ROWS = [{"id": n, "region": region} for n, region in enumerate(["EU", "us", "cn", None, "EU", "us"])]


def test_rows_go_to_their_topics_exactly_once_through_a_kill_and_others_are_dead_letters() -> None:
    cluster = MemoryCluster(json.dumps(job()))
    cluster.place({unit: [cluster.start("w1")] for unit in cluster.units})
    cluster.feed("orders", ROWS)
    cluster.turn(60)
    cluster.kill("w1")
    cluster.place({unit: [cluster.start("w2")] for unit in cluster.units})
    cluster.feed("orders", ROWS)
    cluster.run_to_end()
    assert [row["id"] for row in cluster.rows("placed-orders-eu")] == [0, 4, 0, 4]
    assert [row["id"] for row in cluster.rows("placed-orders-us")] == [1, 5, 1, 5]
    assert len(cluster.rows("all")) == 12
    report = replay(cluster.log, cluster.cluster, "orders")
    assert (report.exact, report.rows.results, report.dead_letters.results) == (True, 20, 4)
    letters = cluster.log.scan(Partition(cluster.topics.dead_letters, 0))
    reasons = {json.loads(one.value() or b"{}")["reason"] for one in letters}
    assert reasons == {
        "'orders.' || region: 'orders.cn' is none of orders.EU, orders.us",
        "'orders.' || region: null is none of orders.EU, orders.us",
    }


def test_the_schema_is_registered_for_each_topic() -> None:
    registry, raw = Registry("mock://", {}), job(format="avro")
    spec = interpret(raw)
    made = with_schemas(
        raw, spec, lambda: plan(spec, None, "holdfast", []), lambda: registry, lambda: Patience(0.0, lambda text: None)
    )
    found = [registry.newest(f"{topic}-value") for topic in ("orders.EU", "orders.us")]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0].id == made["queries"]["placed"]["sink"]["schema_id"]
    assert found[0].schema.text == found[1].schema.text


def test_problems_of_a_run_in_memory_are_at_the_sink_as_it_is_written() -> None:
    raw = job(topics=["orders.EU", "orders.us", "orders.us"], topic_by="'orders.' || regio")
    with pytest.raises(JobRejected) as rejected:
        attempt(interpret(raw), {"orders": []})
    assert [one.path for one in rejected.value.problems] == [
        "queries.placed.sink.topics[2]", "queries.placed.sink.topic_by"
    ]  # fmt: skip
    with pytest.raises(JobRejected, match=r"topics\[2\]: 'orders.us' is named twice"):
        attempt(interpret(job(topics=["orders.EU", "orders.us", "orders.us"])), {"orders": []})
