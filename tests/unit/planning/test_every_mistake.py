"""Every mistake of a job file is reported, each once, also behind another mistake; an open type invents none."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from holdfast.services.kernel.errors import JobRejected
from holdfast.services.planning.check import check
from holdfast.services.planning.loader import interpret

FIELDS = {"v": "int", "w": "float?", "s": "string", "t": "timestamp", "b": "bool"}


def problems(operators: dict[str, Any], fields: dict[str, str] = FIELDS, **more: Any) -> list[tuple[str, str]]:
    last = list(operators)[-1]
    raw = {
        "name": "job",
        "sources": {"given": {"topic": "given", "fields": fields, "event_time": "t"}},
        "operators": operators,
        "queries": {"q": {"input": last, "sink": {"topic": "out"}}},
        **more,
    }
    try:
        found = check(interpret(raw), ["mine"]).problems
    except JobRejected as rejected:
        found = list(rejected.problems)
    return [(one.path, one.message) for one in found]


def paths(operators: dict[str, Any], fields: dict[str, str] = FIELDS, **more: Any) -> list[str]:
    return [path for path, _ in problems(operators, fields, **more)]


def test_four_typos_in_one_expression_are_four_problems() -> None:
    found = problems({"late": {"filter": "vv > 1 AND ww > 2 AND ss = 'a' AND bb", "input": "given"}})
    assert len(found) == 4
    assert [message.split("'")[1] for _, message in found] == ["vv", "ww", "ss", "bb"]


def test_three_type_errors_in_one_expression_are_three_problems() -> None:
    found = problems({"late": {"filter": "s > 5 AND v LIKE 'a%' AND t + 5 > t", "input": "given"}})
    assert len(found) == 3


def test_typos_of_four_operators_behind_each_other_are_four_problems() -> None:
    operators = {
        "late": {"filter": "vv > 1", "input": "given"},
        "shaped": {"select": ["v", "ww AS x", "s"], "input": "late"},
        "daily": {"aggregate": {"n": "count()", "most": "max(yy)"}, "key": ["s"], "input": "shaped"},
        "best": {"filter": "nn > 3", "input": "daily"},
    }
    assert paths(operators) == [
        "operators.late.filter", "operators.shaped.select[1]", "operators.daily.aggregate.most", "operators.best.filter"
    ]  # fmt: skip


def test_type_errors_behind_each_other_are_three_problems() -> None:
    operators = {
        "late": {"filter": "v > 'a'", "input": "given"},
        "shaped": {"select": ["v + s AS x", "s", "b"], "input": "late"},
        "daily": {"aggregate": {"total": "sum(s)"}, "key": ["b"], "input": "shaped"},
    }
    assert len(problems(operators)) == 3


def test_a_column_whose_type_is_open_invents_no_problem() -> None:
    """x + 1 needs a number, y LIKE a text, z a time: each of them may be."""
    operators = {
        "shaped": {"select": ["vv AS x", "ww AS y", "zz AS z", "s"], "input": "given"},
        "kept": {"filter": "x + 1 > 2 AND y LIKE 'a%' AND z > '2024-01-01' AND s = 'a'", "input": "shaped"},
        "daily": {"aggregate": {"total": "sum(x)", "least": "min(y)"}, "key": ["z"], "input": "kept"},
        "best": {"top": {"k": 3, "by": "total"}, "input": "daily"},
    }
    assert paths(operators) == [f"operators.shaped.select[{index}]" for index in range(3)]


def test_an_open_column_may_be_a_struct() -> None:
    operators = {
        "shaped": {"select": ["vv AS x", "s"], "input": "given"},
        "kept": {"filter": "x.a > 1 AND s = 'a'", "input": "shaped"},
    }
    assert paths(operators) == ["operators.shaped.select[0]"]


def test_a_mistake_that_does_not_depend_on_an_open_type_is_found() -> None:
    operators = {
        "shaped": {"select": ["vv AS x", "s"], "input": "given"},
        "kept": {"filter": "x > 1 AND missing = 2", "input": "shaped"},
        "more": {"filter": "s + v > 1", "input": "kept"},
    }
    assert paths(operators) == ["operators.shaped.select[0]", "operators.kept.filter", "operators.more.filter"]


def test_a_source_with_a_misspelt_type_hides_no_mistake_behind_it() -> None:
    found = problems({"late": {"filter": "s > 5 AND v > 1", "input": "given"}}, {**FIELDS, "v": "itn"})
    assert [path for path, _ in found] == ["sources.given.fields.v", "operators.late.filter"]


def test_a_setting_that_is_none_hides_no_mistake_in_columns() -> None:
    operators = {"late": {"filter": "vv > 1", "input": "given"}}
    assert sorted(paths(operators, on_eror="fail")) == ["on_eror", "operators.late.filter"]


def test_a_misspelt_setting_of_an_operator_invents_no_mistake_behind_it() -> None:
    """Without its window the aggregate would have no window_start; with its input misspelt it would read nothing."""
    operators = {
        "daily": {"aggregate": {"n": "count()"}, "key": ["s"], "input": "given", "windw": {"size_s": 60}},
        "kept": {"select": ["window_start", "n"], "input": "daily"},
        "other": {"filter": "vv > 1", "inptu": "given"},
        "third": {"filter": "bb", "input": "given"},
    }
    found = problems(operators, queries={f"q{i}": {"input": name} for i, name in enumerate(operators)})
    assert sorted(path for path, _ in found) == [
        "operators.daily.windw", "operators.other.inptu", "operators.other.input", "operators.third.filter"
    ]  # fmt: skip


def test_a_wrong_setting_hides_no_mistake_in_what_its_operator_reads() -> None:
    """A setting that is misspelt, of a wrong type, or missing; a mistake that depends on it is not invented."""
    operators = {
        "once": {"dedup": {"within_s": "x"}, "key": ["qq"], "input": "given"},
        "daily": {"aggregate": {"n": "avgg(v)"}, "key": ["s"], "window": {"siz_s": 60}, "input": "given"},
        "best": {"top": {"k": 0, "by": "nn"}, "input": "given"},
        "late": {"filter": "vv > 1", "input": "given", "paralelism": 2},
        "ends": {
            "aggregate": {"n": "count()"},
            "key": ["s"],
            "windw": {"size_s": 60},
            "emit": "final",
            "input": "given",
        },
    }
    found = problems(operators, queries={f"q{i}": {"input": name} for i, name in enumerate(operators)})
    assert sorted(path for path, _ in found) == [
        "operators.best.top.by", "operators.best.top.k", "operators.daily.aggregate.n", "operators.daily.window.siz_s",
        "operators.ends.windw", "operators.late.filter", "operators.late.paralelism", "operators.once.dedup.within_s",
        "operators.once.key[0]",
    ]  # fmt: skip


def test_right_jobs_have_no_problem() -> None:
    operators = {
        "late": {"filter": "v > 1", "input": "given"},
        "daily": {"aggregate": {"n": "count()"}, "key": ["s"], "input": "late", "window": {"size_s": 60}},
        "best": {"top": {"k": 3, "by": "n"}, "input": "daily"},
    }
    assert problems(operators) == []


JOIN = """
name: job
sources:
  a: {topic: a, fields: {id: int, t: timestamp}, event_time: t}
  b: {topic: b, fields: {code: int, t: timestamp}, event_time: t}
operators:
  both: {join: {left: a, right: b, "on": ON, within_s: 60}}
queries: {q: {input: both, sink: {topic: out}}}
"""


@pytest.mark.parametrize(
    ("on", "said"),
    [
        ("[id]", '"on": ["id = code"]'),
        ("[code]", '"on": ["id = code"]'),
        ('["id = id"]', '"on": ["id = code"]'),
        ('["code = id"]', "there is no column 'code'"),
        ('["id = code", "a.id == b.t"]', "'id' and 't' are int on the left and timestamp on the right"),
        ('["id = code", "id = code"]', "a second time"),
        ('["id + 1 = code"]', "an expression"),
        ("{left: id, right: code}", '"on": ["id = code"]'),
        ('"id = code"', '"on": ["id = code"]'),
        ("[nothing]", "on either side"),
    ],
)
def test_a_join_on_columns_that_are_not_there_says_how_columns_of_two_names_are_joined(on: str, said: str) -> None:
    try:
        found = check(interpret(yaml.safe_load(JOIN.replace("ON", on))), []).problems
    except JobRejected as rejected:
        found = list(rejected.problems)
    assert any(said in f"{one.message} {one.hint}" for one in found), found


def test_a_setting_of_a_source_that_is_none_hides_no_type_of_its_fields() -> None:
    source = {"topic": "given", "fields": {**FIELDS, "v": "datetime", "w": "doubl"}, "event_tim": "t"}
    job = {"given": source}
    found = problems({"late": {"filter": "s > 5", "input": "given"}}, sources=job)
    assert [path for path, _ in found] == [
        "sources.given.event_tim", "sources.given.fields.v", "sources.given.fields.w", "operators.late.filter"
    ]  # fmt: skip
    source = {"topic": "given", "fields": {"k": {"type": "string", "metadata": "key.id"}}, "key_format": "avr"}
    assert paths({"late": {"filter": "k = 'a'", "input": "given"}}, sources={"given": source}) == [
        "sources.given.key_format"
    ]
