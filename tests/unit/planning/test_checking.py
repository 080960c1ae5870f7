"""What only the whole DAG shows is told at once, each with path and hint, and nothing twice."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.schemas.plans import Problem
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.kernel.operators.catalogue import Stream
from holdfast.services.planning.check import check
from holdfast.services.planning.loader import interpret
from tests.unit.planning.jobs import describe, job, plan, problems, query, source

COUNT = {"aggregate": {"n": "count()"}, "key": ["x"], "input": "s"}


def keep(name: str = "s", **more: Any) -> dict[str, Any]:
    return {"filter": "x > 1", "input": name, **more}


@pytest.mark.parametrize(
    ("raw", "path", "message", "hint"),
    [
        (
            job({"late": keep(), "o": keep("lte")}),
            "operators.o.input",
            "there is no source or operator 'lte'",
            "did you mean 'late'?",
        ),
        (
            job({"o": keep("q")}),
            "operators.o.input",
            "'q' is a query; only sources and operators can be read",
            "read o",
        ),
        (job(queries={"q": query("zzz")}), "queries.q.input", "there is no source or operator 'zzz'", "known: s"),
        (
            job({"o": {"join": {"left": "s", "right": "t", "on": ["x"], "within_s": 1}}}),
            "operators.o.join.right",
            "there is no source or operator 't'",
            "known: s, o",
        ),
        (
            job({"o": {"union": ["s", "t"]}}),
            "operators.o.union[1]",
            "there is no source or operator 't'",
            "known: s, o",
        ),
        (job({"o": keep("o")}), "operators.o.input", "reads itself", "an operator reads only what comes before it"),
        (
            job({"a": {"union": ["s", "c"]}, "b": keep("a"), "c": keep("b")}),
            "operators.a.union[1]",
            "is on a cycle: a -> b -> c -> a",
            "an operator reads only what comes before it",
        ),
        (job({"s": keep("s")}), "operators.s", "is the name of a source, too", "rename one of them"),
        (job({"sink-q": keep()}), "operators.sink-q", "is the name of the sink of query q", "rename it"),
        (
            job({"o": {"spark": "other:f", "input": "s"}}),
            "operators.o.spark",
            "module other is not on the workers' allow-list",
            "start the workers with HOLDFAST_PLUGINS=other",
        ),
        (
            job({"o": {"spark": "mine:f", "input": "s"}, "input-o": {"filter": "x > 1", "input": "o"}}),
            "operators.input-o",
            "is a name that Spark operator o needs",
            "rename it",
        ),
        (
            job({"o": {"python": "others.code:F", "input": "s"}}),
            "operators.o.python",
            "module others.code is not on the workers' allow-list",
            "start the workers with HOLDFAST_PLUGINS=others.code",
        ),
        (
            job({"o": {"python": "minee:F", "input": "s"}}),
            "operators.o.python",
            "module minee is not on the workers' allow-list",
            "did you mean 'mine'?",
        ),
        (
            job({"o": {"aggregate": {"n": "count()"}, "input": "s", "parallelism": 2}}),
            "operators.o.parallelism",
            "without a key there is one group, and one task",
            "leave it out",
        ),
        (
            job({"o": {"top": {"k": 1, "by": "x"}, "input": "s", "parallelism": 2}}),
            "operators.o.parallelism",
            "without windows or a key all rows are compared in one task",
            "leave it out",
        ),
        (
            job({"o": keep()}, fault_tolerance={"units": {"p": {"scheme": "none"}}}),
            "fault_tolerance.units.p",
            "is no operator or unit",
            "known: s, o, sink-q",
        ),
        (
            job({"o": keep()}, fault_tolerance={"units": {"s-4": {"scheme": "none"}}}),
            "fault_tolerance.units.s-4",
            "is no operator or unit",
            "did you mean 's-0'?",
        ),
        (
            job({"o": keep()}, placement={"units": [["o", "zzz"]]}),
            "placement.units[0][1]",
            "there is no source, operator or query 'zzz'",
            "known: s, o, q",
        ),
        (
            job({"o": keep()}, placement={"units": [["s", "o"], ["o"]]}),
            "placement.units[1][0]",
            "'o' has its place in placement.units[0]",
            "name it once",
        ),
        (
            job(queries={"q": query("s", "in")}),
            "queries.q.sink.topic",
            "is the topic of source s: the job would read its own results",
            "",
        ),
        (
            job(queries={"q": query("s"), "r": query("s")}),
            "queries.r.sink.topic",
            "is the topic of query q, too",
            "one topic a query",
        ),
        (
            job(queries={"q": query("s", "holdfast.events")}),
            "queries.q.sink.topic",
            "names that begin with 'holdfast.' belong to the cluster",
            "choose another",
        ),
        (
            job({"u": {"union": ["s", "t"]}}, {"s": source(), "t": source(start="latest")}),
            "sources.t.start",
            "source s reads the same topic from earliest",
            "use the same start, or one source",
        ),
    ],
)
def test_a_mistake_is_one_problem(raw: dict[str, Any], path: str, message: str, hint: str) -> None:
    assert problems(raw) == [Problem(path, message, hint)]


@pytest.mark.parametrize(
    ("more", "path", "message", "hint"),
    [
        ({"fields": {"x": "dcimal(10,2)"}}, "fields.x", "unknown type", ""),
        ({"fields": {"x": "decimal(10", "2)": "int"}}, "fields.x", "unknown type", "quote a type that holds a comma"),
        (
            {"fields": {"_time": "int"}},
            "fields._time",
            "begins with an underscore",
            "such names belong to holdfast: rename it",
        ),
        ({"event_time": "z"}, "event_time", "there is no field 'z'", "known: x, y"),
        (
            {"event_time": "x"},
            "event_time",
            "'x' is of type int, not a time",
            "unit: s, for a number of seconds since 1970, or ms, us, ns",
        ),
    ],
)
def test_fields_of_a_source_are_checked(more: dict[str, Any], path: str, message: str, hint: str) -> None:
    found = [one for one in problems(job({"o": keep()}, {"s": source() | more})) if one.path.startswith("sources.")]
    assert [problem.path for problem in found] == [f"sources.s.{path}"]
    assert found[0].message.startswith(message)
    assert found[0].hint.startswith(hint)


@pytest.mark.parametrize(
    ("raw", "topics", "path", "message", "hint"),
    [
        (
            job(),
            {"out": 1},
            "sources.s.topic",
            "there is no topic 'in'",
            "`holdfast send in FILE --create-topics` creates it",
        ),
        (
            job(sources={"s": source("flights")}),
            {"flight": 1, "out": 1},
            "sources.s.topic",
            "there is no topic 'flights'",
            "did you mean 'flight'? `holdfast send flights FILE --create-topics` creates it",
        ),
        (
            job(),
            {"in": 1},
            "queries.q.sink.topic",
            "there is no topic 'out'",
            "`holdfast submit --create-topics` creates it",
        ),
        (
            job(queries={"q": {"input": "s"}}),
            {"in": 1},
            "queries.q.sink",
            "is missing: on a cluster a query writes a topic",
            "add `sink: {topic: ...}`",
        ),
        (
            job(sources={"s": {"path": "a.csv", "fields": {"x": "int"}}}),
            {"out": 1},
            "sources.s.topic",
            "is missing: on a cluster a source reads a topic",
            "path is for `holdfast try`",
        ),
        (
            job(sources={"s": source(parallelism=3)}),
            {"in": 2, "out": 1},
            "sources.s.parallelism",
            "3 tasks, but topic in has 2 partitions",
            "at most 2",
        ),
    ],
)
def test_a_lack_of_the_cluster_is_told_with_its_remedy(
    raw: dict[str, Any], topics: dict[str, int], path: str, message: str, hint: str
) -> None:
    assert problems(raw, topics) == [Problem(path, message, hint)]


def test_all_problems_come_at_once_without_those_that_follow_from_others() -> None:
    raw = job(
        {
            "a": keep("nowhere"),
            "b": keep("a"),
            "c": {"spark": "other:f", "input": "s"},
            "d": {"top": {"k": 1, "by": "x"}, "input": "b"},
        }
    )
    raw["queries"]["q"]["sink"]["topic"] = "in"
    assert [problem.path for problem in problems(raw)] == [
        "operators.a.input",
        "operators.c.spark",
        "queries.q.sink.topic",
    ]


def test_problems_of_an_operator_are_told_with_its_path_and_not_again_behind_it() -> None:
    def refuse(kind: str, params: Any, inputs: Any) -> Stream:
        if kind == "filter":
            raise JobRejected([Problem("filter", "unknown column z", "did you mean 'x'?"), Problem("", "other")])
        return describe(kind, params, inputs)

    checked = check(interpret(job({"a": keep(), "b": keep("a")})), (), refuse)
    assert checked.problems == [
        Problem("operators.a.filter", "unknown column z", "did you mean 'x'?"),
        Problem("operators.a", "other"),
    ]


def test_two_cycles_are_two_problems() -> None:
    found = problems(job({"a": keep("b"), "b": keep("a"), "c": keep("d"), "d": keep("c")}, queries={"q": query("s")}))
    assert [problem.message for problem in found] == ["is on a cycle: a -> b -> a", "is on a cycle: c -> d -> c"]


def test_an_allowed_module_allows_what_lies_below_it() -> None:
    assert problems(job({"o": {"python": "mine.deep.code:F", "input": "s"}})) == []


def test_an_operator_that_leads_to_no_query_is_left_out_with_a_warning() -> None:
    made = plan(job({"o": keep(), "idle": keep()}, {"s": source(), "t": source("other")}, {"q": query("o")}))
    assert [operator.name for operator in made.operators] == ["s", "o", "sink-q"]
    assert made.warnings == (
        "sources.t: leads to no query and is left out",
        "operators.idle: leads to no query and is left out",
    )


def test_settings_with_nothing_behind_them_are_warned_of() -> None:
    raw = job(
        {"o": keep()},
        {"s": source()},
        {"q": query("o", results="tentative")},
        fault_tolerance={
            "default": {"scheme": "hybrid"},
            "buffering": "source",
            "correlated_failure": {"workers": 3},
            "replication_budget": 1.0,
            "misses": 2,
        },
        placement={"spread_by": "host"},
    )
    made = plan(raw)
    assert made.warnings == (
        "fault_tolerance.buffering: source goes by global checkpoints, which sweep does not make, "
        "runs as upstream until the policy is aligned",
        "queries.q.results: there are no tentative rows, it runs as final: only rows of windows that come once "
        "(`emit: final`) and running totals of rows that are taken one by one can be corrected, with all key columns",
    )
    assert {unit.scheme for unit in made.units} == {"hybrid"}


def test_settings_of_adaptive_units_are_warned_of_where_no_unit_is_adaptive() -> None:
    asked = {"recovery_time_ms": 900, "weights": {"cpu": 3}, "cool_down_s": 1}
    raw = job({"o": {"filter": "x > 1", "input": "s"}}, fault_tolerance=asked)
    assert plan(raw).warnings == tuple(
        f"fault_tolerance.{name}: has no effect as long as no unit is adaptive"
        for name in ("recovery_time_ms", "weights", "cool_down_s")
    )
    made = plan(raw | {"fault_tolerance": asked | {"units": {"o": {"scheme": "adaptive"}}}})
    assert (made.warnings, {unit.scheme for unit in made.units}) == ((), {"adaptive"})


def test_a_topic_that_exists_keeps_its_partitions() -> None:
    made = plan(job(queries={"q": {"input": "s", "sink": {"topic": "out", "partitions": 5}}}), {"in": 1, "out": 3})
    assert made.sink_partitions == {"out": 3}
    assert made.warnings == ("queries.q.sink.partitions: topic out has 3",)


def test_the_cost_of_closing_in_silence_is_said() -> None:
    window = {"aggregate": {"n": "count()"}, "key": ["x"], "input": "both", "window": {"size_s": 3600}}
    raw = job({"both": {"union": ["s", "t"]}, "o": window})
    raw["sources"] = {"s": source(close_after_idle_s=60), "t": source()}
    assert check(interpret(raw), ()).warnings == [
        "sources.s.close_after_idle_s: when no record has come to any source for 60 s, every window and join range "
        "that is open closes; records that come later, with times up to 3600 s past the newest, may be late",
        "sources.s.close_after_idle_s: source t has none, so what also waits for it stays open",
    ]


def test_a_zone_that_is_none_is_a_problem_of_its_window() -> None:
    raw = job({"o": {**COUNT, "window": {"calendar": "day", "zone": "Europe/Viena"}}}, queries={"q": query("o")})
    (problem,) = check(interpret(raw), []).problems
    assert (problem.path, problem.hint) == ("operators.o.window.zone", "did you mean 'Europe/Vienna'?")
    raw["operators"]["o"]["window"]["zone"] = "Europe/Vienna"
    assert check(interpret(raw), []).problems == []
