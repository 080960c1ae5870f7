"""What holds for the plan of any DAG: ends of edges agree, units partition the tasks and never wait in a circle."""

from __future__ import annotations

from graphlib import TopologicalSorter
from typing import Any

from hypothesis import given, note
from hypothesis import strategies as st

from holdfast.schemas.plans import Plan
from holdfast.services.kernel.plans.layout import (
    LocalInput,
    RemoteInput,
    UnitLayout,
    data_topics,
    readers,
    task_name,
    unit_layouts,
)
from tests.unit.planning.jobs import TOPICS, job, plan, source

TASKS = st.integers(1, 4)
MAYBE_TASKS = st.none() | TASKS


@st.composite
def operators(draw: st.DrawFn, names: list[str], index: int) -> dict[str, Any]:
    """One operator over any of the streams before it."""
    name = st.sampled_from(names)
    more = {"parallelism": draw(MAYBE_TASKS)}
    kind = draw(st.sampled_from(["filter", "aggregate", "keyless", "join", "top", "union", "dedup", "python", "keyed"]))
    match kind:
        case "filter":
            return {"filter": "x > 1", "input": draw(name), **more}
        case "aggregate":
            window = draw(st.none() | st.just({"size_s": 60}))
            return {"aggregate": {f"n{index}": "count()"}, "key": ["x"], "input": draw(name), "window": window, **more}
        case "keyless":
            return {"aggregate": {f"n{index}": "count()"}, "input": draw(name)}
        case "join":
            return {"join": {"left": draw(name), "right": draw(name), "on": ["x"], "within_s": 1}, **more}
        case "top":
            return {"top": {"k": 1, "by": "x"}, "input": draw(name)}
        case "union":
            return {"union": draw(st.lists(name, min_size=2, max_size=3)), **more}
        case "dedup":
            return {"dedup": {"within_s": 1}, "key": ["x"], "input": draw(name), **more}
        case "python":
            return {"python": "mine:F", "input": draw(name), **more}
        case _:
            return {"python": "mine:F", "input": draw(name), "key": ["x"], **more}


@st.composite
def jobs(draw: st.DrawFn) -> dict[str, Any]:
    """Any small job; every stream that nobody else reads has a query."""
    sources = {f"s{i}": source(f"in{i}", parallelism=draw(TASKS)) for i in range(draw(st.integers(1, 2)))}
    found: dict[str, Any] = {}
    for index in range(draw(st.integers(0, 7))):
        found[f"o{index}"] = draw(operators([*sources, *found], index))
    targets = draw(st.lists(st.sampled_from([*sources, *found]), min_size=1, max_size=4, unique=True))
    queries = {f"q{i}": {"input": name, "sink": {"topic": f"out{i}"}} for i, name in enumerate(targets)}
    return job(found, sources, queries)


def writes(layouts: dict[str, UnitLayout]) -> set[tuple[str, int, int]]:
    """(topic, writer, partition) of every frame that is sent a batch."""
    return {
        (output.topic, task.index, target)
        for layout in layouts.values()
        for task in layout.tasks
        for output in task.outputs
        for target in output.targets
    }


@given(jobs())
def test_a_reader_waits_for_exactly_the_frames_that_are_sent(raw: dict[str, Any]) -> None:
    layouts = unit_layouts(plan(raw), TOPICS)
    awaited = {
        (source.partition.topic, writer, source.partition.index)
        for layout in layouts.values()
        for task in layout.tasks
        for source in task.inputs
        if isinstance(source, RemoteInput)
        for writer in source.writers
    }
    assert awaited == writes(layouts)


@given(jobs())
def test_every_slot_is_fed_by_all_tasks_of_its_producer_taken_together(raw: dict[str, Any]) -> None:
    made = plan(raw)
    operators = {operator.name: operator for operator in made.operators}
    tasks = {task.name: task for layout in unit_layouts(made, TOPICS).values() for task in layout.tasks}
    for edge in made.edges:
        fed: set[str] = set()
        for index in range(operators[edge.consumer].parallelism):
            source = tasks[task_name(edge.consumer, index)].inputs[edge.slot]
            writers = (
                {source.task}
                if isinstance(source, LocalInput)
                else {task_name(edge.producer, w) for w in source.writers}
            )
            assert writers, f"{edge} leaves task {index} without a writer: its watermark would never move"
            fed |= writers
        assert fed == {task_name(edge.producer, index) for index in range(operators[edge.producer].parallelism)}


@given(jobs())
def test_every_task_is_in_exactly_one_unit_with_its_local_inputs_before_it(raw: dict[str, Any]) -> None:
    made = plan(raw)
    names = [task.name for layout in unit_layouts(made, TOPICS).values() for task in layout.tasks]
    expected = {task_name(one.name, index) for one in made.operators for index in range(one.parallelism)}
    assert sorted(names) == sorted(expected)
    for layout in unit_layouts(made, TOPICS).values():
        seen: set[str] = set()
        for task in layout.tasks:
            assert {source.task for source in task.inputs if isinstance(source, LocalInput)} <= seen
            seen.add(task.name)
    assert [unit.partition for unit in made.units] == list(range(len(made.units)))


def waits(made: Plan) -> dict[str, set[str]]:
    """The units whose frames each unit waits for."""
    layouts = unit_layouts(made, TOPICS)
    by_topic: dict[tuple[str, int], set[str]] = {}
    for name, layout in layouts.items():
        for task in layout.tasks:
            for output in task.outputs:
                for target in output.targets:
                    by_topic.setdefault((output.topic, target), set()).add(name)
    return {
        name: {
            writer
            for task in layout.tasks
            for source in task.inputs
            if isinstance(source, RemoteInput)
            for writer in by_topic[source.partition.topic, source.partition.index]
        }
        for name, layout in layouts.items()
    }


@given(jobs())
def test_units_never_wait_for_each_other_in_a_circle(raw: dict[str, Any]) -> None:
    graph = waits(plan(raw))
    note(str(graph))
    TopologicalSorter(graph).prepare()


@given(jobs())
def test_every_data_partition_has_readers_and_is_within_its_topic(raw: dict[str, Any]) -> None:
    made = plan(raw)
    partitions = {(partition.topic, partition.index) for partition in readers(made, TOPICS)}
    assert partitions == {(topic, index) for topic, count in data_topics(made).items() for index in range(count)}


@given(jobs())
def test_a_plan_is_a_function_of_its_job(raw: dict[str, Any]) -> None:
    assert plan(raw) == plan(raw)
