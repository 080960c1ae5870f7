"""The list of functions: each example is run, and the docs and the table against DuckDB are those of the list."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from holdfast.services.cli.commands import app
from holdfast.services.kernel.codecs.fields import text_of
from holdfast.services.kernel.codecs.json_encoder import encode_json
from holdfast.services.kernel.expressions.parsing import compile_expression, computing, result_type
from holdfast.services.kernel.functions import page
from holdfast.services.kernel.functions.aggregates import AGGREGATES, EXAMPLE_ROWS
from holdfast.services.kernel.functions.catalogue import BY_NAME, OF_ONE_ROW
from holdfast.services.kernel.functions.function import Function
from holdfast.services.kernel.operators import accumulators, aggregate_texts
from holdfast.services.kernel.operators.grouping import Grouping
from holdfast.services.kernel.operators.operator import TIME
from tests.support.sql_table import TABLE

SYNTAX = {"CASE", "IN", "AS", "DECIMAL", "BOTH"}
"""Words before a bracket that are no functions, or are functions without one."""


def plain(values: pl.Series) -> Any:
    return json.loads(encode_json(values.alias("v").to_frame(), {"v": text_of(values.dtype)})[0])["v"]


def test_the_example_of_every_function_gives_its_value() -> None:
    rows = pl.DataFrame({"x": [1]})
    found = {}
    for one in OF_ONE_ROW:
        made = compile_expression(one.example, rows.schema)
        assert result_type(made, rows.schema) is not None
        found[one.name] = plain(computing([made.alias("v")])(rows)["v"])
    assert found == {one.name: one.value for one in OF_ONE_ROW}


@pytest.mark.parametrize("one", AGGREGATES, ids=lambda one: one.name)
def test_the_example_of_every_aggregate_gives_its_value(one: Function) -> None:
    rows = pl.DataFrame(EXAMPLE_ROWS).with_columns(pl.int_range(pl.len()).alias(TIME))
    grouping = Grouping([], aggregate_texts.parse("v", one.example, rows.schema).aggregates)
    _, memory = grouping.reduce(rows, TIME)
    assert plain(grouping.values(memory)[0]) == one.value


def test_aggregates_of_the_list_are_those_that_check_takes() -> None:
    assert {one.name for one in AGGREGATES} - {"count_if", "median"} == set(accumulators.FUNCTIONS)


def test_every_function_is_held_against_duckdb_under_each_of_its_names() -> None:
    """And no function is, that the list does not name."""
    texts = [entry if isinstance(entry, str) else entry[0] for entry in TABLE]
    tried = {word.upper() for text in texts for word in re.findall(r"(\w+)\s*\(", re.sub(r"'[^']*'", "''", text))}
    assert tried - SYNTAX == set(BY_NAME) - SYNTAX


def test_the_page_of_functions_is_that_of_the_list() -> None:
    kept = Path(__file__).parents[3] / "docs" / "functions.md"
    assert kept.read_text(encoding="utf-8") == page.markdown(), "holdfast functions --markdown > docs/functions.md"


def test_the_command_finds_a_function_by_its_name_or_by_words() -> None:
    shown = CliRunner().invoke(app, ["functions", "datediff"]).stdout
    assert "DATE_DIFF('unit', earlier: time, later: time) -> int" in shown
    assert "TIMESTAMP '2024-02-29 12:00:00') = 2" in shown
    listed = json.loads(CliRunner().invoke(app, ["functions", "--search", "regular expression", "--json"]).stdout)
    assert {"REGEXP_EXTRACT", "REGEXP_LIKE"} <= {one["name"] for one in listed}
    assert CliRunner().invoke(app, ["functions", "date_trunk"]).exit_code != 0
