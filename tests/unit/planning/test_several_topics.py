"""Sources over several topics: a source for each topic, and their union under the source's name."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.schemas.plans import Plan
from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.client.in_memory_cluster import InMemoryCluster
from holdfast.services.client.local_run import complete, of_files
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.planning import several_topics
from holdfast.services.planning.loader import interpret
from tests.unit.planning.jobs import job, plan

PRESENT = {"a.1": 2, "a.2": 1, "b": 1, "out": 1, "holdfast.x": 1}


def raw(topics: list[str], **more: Any) -> dict[str, Any]:
    fields = {"x": "int", "y": "int", "of": {"type": "string", "metadata": "topic"}}
    return job({"big": {"filter": "x > 0", "input": "s"}}, {"s": {"topics": topics, "fields": fields, **more}})


def topics_of(made: Plan) -> dict[str, str]:
    return {one.operator: one.topic for one in made.sources}


def refused(given: dict[str, Any], topics: dict[str, int] | None = None) -> dict[str, str]:
    with pytest.raises(JobRejected) as caught:
        plan(given, topics)
    return {one.path: one.message for one in caught.value.problems}


def test_each_topic_is_a_source_and_all_are_in_one_unit() -> None:
    made = plan(raw(["b", "a.*"]), PRESENT)
    assert topics_of(made) == {"s-topic1": "b", "s-topic2": "a.1", "s-topic3": "a.2"}
    (unit,) = made.units
    assert unit.operators[-3:] == ("s", "big", "sink-q")
    assert made.spec["sources"]["s-topic2"]["topic"] == "a.1"
    assert several_topics.whole(interpret(made.spec), PRESENT, "holdfast").spec == interpret(made.spec)
    named = {"fault_tolerance": {"units": {"s": {"scheme": "passive"}}}, "placement": {"units": [["s", "big"]]}}
    placed = plan({**raw(["b", "a.*"]), **named}, PRESENT)
    assert {one.scheme for one in placed.units if "s" in one.operators} == {"passive"}
    assert {"s-topic1", "s-topic2", "s-topic3", "s", "big"} <= set(placed.units[0].operators)


def test_a_pattern_matches_neither_topics_of_the_job_nor_of_the_cluster() -> None:
    assert set(topics_of(plan(raw(["*"]), PRESENT)).values()) == {"a.1", "a.2", "b"}


def test_a_list_of_a_single_topic_is_a_source_as_any_other() -> None:
    assert topics_of(plan(raw(["a.*", "a.2"]), {"a.2": 1, "out": 1})) == {"s": "a.2"}
    assert next(one.name for one in plan(raw(["a.*"])).operators) == "s"  # nobody knows the topics


@pytest.mark.parametrize(
    ("given", "path", "words"),
    [
        (raw(["c.*"]), "sources.s.topics", "no topic matches c.*"),
        (raw(["b", "c"]), "sources.s.topics[1]", "there is no topic 'c'"),
        (raw(["b", "a.*"], event_time="z"), "sources.s.event_time", "there is no field 'z'"),
        (raw(["a.*"], table=["x"]), "sources.s.topics", "a table is one topic"),
        (raw(["b", "a.*"], parallelism=2), "sources.s.parallelism", "2 tasks, but topic a.2 has 1 partition"),
    ],
)
def test_a_mistake_is_shown_where_the_user_wrote_it(given: dict[str, Any], path: str, words: str) -> None:
    found = refused(given, PRESENT)
    assert words in found.get(path, ""), found
    assert not any("-topic" in one for one in found)


def test_names_that_are_taken_and_both_kinds_of_topics_are_refused() -> None:
    taken = raw(["b", "a.1"])
    taken["sources"]["s-topic2"] = {"topic": "a.2", "fields": {"x": "int"}}
    assert "s-topic2 is taken" in refused(taken, PRESENT)["sources.s"]
    with pytest.raises(JobRejected, match="a topic, too"):
        interpret(raw(["b"], topic="b"))
    with pytest.raises(JobRejected, match="is not a valid topic name"):
        interpret(raw(["b/c"]))


def test_the_rows_of_all_topics_come_with_the_name_of_theirs() -> None:
    given = raw(["a.*", "b"])
    given["queries"] = {"q": {"input": "big", "sink": {"topic": "out", "key": "of"}}}
    cluster = InMemoryCluster(interpret(given), [])
    cluster.log.create([TopicSpec(topic, count) for topic, count in PRESENT.items()])
    appender = cluster.log.appender("test")
    for topic, x in (("a.1", 1), ("b", 2), ("a.2", 3), ("a.1", 0)):
        appender.append(Partition(topic, 0), f'{{"x":{x},"y":0}}'.encode())
    cluster.submit()
    made = cluster.until(cluster.plan)
    cluster.until(lambda: cluster.all_are(made, "running") or None)
    cluster.drain(made)
    cluster.until(lambda: cluster.all_are(made, "ended") or None)
    assert {m.key() for m in cluster.log.scan(Partition("out", 0))} == {b"a.1", b"b", b"a.2"}


def test_a_file_stands_for_all_topics() -> None:
    assert of_files(complete(interpret(raw(["a.*", "b"])))).sources["s"].topic == "source.s"
