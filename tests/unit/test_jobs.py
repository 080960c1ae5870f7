"""The job file on its own: what is read, what is refused, and in which words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from holdfast.schemas.job_operators import Aggregate, Join
from holdfast.schemas.job_settings import Scheme
from holdfast.schemas.jobs import JobSpec
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.planning.loader import interpret, load

EXAMPLE = Path(__file__).parents[1] / "support" / "jobs" / "flight-delays.yaml"

GOOD: dict[str, Any] = {
    "name": "job",
    "sources": {"s": {"topic": "in", "fields": {"x": "int"}}},
    "operators": {"o": {"filter": "x > 1", "input": "s"}},
    "queries": {"q": {"input": "o", "sink": {"topic": "out"}}},
}


def told(raw: Any) -> list[tuple[str, str, str]]:
    with pytest.raises(JobRejected) as caught:
        interpret(raw) if not isinstance(raw, str) else load(raw, "job.yaml")
    return [(problem.path, problem.message, problem.hint) for problem in caught.value.problems]


def changed(path: str, value: Any) -> dict[str, Any]:
    """GOOD with the value at a dotted path set."""
    raw: dict[str, Any] = json.loads(json.dumps(GOOD))
    at, *steps = raw, *path.split(".")
    for step in steps[:-1]:
        at = at.setdefault(step, {})
    at[steps[-1]] = value
    return raw


def test_the_example_of_the_contract_loads() -> None:
    spec = load(EXAMPLE.read_text(), EXAMPLE.name)
    join = spec.operators["with_weather"]
    assert isinstance(join, Join)
    assert join.join.on == ["origin", "time_hour"]
    assert spec.sources["flights"].fields["dep_delay"] == "float?"
    assert spec.queries["delays"].priority == 2


def test_settings_that_the_file_leaves_out_get_their_defaults() -> None:
    spec = interpret(GOOD)
    source = spec.sources["s"]
    assert (source.format, source.allowed_lateness_s, source.start, source.idle_after_s) == ("json", 0, "earliest", 30)
    assert (source.on_data_loss, source.late, source.parallelism) == ("fail", "drop", 1)
    assert (spec.batch_interval_ms, spec.max_batch_records) == (None, 10_000)
    assert spec.fault_tolerance.checkpoint.policy == "sweep"


def test_a_spec_survives_the_way_through_a_plan() -> None:
    spec = load(EXAMPLE.read_text(), EXAMPLE.name)
    assert JobSpec.model_validate(json.loads(json.dumps(spec.as_plain()))) == spec


def test_json_is_read_like_yaml_even_with_tabs() -> None:
    assert load(json.dumps(GOOD, indent="\t"), "job.json") == interpret(GOOD)


def test_a_window_slides_by_its_size_and_running_totals_are_updates() -> None:
    spec = interpret(changed("operators", {
        "a": {"aggregate": {"n": "count()"}, "input": "s", "window": {"size_s": 60}},
        "b": {"aggregate": {"n": "count()"}, "input": "s"},
    }))  # fmt: skip
    windowed, running = spec.operators["a"], spec.operators["b"]
    assert isinstance(windowed, Aggregate)
    assert windowed.window is not None
    assert isinstance(running, Aggregate)
    assert (windowed.window.slide_s, windowed.emit, running.emit) == (60, "final", "updates")


def test_every_setting_has_a_line_in_the_schema() -> None:
    schema = JobSpec.model_json_schema()
    parts = [schema, *schema["$defs"].values()]
    silent = [name for part in parts for name, one in part.get("properties", {}).items() if "description" not in one]
    assert silent == []


@pytest.mark.parametrize("key", ["on", '"on"'])
def test_on_is_a_key_and_not_the_boolean_of_yaml_1_1(key: str) -> None:
    text = json.dumps(GOOD).replace(
        '"filter": "x > 1", "input": "s"', f"join: {{left: s, right: s, {key}: [x], within_s: 1}}"
    )
    join = load(text, "job.yaml").operators["o"]
    assert isinstance(join, Join)
    assert join.join.on == ["x"]


def test_scalars_are_those_of_yaml_1_2() -> None:
    text = """
name: no
sources: {s: {topic: in, fields: {off: float?, y: int}, start: 2013-01-01, allowed_lateness_s: 1e2}}
queries: {q: {input: s}}
"""
    spec = load(text, "job.yaml")
    assert (spec.name, spec.sources["s"].start, spec.sources["s"].allowed_lateness_s) == ("no", "2013-01-01", 100)
    assert spec.sources["s"].fields == {"off": "float?", "y": "int"}


@pytest.mark.parametrize(
    ("text", "path", "message", "hint"),
    [
        ("", "job.yaml", "is empty", "a job has at least name, sources and queries"),
        ("- 1", "job.yaml", "expected a mapping, found a list", "a job has at least name, sources and queries"),
        (
            "\tname: x",
            "job.yaml:1:1",
            "not YAML: while scanning for the next token, found character '\\t' that cannot start any token",
            "indent with spaces, not tabs",
        ),
        (
            "name: x\nsources: [1,\n",
            "job.yaml:3:1",
            "not YAML: while parsing a flow node, expected the node content, but found '<stream end>'",
            "",
        ),
        (
            "name: a: b",
            "job.yaml:1:8",
            "not YAML: mapping values are not allowed here",
            "quote text that holds a colon followed by a space",
        ),
        (
            "name: !!python/name:os.system x",
            "job.yaml:1:7",
            "not YAML: could not determine a constructor for the tag 'tag:yaml.org,2002:python/name:os.system'",
            "",
        ),
        ("{" * 5000, "job.yaml", "nested too deeply", ""),
    ],
)
def test_text_that_is_no_job_file_is_refused_with_its_place(text: str, path: str, message: str, hint: str) -> None:
    assert told(text) == [(path, message, hint)]


def test_every_duplicate_key_is_told_with_its_lines() -> None:
    text = "name: a\nsources:\n  s: {topic: t}\n  s: {topic: u}\nname: b\n"
    assert sorted(told(text)) == [
        ("name", "written twice, in lines 1 and 5", "keep one of them"),
        ("sources.s", "written twice, in lines 3 and 4", "keep one of them"),
    ]


def test_a_key_that_is_written_many_times_is_one_problem() -> None:
    assert told("name: a\n" * 1_000) == [("name", "written 1,000 times, first in lines 1 and 2", "keep one of them")]


def test_lines_that_are_no_mapping_are_refused_with_what_a_job_file_is() -> None:
    ((path, message, hint),) = told("'a' 'b'\nc: d\n")
    assert (path, message) == ("job.yaml:1:5", "not YAML: expected '<document start>', but found '<scalar>'")
    assert hint.startswith("a job file is one mapping")


def test_every_duplicate_key_of_json_is_told() -> None:
    with pytest.raises(JobRejected) as caught:
        load('{"name": "a", "name": "b", "sources": {"s": {"topic": "t", "topic": "u"}}}', "job.json")
    assert [problem.path for problem in caught.value.problems] == ["name", "sources.s.topic"]


def test_invalid_json_is_told_as_json() -> None:
    with pytest.raises(JobRejected, match=r"job\.json:2:2: not JSON: Expecting property name"):
        load('{"name": "a",\n b}', "job.json")


NAMES = "lower-case letters, digits, - and _, starting with a letter, at most 63 characters"


@pytest.mark.parametrize(
    ("path", "value", "at", "message", "hint"),
    [
        ("name", "My Job", "name", "'My Job' is not a valid name", f"did you mean 'my_job'? {NAMES}"),
        ("name", 3, "name", "expected text, found 3", NAMES),
        ("name", True, "name", "expected text, found true", NAMES),
        ("operators", {5: {"filter": "a > 1", "input": "s"}}, "operators[5]", "expected text, found 5", NAMES),
        ("sources.s.topic", 7, "sources.s.topic", "expected text, found 7", 'write it in quotes: "7"'),
        ("queries", {}, "queries", "needs at least 1 entry", ""),
        ("batch_interval", 5, "batch_interval", "is not a setting", "did you mean 'batch_interval_ms'?"),
        ("batch_interval_ms", 0, "batch_interval_ms", "0 is too small: at least 1", ""),
        ("batch_interval_ms", True, "batch_interval_ms", "expected a whole number, found true", ""),
        ("batch_interval_ms", "5", "batch_interval_ms", "expected a whole number, found '5'", "write 5 without quotes"),
        ("keep_cuts", "yes", "keep_cuts", "expected true or false, found 'yes'", ""),
        (
            "on_error",
            "deadletter",
            "on_error",
            "'deadletter' is not one of fail, retry, dead-letter",
            "did you mean 'dead-letter'?",
        ),
        ("replay_horizon_s", float("nan"), "replay_horizon_s", "expected a number, found nan", ""),
        ("sources.s.topic", None, "sources.s.topic", "reads from nowhere: neither topic nor path is given", ""),
        (
            "sources.s.topic",
            "a b",
            "sources.s.topic",
            "'a b' is not a valid topic name",
            "letters, digits, dots, - and _, at most 249 characters",
        ),
        ("sources.s.formt", "csv", "sources.s.formt", "is not a setting", "did you mean 'format'?"),
        (
            "sources.s.format",
            "jsn",
            "sources.s.format",
            "'jsn' is not one of json, csv, text, arrow, avro, json-schema, protobuf",
            "did you mean 'json'?",
        ),
        (
            "sources.s.start",
            "yesterday",
            "sources.s.start",
            "'yesterday' is not earliest, latest or an ISO 8601 time",
            'such as "2026-01-31T12:00:00Z"',
        ),
        ("sources.s.idle_after_s", 0, "sources.s.idle_after_s", "0 is too small: more than 0", ""),
        ("sources.s.parallelism", 10_000, "sources.s.parallelism", "10000 is too large: at most 256", ""),
        (
            "sources.s.fields",
            {"p": "decimal(10", "2)": None},
            "sources.s.fields.2)",
            "expected text, found nothing",
            'quote a type that holds a comma, such as "decimal(10,2)"',
        ),
        (
            "operators.o",
            {"fliter": "x", "input": "s"},
            "operators.o",
            "is no operator: it has none of filter, select, aggregate, join, asof_join, top, union, unnest, dedup, "
            "pace, python, output, spark, sql",
            "did you mean 'filter' instead of 'fliter'?",
        ),
        (
            "operators.o",
            {"filter": "x", "select": ["x"], "input": "s"},
            "operators.o",
            "is filter and select at once",
            "an operator does one thing: make it several, one feeding the next",
        ),
        (
            "operators.o",
            "x > 1",
            "operators.o",
            "expected a mapping, found 'x > 1'",
            'such as {filter: "x > 1", input: ...}',
        ),
        ("operators.o", {"filter": "x > 1"}, "operators.o.input", "is missing", "Source or operator that it reads."),
        ("operators.o.inptu", "s", "operators.o.inptu", "is not a setting", "did you mean 'input'?"),
        (
            "operators.O",
            {"filter": "x", "input": "s"},
            "operators.O",
            "'O' is not a valid name",
            f"did you mean 'o'? {NAMES}",
        ),
        ("operators.o", {"select": "x", "input": "s"}, "operators.o.select", "expected a list, found 'x'", "write [x]"),
        (
            "operators.o",
            {"select": {"y": "x + 1"}, "input": "s"},
            "operators.o.select",
            "expected a list, found a mapping",
            "write ['x + 1 AS y']",
        ),
        ("operators.o", {"select": [], "input": "s"}, "operators.o.select", "needs at least 1 entry", ""),
        ("operators.o", {"select": ["x", ""], "input": "s"}, "operators.o.select[1]", "is empty", ""),
        (
            "operators.o",
            {"join": {"left": "s", "right": "s", "on": ["x"], "within_s": 1, "kind": "lft"}},
            "operators.o.join.kind",
            "'lft' is not one of inner, left, right, full, semi, anti",
            "did you mean 'left'?",
        ),
        ("operators.o", {"union": ["s"]}, "operators.o.union", "needs at least 2 entries", ""),
        (
            "operators.o",
            {"python": "nowhere", "input": "s"},
            "operators.o.python",
            "'nowhere' is not a valid entry point",
            "package.module:Name",
        ),
        (
            "operators.o",
            {"top": {"k": 0, "by": "x"}, "input": "s"},
            "operators.o.top.k",
            "0 is too small: at least 1",
            "",
        ),
        (
            "operators.o",
            {"join": {"left": "s", "right": "s", "within_s": 1}},
            "operators.o.join.on",
            "is missing",
            "Columns that must be equal: of both sides, or `user = id`, the left one first; with a table, its key.",
        ),
        (
            "operators.o",
            {"join": {"left": "s", "right": "s", "on": ["x"], "between": [5, -5]}},
            "operators.o.join.between",
            "the first number is larger than the second: nothing lies between",
            "",
        ),
        (
            "operators.o",
            {"aggregate": {"n": "count()"}, "input": "s", "window": {"size_s": 0}},
            "operators.o.window.size_s",
            "0 is too small: at least 0.000001",
            "",
        ),
        (
            "operators.o",
            {"aggregate": {"n": "count()"}, "input": "s", "window": {"size_s": 1, "slide_s": 2}},
            "operators.o.window.slide_s",
            "slide_s is larger than size_s: windows would have gaps",
            "",
        ),
        (
            "operators.o",
            {"aggregate": {"n": "count()"}, "input": "s", "window": {}},
            "operators.o.window",
            "says no length: give size_s, or calendar for days and months, or gap_s for sessions",
            "",
        ),
        (
            "operators.o",
            {"aggregate": {"n": "count()"}, "input": "s", "window": {"size_s": 9, "gap_s": 2}},
            "operators.o.window.gap_s",
            "gap_s does not go with size_s",
            "",
        ),
        (
            "operators.o",
            {"aggregate": {"n": "count()"}, "input": "s", "window": {"gap_s": 9, "slide_s": 2}},
            "operators.o.window.slide_s",
            "slide_s does not go with gap_s",
            "",
        ),
        (
            "operators.o",
            {"aggregate": {"n": "count()"}, "input": "s", "window": {"size_s": 9, "zone": "UTC"}},
            "operators.o.window.zone",
            "zone does not go with size_s",
            "",
        ),
        (
            "operators.o",
            {"aggregate": {"n": "count()"}, "input": "s", "window": {"size_s": 9, "step_s": 2}},
            "operators.o.window.step_s",
            "size_s is no multiple of step_s",
            "",
        ),
        (
            "operators.o",
            {"aggregate": {"n": "count()"}, "input": "s", "window": {"size_s": 9, "slide_s": 3, "step_s": 3}},
            "operators.o.window.step_s",
            "step_s does not go with slide_s",
            "",
        ),
        (
            "operators.o",
            {"aggregate": {"n": "count()"}, "input": "s", "emit": "fnal"},
            "operators.o.emit",
            "'fnal' is not one of final, updates, each",
            "did you mean 'final'?",
        ),
        ("queries.q.sink.topik", "x", "queries.q.sink.topik", "is not a setting", "did you mean 'topic'?"),
        (
            "fault_tolerance.default",
            {"scheme": "hybird"},
            "fault_tolerance.default.scheme",
            f"'hybird' is not one of {', '.join(get_args(Scheme))}",
            "did you mean 'hybrid'?",
        ),
        (
            "fault_tolerance.units",
            {"o": {"sheme": "none"}},
            "fault_tolerance.units.o.sheme",
            "is not a setting",
            "did you mean 'scheme'?",
        ),
        (
            "fault_tolerance.checkpoint",
            {"interval": 5},
            "fault_tolerance.checkpoint.interval",
            "is not a setting",
            "did you mean 'interval_ms'?",
        ),
        (
            "fault_tolerance.replication_budget",
            2.0,
            "fault_tolerance.replication_budget",
            "2.0 is too large: at most 1",
            "",
        ),
        (
            "placement.units",
            [["o", "Bad!"]],
            "placement.units[0][1]",
            "'Bad!' is not a valid name",
            f"did you mean 'bad'? {NAMES}",
        ),
    ],
)
def test_a_mistake_is_told_with_path_and_hint(path: str, value: Any, at: str, message: str, hint: str) -> None:
    assert (at, message, hint) in told(changed(path, value))


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file() -> None:
    raw = changed("operators.o", {"fliter": "x"}) | {"name": "No", "queries": {}, "batch": 1}
    assert [path for path, _, _ in told(raw)] == ["name", "operators.o", "queries", "batch"]
