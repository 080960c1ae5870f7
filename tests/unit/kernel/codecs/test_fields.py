"""Field types: texts of a job file to polars types and back, and what is said of a mistake."""

from __future__ import annotations

import re

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.services.kernel.codecs.fields import (
    dtype,
    members,
    nullable,
    optional,
    required,
    schema,
    text_of,
    with_time,
)
from holdfast.services.kernel.codecs.foreign_types import meant

UTC = pl.Datetime("us", "UTC")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("string", pl.String()),
        ("int?", pl.Int64()),
        (" float ? ", pl.Float64()),
        ("bool", pl.Boolean()),
        ("timestamp", UTC),
        ("date", pl.Date()),
        ("bytes", pl.Binary()),
        ("decimal(10,2)", pl.Decimal(10, 2)),
        ("decimal( 10 , 2 )?", pl.Decimal(10, 2)),
        ("list<int?>", pl.List(pl.Int64())),
        ("list<list<string>>?", pl.List(pl.List(pl.String()))),
        (
            "struct<a: int, b: list<decimal(4,1)>?, c: struct<d: string?>>",
            pl.Struct({"a": pl.Int64(), "b": pl.List(pl.Decimal(4, 1)), "c": pl.Struct({"d": pl.String()})}),
        ),
    ],
)
def test_a_type_is_read(text: str, kind: pl.DataType) -> None:
    assert dtype(text) == kind


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("strng", "unknown type 'strng', did you mean 'string'?"),
        ("", "unknown type ''"),
        ("datetime", "did you mean 'timestamp'?"),
        ("double?", "unknown type 'double', did you mean 'float?'?"),
        ("VARCHAR(20)", "did you mean 'string'?"),
        ("INT", "did you mean 'int'?"),
        ("array<int>", "unknown type 'array<int>', did you mean 'list<int>'?"),
        ("list<strng>", "unknown type 'strng', did you mean 'string'?"),
        ("list<int", "unknown type 'list<int'"),
        ("decimal", "did you mean 'decimal(p,s)'?"),
        ("decimal(39,2)", "precision is 1 to 38"),
        ("decimal(2,3)", "scale at most precision"),
        ("struct<a int>", "'a int' in 'struct<a int>' is no field: did you mean 'struct<a: int>'?"),
        ("struct<>", "is no field"),
        ("struct<a: int, a: string>", "two fields 'a'"),
    ],
)
def test_a_mistake_is_explained(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        dtype(text)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("bigint NOT NULL", "int"), ("double precision", "float"), ("timestamp with time zone", "timestamp"),
        ("numeric(10,2)", "decimal(10,2)"), ("Nullable(Int64)", "int?"), ("string | null", "string?"),
        ("datetime64[ns]", "timestamp"), ("LongType()", "int"), ("nvarchar(20)", "string"), ("json", "struct<...>"),
        ("string[]", "list<string>"), ("Array(Nullable(String))", "list<string?>"),
        ("map(string,bigint)", "map<string, int>"),
        ("ROW<a INT, b ARRAY<VARCHAR>>", "struct<a: int, b: list<string>>"), ("list<" * 30, "list<...>"),
    ],
)  # fmt: skip
def test_types_of_other_systems_are_translated_whole(text: str, wanted: str) -> None:
    assert meant(text) == wanted
    with pytest.raises(ValueError, match=re.escape(f"did you mean '{wanted}'?")):
        dtype(text)


simple = st.sampled_from(["string", "int", "float", "bool", "timestamp", "date", "bytes", "decimal(10,2)"])
types = st.recursive(
    simple,
    lambda inner: st.one_of(
        inner.map(lambda text: f"list<{text}?>"),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda some: f"struct<{', '.join(f'f{i}: {text}?' for i, text in enumerate(some))}>"
        ),
    ),
    max_leaves=5,
)


@given(types, st.booleans())
def test_a_type_reads_back_from_its_text(text: str, null: bool) -> None:
    assert text_of(dtype(text), null) == (f"{text}?" if null else text)


def test_narrow_numbers_are_numbers() -> None:
    assert text_of(pl.UInt32()) == "int?"
    assert text_of(pl.Float32(), may_be_null=False) == "float"


def test_a_type_that_no_stream_has_is_refused() -> None:
    with pytest.raises(ValueError, match="is no type of a field: subtract seconds"):
        text_of(pl.Duration("us"))


def test_a_question_mark_allows_null() -> None:
    assert nullable("list<int>?")
    assert not nullable("list<int?>")
    assert (required("int?"), optional("int"), optional("int?")) == ("int", "int?", "int?")


def test_a_struct_has_members() -> None:
    assert members("struct<a: int, b: list<struct<c: int, d: int>>>?") == {
        "a": "int",
        "b": "list<struct<c: int, d: int>>",
    }


def test_the_event_time_is_the_last_column() -> None:
    assert list(with_time(schema({"a": "int", "t": "timestamp"})).items()) == [
        ("a", pl.Int64),
        ("t", UTC),
        ("_time", pl.Int64),
    ]
