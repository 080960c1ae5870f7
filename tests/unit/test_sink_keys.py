"""The key of a sink's records: a JSON array, the one key column as text, or a column that is named."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from holdfast.schemas.plans import OperatorPlan
from holdfast.services.kernel.codecs.json_encoder import text_keys
from holdfast.services.kernel.dataflow.sink_records import sink_records
from holdfast.services.kernel.plans.layout import TaskLayout
from holdfast.services.planning.check import check
from holdfast.services.planning.loader import interpret
from tests.unit.planning.jobs import job, plan, query, source

ROWS = pl.DataFrame({"user": ["user-1", '\u00e4 "b"', None], "n": [1, 2, 3]})
FIELDS = {"user": "string?", "n": "int"}


def keys(row_key: tuple[str, ...] = ("user",), **params: Any) -> list[bytes | None] | None:
    given = {"query": "q", "topic": "out", "format": "json", "partitions": 3, "commit_interval_ms": 0, **params}
    operator = OperatorPlan("sink-q", "sink", 1, ("o",), given, FIELDS, row_key)
    found = sink_records(TaskLayout("sink-q-0", 0, operator, (), (), (), None), ROWS, 5).keys
    return None if found is None else list(found)


AS_JSON = [b'["user-1"]', '["\u00e4 \\"b\\""]'.encode(), b"[null]"]


def test_a_job_of_before_and_json_have_a_json_array() -> None:
    assert keys() == keys(key="json") == AS_JSON
    assert keys(row_key=()) is None


def test_text_is_the_column_that_identifies_a_row() -> None:
    assert keys(key="text") == [b"user-1", '\u00e4 "b"'.encode(), None]


def test_a_column_that_is_named_is_the_key_also_of_rows_that_nothing_identifies() -> None:
    assert keys(key="n") == keys(row_key=(), key="n") == [b"1", b"2", b"3"]


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([True, None], pl.Boolean(), [b"true", None]),
        ([1.5, float("nan"), -0.0], pl.Float64(), [b"1.5", b"nan", b"0.0"]),
        ([Decimal("1.50")], pl.Decimal(10, 2), [b"1.50"]),
        ([datetime(2024, 2, 29, tzinfo=UTC)], pl.Datetime("us", "UTC"), [b"2024-02-29T00:00:00.000000Z"]),
        ([b"\x00\xff", None], pl.Binary(), [b"\x00\xff", None]),
    ],
)
def test_a_value_as_text(values: list[Any], kind: pl.DataType, expected: list[bytes | None]) -> None:
    assert text_keys(pl.Series(values, dtype=kind)) == expected


def problems(written: str, format: str = "json", **operator: Any) -> list[tuple[str, str]]:
    raw = job(
        {"o": {"aggregate": {"n": "count()"}, "input": "s", **operator}},
        {"s": source()},
        {"q": query("o") | {"sink": {"topic": "out", "key": written, "format": format}}},
    )
    return [(one.path, one.hint) for one in check(interpret(raw), []).problems]


def test_check_says_what_can_be_a_key() -> None:
    assert problems("text", key=["x"]) == problems("n", key=["x"]) == problems("json", key=["x", "y"]) == []
    ((path, hint),) = problems("text", key=["x", "y"])
    assert path == "queries.q.sink.key"
    assert "x, y, n" in hint
    ((_, hint),) = problems("txet", key=["x"])
    assert "did you mean 'text'" in hint
    assert problems("text", "arrow", key=["x"])


def test_the_plan_carries_the_key() -> None:
    raw = job(
        {"o": {"filter": "x > 1", "input": "s"}}, queries={"q": {"input": "o", "sink": {"topic": "out", "key": "x"}}}
    )
    (sink,) = (one for one in plan(raw).operators if one.kind == "sink")
    assert sink.params["key"] == "x"
