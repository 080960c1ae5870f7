"""Plans of small jobs: tasks, routing, units, topics, positions and the interval."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.schemas import plans
from holdfast.schemas.plans import Problem
from holdfast.schemas.topics import JobTopics, Partition
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.plans.layout import LocalInput, RemoteInput, data_topics, readers, unit_layouts
from holdfast.services.planning.description import sections, summary
from tests.unit.planning.jobs import TOPICS, job, plan, problems, query, routes, source, units

WINDOW = {"size_s": 60}


def keep(name: str = "s", **more: Any) -> dict[str, Any]:
    return {"filter": "x > 1", "input": name, **more}


def count(name: str = "s", **more: Any) -> dict[str, Any]:
    return {"aggregate": {"n": "count()"}, "key": ["x"], "input": name, **more}


def two(**more: Any) -> dict[str, Any]:
    return {"s": source(parallelism=2, **more)}


def test_edges_between_equal_indexes_become_a_unit_for_each_index() -> None:
    made = plan(job({"a": keep(), "b": keep("a")}, two()), {"in": 3, "out": 1})
    assert units(made) == ["s-0: s a b sink-q", "s-1: s a b sink-q"]
    assert [unit.partition for unit in made.units] == [0, 1]
    assert data_topics(made) == {}
    assert made.sources[0].owners == ((0, 2), (1,))


def test_a_key_sends_equal_rows_to_one_task_and_ends_the_unit() -> None:
    made = plan(job({"a": keep(), "n": count("a", parallelism=3)}, two()))
    assert routes(made) == {"s a": "forward", "a n": "keyed", "n sink-q": "forward"}
    assert units(made) == [
        "s-0: s a", "s-1: s a", "n-0: n sink-q", "n-1: n sink-q", "n-2: n sink-q",
    ]  # fmt: skip
    assert data_topics(made) == {TOPICS.data("a", 0): 3}


def test_an_edge_between_single_tasks_needs_no_hash() -> None:
    made = plan(job({"n": count()}))
    assert units(made) == ["s-0: s n sink-q"]
    assert made.edges[0].key == ()


@pytest.mark.parametrize(
    ("operators", "expected"),
    [
        ({"o": keep(parallelism=1)}, {"s o": "merge", "o sink-q": "forward"}),
        ({"o": keep(parallelism=4)}, {"s o": "spread", "o sink-q": "forward"}),
        ({"o": {"aggregate": {"n": "count()"}, "input": "s"}}, {"s o": "merge", "o sink-q": "forward"}),
        ({"o": {"top": {"k": 1, "by": "x"}, "input": "s"}}, {"s o": "merge", "o sink-q": "forward"}),
        ({"o": {"python": "mine:F", "input": "s"}}, {"s o": "forward", "o sink-q": "forward"}),
        ({"o": {"python": "mine:F", "input": "s", "key": ["x"]}}, {"s o": "keyed", "o sink-q": "forward"}),
        ({"n": count(), "o": keep("n", parallelism=3)}, {"s n": "keyed", "n o": "keyed", "o sink-q": "forward"}),
    ],
)
def test_rows_travel_as_the_reader_needs_them(operators: dict[str, Any], expected: dict[str, str]) -> None:
    assert routes(plan(job(operators, two()))) == expected


def test_windows_are_ranked_in_parallel_by_window() -> None:
    top = {"top": {"k": 1, "by": "n"}, "input": "n", "parallelism": 2}
    made = plan(job({"n": count(window=WINDOW), "t": top}, two()))
    assert made.edges[1].routing == "keyed"
    assert made.edges[1].key == ("window_start", "window_end")
    ranking = next(operator for operator in made.operators if operator.name == "t")
    assert ranking.params["input_row_key"] == ["x", "window_start", "window_end"]


def test_a_join_meets_its_rows_by_key_on_both_sides() -> None:
    join = {"join": {"left": "s", "right": "t", "on": ["x = y"], "within_s": 5}}
    made = plan(job({"j": join}, two() | {"t": source("other")}))
    assert [(edge.slot, edge.routing, edge.key) for edge in made.edges[:2]] == [
        (0, "keyed", ("x",)),
        (1, "keyed", ("y",)),
    ]
    task = unit_layouts(made, TOPICS)["j-1"].tasks[0]
    assert task.inputs == (
        RemoteInput(Partition(TOPICS.data("s", 0), 1), (0, 1)),
        RemoteInput(Partition(TOPICS.data("t", 0), 1), (0,)),
    )


def test_consumers_that_read_the_same_way_share_a_topic() -> None:
    operators = {"n": count(), "m": count(), "k": count(parallelism=3), "u": {"union": ["n", "m"]}}
    made = plan(job(operators, two(), {"q": query("u"), "r": query("k", "other")}))
    assert data_topics(made) == {TOPICS.data("s", 0): 2, TOPICS.data("s", 1): 3}
    assert readers(made, TOPICS)[Partition(TOPICS.data("s", 0), 1)] == ("n-1",)
    assert units(made)[2] == "n-0: n m u sink-q"


def test_a_producer_may_feed_two_slots_of_one_reader() -> None:
    join = {"join": {"left": "s", "right": "s", "on": ["x"], "within_s": 5}, "parallelism": 2}
    made = plan(job({"j": join}))
    task = unit_layouts(made, TOPICS)["j-0"].tasks[0]
    assert task.inputs[0] == task.inputs[1] == RemoteInput(Partition(TOPICS.data("s", 0), 0), (0,))
    source_task = unit_layouts(made, TOPICS)["s-0"].tasks[0]
    assert [output.targets for output in source_task.outputs] == [(0, 1)]


def test_an_operator_that_would_make_units_wait_for_each_other_stays_apart() -> None:
    # s feeds u directly and through n; were s and u one unit, n would wait for it and it for n.
    made = plan(job({"n": count(parallelism=2), "u": {"union": ["s", "n"]}, "v": keep("u", parallelism=1)}))
    assert units(plan(job({"n": count(parallelism=2), "m": keep("n", parallelism=1), "u": {"union": ["s", "m"]}}))) == [
        "s-0: s", "n-0: n", "n-1: n", "m-0: m u sink-q",
    ]  # fmt: skip
    assert units(made)[0] == "s-0: s"


def test_placement_names_units_and_keeps_others_out() -> None:
    operators = {"a": keep(), "b": keep("a"), "c": keep("b")}
    made = plan(job(operators, placement={"units": [["a", "b"]]}))
    assert units(made) == ["s-0: s", "a-0: a b", "c-0: c sink-q"]
    assert made.edges[0].topic == TOPICS.data("s", 0)
    assert made.edges[0].routing == "forward"
    assert units(plan(job(operators, placement={"units": [["c"], ["q"]]}))) == [
        "s-0: s a b",
        "c-0: c",
        "sink-q-0: sink-q",
    ]


def test_a_placement_that_hashes_inside_is_left_to_the_default_with_a_warning() -> None:
    made = plan(job({"a": keep(), "n": count("a")}, two(), placement={"units": [["a", "n"]]}))
    assert units(made)[0] == "s-0: s a"
    assert made.warnings == ("placement.units[0]: not connected one to one, so it cannot be one unit: a | n",)


def test_placement_of_unequal_parallelism_or_with_a_way_out_and_back_is_refused() -> None:
    unequal = job({"a": keep(), "n": count("a", parallelism=3)}, two(), placement={"units": [["a", "n"]]})
    message = "a unit holds one task of each, but their numbers of tasks differ: a 2, n 3"
    assert problems(unequal) == [Problem("placement.units[0]", message, "give them the same parallelism")]
    operators = {"n": count(parallelism=2), "m": keep("n", parallelism=1), "u": {"union": ["s", "m"]}}
    message = "rows leave the unit and come back, so it would wait for itself: s and u"
    assert problems(job(operators, placement={"units": [["s", "u"]]})) == [
        Problem("placement.units[0]", message, "leave one of them out")
    ]


def test_operators_of_one_unit_want_one_scheme() -> None:
    settings = {"units": {"a": {"scheme": "hybrid"}, "b": {"scheme": "passive"}}}
    message = "s, a, b, sink-q are one unit, but want hybrid and passive"
    assert problems(job({"a": keep(), "b": keep("a")}, fault_tolerance=settings)) == [
        Problem("fault_tolerance.units", message, "part them with placement.units")
    ]


def test_units_that_may_write_rows_or_dead_letters_deliver() -> None:
    operators = {
        "n": count(window=WINDOW),
        "o": keep("n", parallelism=1),
        "p": keep("o", parallelism=2),
        "z": keep("p", parallelism=1),
    }
    made = plan(job(operators, two()))
    assert {unit.operators: unit.delivers for unit in made.units} == {
        ("s",): True, ("n",): False, ("o",): False, ("p",): False, ("z", "sink-q"): True,
    }  # fmt: skip
    refusing = {**operators, "o": {"filter": "REGEXP_LIKE('x', y)", "input": "n", "parallelism": 1}}
    assert [unit.delivers for unit in plan(job(refusing, two())).units if unit.operators == ("o",)] == [True]
    late = plan(job(operators, two(late="topic")))
    assert [unit.delivers for unit in late.units if unit.operators == ("n",)] == [True, True]
    assert [unit.delivers for unit in late.units if unit.operators == ("o",)] == [False]


@pytest.mark.parametrize(("on_error", "delivers"), [("dead-letter", True), ("fail", False), ("retry", False)])
def test_a_job_says_what_a_failing_expression_does(on_error: str, delivers: bool) -> None:
    failing = "regexp_like('a', CAST(x AS VARCHAR))"
    operators = {
        "f": {"filter": failing, "input": "s"},
        "c": {"select": ["x", f"{failing} AS found"], "input": "s", "parallelism": 2},
        "n": count("f", parallelism=2),
        "m": count("c", parallelism=3),
    }
    raw = job(operators, two(), {"q": query("n"), "r": query("m", "more")}, on_error=on_error)
    made = plan(raw, {"in": 2, "out": 1, "more": 1})
    kinds = {one.name: catalogue.KINDS[one.kind].delivers(one.settings) for one in made.operators}
    assert (kinds["f"], kinds["c"]) == (delivers, delivers)


def test_an_operator_with_code_of_the_user_knows_what_to_do_when_it_raises() -> None:
    made = plan(job({"o": {"python": "mine:F", "input": "s", "params": {"k": 1}}}, on_error="fail"))
    declared = {
        "python": "mine:F",
        "key": [],
        "params": {"k": 1},
        "outputs": [],
        "isolation": "none",
        "clock": False,
        "ask": None,
    }
    assert made.operators[1].params == {**declared, "on_error": "fail"}


def test_reading_begins_where_the_topics_were_at_admission() -> None:
    made = plan(job({"o": keep()}, two()), {"in": 3, "out": 1})
    share = unit_layouts(made, TOPICS)["s-0"].tasks[0].source
    assert share is not None
    assert (share.topic, share.partitions) == ("in", (0, 2))
    assert {partition: made.sources[0].first[partition] for partition in share.partitions} == {0: 0, 2: 0}


def test_a_local_run_gives_each_source_task_a_partition_and_needs_no_topics() -> None:
    made = plan(
        job(sources={"s": {"path": "a.csv", "fields": {"x": "int"}, "parallelism": 2}}, queries={"q": {"input": "s"}})
    )
    assert made.sources[0].topic == "source.s"
    assert made.sources[0].owners == ((0,), (1,))
    assert made.sink_partitions == {"query.q": 2}


def test_more_frames_than_brokers_like_raise_the_interval_with_a_warning() -> None:
    made = plan(job({"n": count(parallelism=16)}, {"s": source(parallelism=16)}))
    assert made.interval_ms == 52
    assert made.warnings == (
        "batch_interval_ms: raised from 10 to 52, because a batch is 256 frames and 5000 a second are the limit; "
        "less parallelism lowers it",
    )


def test_a_fused_input_is_local_and_a_plan_of_another_prefix_is_refused() -> None:
    made = plan(job({"n": count(), "o": keep("n")}, two()))
    task = unit_layouts(made, TOPICS)["n-1"].tasks[1]
    assert (task.name, task.inputs, task.outputs) == ("o-1", (LocalInput("n-1"),), ())
    assert task.input_fields == ({"x": "int", "n": "int"},)
    with pytest.raises(ValueError, match="not one under"):
        unit_layouts(made, JobTopics("other", "job", "7-abcdef"))


def test_a_plan_survives_the_log() -> None:
    made = plan(job({"n": count(window=WINDOW)}, two()))
    assert plans.decode(plans.encode(made)) == made


def test_a_plan_can_be_read() -> None:
    made = plan(job({"n": count()}, two()), {"in": 2, "out": 1})
    tables = {section.title: section for section in sections(made, TOPICS)}
    assert tables["Operators"].rows[1] == ("n", "aggregate", "2", "s (keyed by x)", "x: int, n: int")
    assert tables["Units"].rows[2] == ("n-0", "n-0, sink-q-0", "hybrid")
    assert ("in", "2", "source") in tables["Topics"].rows
    assert all(len(row) == len(section.columns) for section in tables.values() for row in section.rows)
    assert summary(made, TOPICS)["operators"][1]["inputs"][0]["topic"] == TOPICS.data("s", 0)
    assert "Isolated code" not in tables


def test_a_plan_says_what_isolation_costs() -> None:
    python = {"python": "mine:Code", "input": "s", "parallelism": 2, "isolation": "process"}
    made = plan(job({"p": python, "other": {**python, "isolation": "none", "input": "p"}}))
    (table,) = (section for section in sections(made, TOPICS) if section.title == "Isolated code")
    ((operator, processes, costs),) = table.rows
    assert (operator, processes) == ("p", "2")
    assert "MB" in costs
