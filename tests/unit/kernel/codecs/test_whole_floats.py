"""pandas writes integers with nulls as 4.0: taken where an int is expected and nothing is lost; NaN is named."""

from __future__ import annotations

import io

import polars as pl
import pytest

from holdfast.services.kernel.codecs.decoder import Decoded, Decoder

FIELDS = {"a": "int?", "x": "float?", "s": "string?", "m": "decimal(10,2)?"}
NOW = 1_700_000_000_000


def decoded(value: bytes, format: str = "json") -> Decoded:
    return Decoder(FIELDS, format).decode([value], [NOW])


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(
            ("4.0", 4),
            ("-4.00", -4),
            ("0.0", 0),
            ("9223372036854775807.0", 2**63 - 1),
            ("9007199254740993.0", 2**53 + 1),
        ),
        *(("1e3", 1000), ("-1.5E+1", -15), ("10e-1", 1), ("0e5", 0), ("922337203685477580.7e1", 2**63 - 1)),
    ],
)
def test_a_whole_number_is_an_int(text: str, number: int) -> None:
    found = decoded(b'{"a": %s, "x": -0.0, "s": "5.0 \\" 6.0", "m": 1.0}' % text.encode())
    assert found.refused == []
    row = found.rows.row(0, named=True)
    assert (row["a"], str(row["x"]), row["s"], str(row["m"])) == (number, "-0.0", '5.0 " 6.0', "1.00")
    assert decoded(text.encode() + b",2.5,t,", "csv").rows["a"].to_list() == [number]


@pytest.mark.parametrize(
    "text", ["4.5", "9223372036854775808.0", "15e-1", "9223372036854775808e0", "1e19", "1e400", "1e-999"]
)
def test_any_other_number_is_none(text: str) -> None:
    assert "expected int" in decoded(b'{"a": %s}' % text.encode()).refused[0][1]
    assert "expected int" in decoded(text.encode() + b",,,", "csv").refused[0][1]


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_a_value_that_is_no_number_is_named(word: str) -> None:
    assert f"{word} is no JSON value, write null" in decoded(b'{"s": "NaN?", "a": %s}' % word.encode()).refused[0][1]
    assert f"found '{word}'" in decoded(word.encode() + b",,,", "csv").refused[0][1]


def as_arrow(values: list[float | None]) -> bytes:
    out = io.BytesIO()
    pl.DataFrame({"a": pl.Series(values, dtype=pl.Float64)}).write_ipc_stream(out)
    return out.getvalue()


def test_whole_floats_of_an_arrow_column_are_integers() -> None:
    assert decoded(as_arrow([4.0, None, -0.0]), "arrow").rows["a"].to_list() == [4, None, 0]
    assert decoded(as_arrow([4.0, 4.5]), "arrow").refused[0][1].startswith("a: expected int?, found 4.5 in row 1")
    assert (
        "nan in row 0, which is no number: write null"
        in decoded(as_arrow([float("nan")]), "arrow").refused[0][1].lower()
    )
    assert decoded(as_arrow([2.0**63]), "arrow").refused
