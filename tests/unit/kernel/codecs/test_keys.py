"""Keys: one encoding for what is equal, on every machine and in every batch."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.services.kernel.codecs.fields import schema
from holdfast.services.kernel.codecs.keys import FEW_ROWS, decode, encode, partitions

FIELDS = {
    "s": "string?",
    "i": "int?",
    "f": "float?",
    "b": "bool?",
    "t": "timestamp?",
    "d": "date?",
    "m": "decimal(8,2)?",
    "y": "bytes?",
}
SCHEMA = schema(FIELDS)
COLUMNS = list(FIELDS)
value = {
    "s": st.sampled_from(["", "a", "ä\u0000"]),
    "i": st.integers(-(2**63), 2**63 - 1),
    "f": st.sampled_from([0.0, -0.0, 1.5, math.nan, -math.nan, math.inf]),
    "b": st.booleans(),
    "t": st.datetimes(datetime(1969, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)),
    "d": st.dates(date(1900, 1, 1)),
    "m": st.decimals(-1000, 1000, places=2),
    "y": st.binary(max_size=2),
}
row = st.fixed_dictionaries({name: st.none() | one for name, one in value.items()})


def frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=SCHEMA)


def identity(row: dict[str, Any]) -> tuple[Any, ...]:
    """What makes two keys one."""
    return tuple("nan" if isinstance(v, float) and math.isnan(v) else v for v in map(row.get, COLUMNS))


@given(st.lists(row, max_size=8))
def test_equal_keys_and_only_they_have_one_encoding(rows: list[dict[str, Any]]) -> None:
    encoded = encode(frame(rows), COLUMNS)
    by_key: dict[tuple[Any, ...], bytes] = {}
    for one, key in zip(rows, encoded, strict=True):
        assert by_key.setdefault(identity(one), key) == key
    assert len(set(by_key.values())) == len(by_key)


@given(st.lists(row, max_size=8))
def test_keys_decode(rows: list[dict[str, Any]]) -> None:
    found = decode(encode(frame(rows), COLUMNS), COLUMNS, SCHEMA).to_dicts()
    assert [identity(one) for one in found] == [identity(one) for one in rows]


@given(st.lists(row, max_size=12), st.integers(1, 7))
def test_a_row_s_partition_depends_on_its_key_alone(rows: list[dict[str, Any]], count: int) -> None:
    together = partitions(frame(rows), COLUMNS, count)
    assert together.dtype == np.int64
    assert together.tolist() == [int(partitions(frame([one]), COLUMNS, count)[0]) for one in rows]
    assert all(0 <= partition < count for partition in together)
    assert partitions(frame(rows * FEW_ROWS + rows), COLUMNS, count).tolist() == together.tolist() * (FEW_ROWS + 1)


def test_partitions_are_the_same_in_every_release() -> None:
    """They are part of what is in the log: a change would send a key to another task than its state."""
    rows = frame([{}, {"s": "EWR", "i": 1, "f": -0.0, "t": datetime(2013, 1, 1, tzinfo=UTC), "m": Decimal("1.10")}])
    assert partitions(rows, ["s"], 1000).tolist() == [350, 390]
    assert partitions(rows, COLUMNS, 1000).tolist() == [723, 459]


def test_without_columns_there_is_one_key() -> None:
    assert len(set(encode(frame([{}, {"i": 1}]), []))) == 1
    assert len(set(partitions(frame([{}, {"i": 1}]), [], 5).tolist())) == 1


@pytest.mark.parametrize("rows", [0, 1])
def test_few_rows_are_no_special_case(rows: int) -> None:
    assert len(partitions(frame([{}] * rows), COLUMNS, 3)) == rows
