"""What a Spark operator becomes in a plan: a driver's unit, a task that brings its output back, and a way in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.schemas.decided import Id
from holdfast.schemas.plans import MICRO_BATCH, REAL_TIME, Plan, decode, encode
from holdfast.services.kernel.operators.catalogue import Stream
from holdfast.services.kernel.plans.layout import commit_logs, data_topics, unit_layouts
from holdfast.services.planning.loader import interpret
from holdfast.services.planning.plan import make_plan
from holdfast.services.planning.spark_settings import ALLOWED
from tests.unit.planning.jobs import GENERATION, TOPICS, job, plan, problems, query, routes, source, units
from tests.unit.planning.jobs import describe as believe

SHUFFLE, ARROW = "spark.sql.shuffle.partitions", "spark.sql.execution.pythonUDF.arrow.enabled"


def describe(kind: str, params: Mapping[str, Any], inputs: Sequence[Stream]) -> Stream:
    """As Spark's analysis would: another set of columns."""
    if kind == "spark":
        return Stream({"x": "int", "score": "float?"}, hosted={"time": "", "holds": True, "closes": False})
    return believe(kind, params, inputs)


def planned(raw: Mapping[str, Any], **topics: int) -> Plan:
    return plan(raw, topics or {"in": 3, "out": 1})


def heavy(given: str = "s", **more: Any) -> dict[str, Any]:
    return {"spark": "mine:f", "input": given, **more}


def test_tasks_of_a_spark_operator_are_warned_of() -> None:
    made = planned(job({"h": heavy(parallelism=4)}))
    assert [line for line in made.warnings if "parallelism" in line] == [
        "operators.h.parallelism: has no effect: one task brings back what Spark computes; its own tasks: "
        "HOLDFAST_SPARK_SHUFFLE_PARTITIONS"
    ]
    assert not [line for line in planned(job({"h": heavy(parallelism=1)})).warnings if "parallelism" in line]


def test_directly_behind_a_json_source_spark_reads_the_users_topic_and_no_worker_does() -> None:
    made = planned(job({"h": heavy(params={"a": 1})}))
    assert units(made) == ["h-0: h sink-q", "spark-h-0: spark-h"]
    assert [unit.host for unit in made.units] == ["", "spark"]
    (spark,) = made.spark
    assert (spark.topic, spark.first, spark.writers) == ("in", {0: 0, 1: 0, 2: 0}, ())
    assert (spark.entry, spark.params, spark.unit) == ("mine:f", {"a": 1}, "spark-h-0")
    assert [one.operator for one in made.sources] == ["h"]
    assert commit_logs(made) == {TOPICS.commits("h"): "h"}


def test_elsewhere_a_sink_task_writes_the_rows_that_spark_reads() -> None:
    raw = job({"f": {"filter": "x > 1", "input": "s"}, "h": heavy("f")}, {"s": source(parallelism=3)})
    made = planned(raw)
    assert units(made) == [*(f"s-{i}: s f input-h" for i in range(3)), "h-0: h sink-q", "spark-h-0: spark-h"]
    (spark,) = made.spark
    assert spark.topic == TOPICS.rows("h")
    assert spark.first == {0: 0, 1: 0, 2: 0}
    assert spark.writers == ("s-0", "s-1", "s-2")
    assert data_topics(made) == {TOPICS.rows("h"): 3, TOPICS.commits("h"): 1}
    assert all(unit.delivers for unit in made.units if "input-h" in unit.operators)


def test_several_inputs_each_have_a_name_a_topic_and_a_way_in() -> None:
    raw = job(
        {
            "f": {"filter": "x > 1", "input": "s"},
            "h": {"spark": "mine:f", "input": {"all": "s", "some": "f", "more": "t"}},
        },
        {
            "s": source(fields={"x": "int", "y": "timestamp"}, event_time="y", unit="ms", allowed_lateness_s=5),
            "t": source("other", format="csv", parallelism=1),
        },
    )
    made = planned(raw, **{"in": 2, "other": 1, "out": 1})
    assert units(made) == ["s-0: s f input-h-some", "t-0: t input-h-more", "h-0: h sink-q", "spark-h-0: spark-h"]
    (spark,) = made.spark
    assert [(one.name, one.topic, one.writers) for one in spark.inputs] == [
        ("all", "in", ()), ("some", TOPICS.rows("h-some"), ("s-0",)), ("more", TOPICS.rows("h-more"), ("t-0",)),
    ]  # fmt: skip
    assert [(one.event_time, one.unit_of_time, one.lateness_s) for one in spark.inputs] == [
        ("y", "ms", 5.0), ("y", "", 5.0), ("", "", 0.0),
    ]  # fmt: skip
    assert (set(spark.of_users), set(spark.every_writer)) == ({"in"}, {"s-0", "t-0"})
    assert (spark.mode, spark.reason) == (MICRO_BATCH, "")
    assert data_topics(made).keys() == {TOPICS.rows("h-some"), TOPICS.rows("h-more"), TOPICS.commits("h")}
    assert decode(encode(made)) == made


def test_several_inputs_are_different_and_have_names_of_their_own() -> None:
    raw = job(
        {
            "h": {"spark": "mine:f", "input": {"a": "s", "b": "t", "c": "absent"}, "params": {"a": 1}},
            "h-a": heavy("u"),
        },
        {"s": source(), "t": source(), "u": source("elsewhere")},
        queries={"q": query("h"), "r": query("h-a")},
    )
    found = {one.path: one.message for one in problems(raw)}
    assert found["operators.h.input.b"].startswith("is t, whose records input 'a' brings already")
    assert found["operators.h.params.a"].startswith("is the name of an input, too")
    assert found["operators.h.input.c"].startswith("there is no source or operator 'absent'")
    assert found["operators.h-a"].startswith("needs the name input-h-a, as Spark operator h does")


def test_a_single_name_is_no_set_of_inputs() -> None:
    def paths(given: object) -> list[str]:
        return [one.path for one in problems(job({"h": {"spark": "mine:f", "input": given}}))]

    assert paths({"a": "s"}) == paths(3) == ["operators.h.input"]
    assert paths({"A b": "s", "c": "s"})[0] == "operators.h.input.A b"


def test_a_source_that_others_read_too_is_read_by_spark_and_by_workers() -> None:
    raw = job(
        {"h": heavy(), "c": {"aggregate": {"n": "count()"}, "key": ["x"], "input": "s"}},
        queries={"q": query("h"), "r": query("c", "other")},
    )
    made = planned(raw, **{"in": 2, "out": 1, "other": 1})
    assert [one.topic for one in made.sources] == ["in", TOPICS.commits("h")]
    assert made.spark[0].topic == "in"


def test_rows_that_come_back_are_routed_like_any_stream() -> None:
    raw = job({"h": heavy(), "c": {"aggregate": {"n": "count()"}, "key": ["x"], "input": "h", "parallelism": 2}})
    made = planned(raw)
    assert routes(made) == {"h c": "keyed", "c sink-q": "forward"}
    layouts = unit_layouts(made, TOPICS)
    assert list(layouts) == ["h-0", "c-0", "c-1"]
    share = layouts["h-0"].tasks[0].source
    assert share is not None
    assert (share.topic, share.partitions) == (TOPICS.commits("h"), (0,))


def test_a_source_of_another_format_is_read_by_workers() -> None:
    made = planned(job({"h": heavy()}, {"s": source(format="csv")}))
    assert made.spark[0].topic == TOPICS.rows("h")


def test_the_plan_holds_sparks_analysis_and_a_warning_of_rows_that_a_drain_leaves() -> None:
    made = make_plan(
        interpret(job({"h": heavy(emit="final")})),
        generation=GENERATION,
        id=planned(job({"h": heavy()})).id,
        topics={"in": 1, "out": 1},
        first={"in": {0: 7}},
        prefix="holdfast",
        versions={},
        allow=("mine",),
        describe=describe,
    )
    (spark,) = made.spark
    assert spark.output == {"x": "int", "score": "float?"}
    assert (spark.holds, spark.closes, spark.first) == (True, False, {0: 7})
    assert any("no watermark on event time" in text for text in made.warnings)


def test_a_driver_changes_places_instead_of_rolling_back() -> None:
    for scheme in ("hybrid", "adaptive"):
        made = planned(job({"h": heavy()}, fault_tolerance={"default": {"scheme": scheme}}))
        assert {unit.name: unit.scheme for unit in made.units} == {"h-0": scheme, "spark-h-0": "passive-hot"}
    assert any("its driver runs as passive-hot" in text for text in made.warnings)


def test_a_job_that_names_no_scheme_is_hybrid_and_is_warned_of_nothing() -> None:
    made = planned(job({"h": heavy()}))
    assert {unit.name: unit.scheme for unit in made.units} == {"h-0": "hybrid", "spark-h-0": "passive-hot"}
    assert not [warning for warning in made.warnings if "passive-hot" in warning]


def test_the_scheme_of_an_operator_is_its_drivers_too() -> None:
    raw = job({"h": heavy()}, fault_tolerance={"units": {"h": {"scheme": "deployed"}}})
    assert {unit.name: unit.scheme for unit in planned(raw).units} == {"h-0": "deployed", "spark-h-0": "deployed"}


def test_a_cycle_through_spark_is_still_a_cycle() -> None:
    raw = job({"a": {"union": ["s", "h"]}, "h": heavy("a")})
    assert [one.path for one in problems(raw)] == ["operators.a.union[1]"]


def test_sql_is_checked_for_no_module() -> None:
    assert problems(job({"h": {"spark": {"sql": "SELECT * FROM input"}, "input": "s"}})) == []


def live(kind: str, params: Mapping[str, Any], inputs: Sequence[Stream]) -> Stream:
    """As of a query that Spark could run in real-time mode."""
    return (
        Stream({"x": "int"}, hosted={"mode": REAL_TIME, "reason": "why"})
        if kind == "spark"
        else believe(kind, params, inputs)
    )


def modes(operators: Mapping[str, Any], partitions: int = 3) -> tuple[Plan, str, str]:
    topics = {"in": partitions, "out": 1}
    made = make_plan(
        interpret(dict(job(operators))),
        generation=GENERATION,
        id=Id("controller", 1),
        topics=topics,
        first={topic: dict.fromkeys(range(count), 0) for topic, count in topics.items()},
        prefix="holdfast",
        versions={},
        allow=("mine",),
        describe=live,
    )
    return made, made.spark[0].mode, made.spark[0].reason


def test_in_real_time_mode_every_partition_of_the_source_has_a_lane_of_its_own() -> None:
    made, mode, reason = modes({"h": heavy()})
    assert (mode, reason) == (REAL_TIME, "why")
    assert data_topics(made) == {TOPICS.commits("h"): 4}
    share = unit_layouts(made, TOPICS)["h-0"].tasks[0].source
    assert share is not None
    assert share.partitions == (0, 1, 2, 3)


def test_a_plan_may_stand_against_real_time_mode_and_says_why() -> None:
    behind = {"f": {"filter": "x > 1", "input": "s"}, "h": heavy("f")}
    for operators, partitions, because in (
        ({"h": heavy(mode="micro-batch")}, 3, "the job file says so"),
        (behind, 3, "not stand directly behind a source"),
        ({"h": heavy()}, 17, "more than 16 partitions"),
    ):
        made, mode, reason = modes(operators, partitions)
        assert mode == MICRO_BATCH
        assert because in reason
        assert data_topics(made)[TOPICS.commits("h")] == 1


def test_settings_of_spark_reach_the_driver_and_one_that_is_not_for_jobs_is_refused_by_name() -> None:
    (spark,) = planned(job({"h": heavy(conf={SHUFFLE: 8, ARROW: True})})).spark
    assert spark.conf == {SHUFFLE: "8", ARROW: "true"}
    assert decode(encode(planned(job({"h": heavy()})))).spark[0].conf == {}  # type: ignore[union-attr]
    wrong = {
        SHUFFLE: 0,
        ARROW: "yes",
        "spark.sql.shufle.partitions": 8,
        "spark.driver.memory": "4g",
        "spark.sql.streaming.stateStore.rocksdb.blockCacheSizeMB": 4096,
        "spark.sql.session.timeZone": "Europe/Berlin",
    }
    found = {one.path.removeprefix("operators.h.conf."): one for one in problems(job({"h": heavy(conf=wrong)}))}
    assert found.keys() == wrong.keys()
    assert found[SHUFFLE].message == "is 0, not an integer from 1 to 10000"
    assert found[ARROW].message == "is yes, not true or false"
    assert found["spark.sql.shufle.partitions"].hint == f"did you mean '{SHUFFLE}'?"
    assert found["spark.driver.memory"].hint == "set HOLDFAST_SPARK_MEMORY for the driver"
    cache = found["spark.sql.streaming.stateStore.rocksdb.blockCacheSizeMB"]
    assert cache.message == "is shared by all jobs of a driver"
    assert cache.hint == "set HOLDFAST_SPARK_STATE_MB for the driver"
    assert all(setting in found["spark.sql.session.timeZone"].hint for setting in ALLOWED)
