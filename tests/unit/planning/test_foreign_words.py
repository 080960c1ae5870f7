"""Words of other stream processors for operators and settings are answered with the word of a job file."""

from __future__ import annotations

import re
from typing import Any

import pytest

from holdfast.schemas.job_operators import OPERATORS
from holdfast.services.planning import foreign_words
from holdfast.services.planning.check import check
from holdfast.services.planning.loader import interpret
from tests.unit.planning.jobs import job, problems


@pytest.mark.parametrize(
    ("operator", "path", "hint"),
    [
        ({"explode": "tags"}, "operators.o", "write unnest: {column: a}"),
        ({"map": "x"}, "operators.o", "write select: "),
        ({"fliter": "x > 1"}, "operators.o", "did you mean 'filter'"),
        ({"select": ["x"], "where": "x > 1"}, "operators.o.where", "write a filter operator before this one"),
        ({"aggregate": {"n": "count()"}, "group_by": ["x"]}, "operators.o.group_by", "did you mean 'key'?"),
        ({"aggregate": {"n": "count()"}, "window": {"size": 60}}, "operators.o.window.size", "did you mean 'size_s'?"),
        ({"top": {"k": 1, "by": "x", "order": "desc"}}, "operators.o.top.order", "did you mean 'descending'?"),
        ({"top": {"limit": 1, "k": 1, "by": "x"}}, "operators.o.top.limit", "did you mean 'k'?"),
    ],
)
def test_a_word_from_elsewhere_is_answered_with_ours(operator: dict[str, Any], path: str, hint: str) -> None:
    found = {one.path: one.hint for one in problems(job({"o": {"input": "s", **operator}}))}
    assert hint in found[path]


def test_a_column_that_a_star_has_already_is_left_out_or_replaced_under_its_name() -> None:
    def hint(*select: str) -> str:
        return check(interpret(job({"o": {"select": list(select), "input": "s"}})), []).problems[0].hint

    assert hint("*", "x") == "leave it out"
    assert hint("*", 'x AS "a.b"', 'x + 1 AS "a.b"') == 'write `* REPLACE (x + 1 AS "a.b")`'


def test_every_hint_names_an_operator_that_is_there() -> None:
    for words, does in foreign_words._OF_OPERATORS.items():
        assert re.match(r"\w+", does)[0] in OPERATORS, does  # type: ignore[index]
        assert not set(words) & set(OPERATORS)
    assert foreign_words.setting_for("tz", {"zone": 1}) == "zone"
    assert foreign_words.setting_for("tz", {"topic": 1}) == ""


@pytest.mark.parametrize(
    ("operator", "path", "hint"),
    [
        ({"sql": "SELECT x FROM s", "input": "s"}, "operators.o.input", "a query reads what FROM and JOIN name"),
        ({"union": ["s", "s"], "inputs": ["s"]}, "operators.o.inputs", "a union reads what it lists"),
        ({"sql": "SELECT x FROM s EMIT CHANGES"}, "operators.o.sql", "leave it out"),
        ({"sql": "SELECT x FROM s WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY x"}, "operators.o.sql", "TUMBLE(ROWTIME"),
        ({"sql": "SELEC x FROM s"}, "operators.o.sql", "did you mean 'SELECT'?"),
    ],
)
def test_inputs_and_clauses_that_are_said_elsewhere_are_answered_with_where(
    operator: dict[str, Any], path: str, hint: str
) -> None:
    raw = job({"o": operator})
    found = {one.path: one.hint for one in problems(raw) or check(interpret(raw), []).problems}
    assert hint in found[path]
