"""PROTOCOL 2 and 4: equal rows give equal bytes."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal

import numpy as np
import polars as pl
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas.frames import HEADER_BYTES, unpack
from holdfast.services.kernel.codecs.frames import FrameCodec, Sender

SENDER = Sender(writer=3, generation=9, epoch=2)
SCHEMA = pl.Schema({"k": pl.String, "n": pl.Int64, "x": pl.Float64, "b": pl.Boolean, "_time": pl.Int64})


def decode(codec: FrameCodec, frames: list[bytes]) -> pl.DataFrame:
    return codec.decode([memoryview(frame)[HEADER_BYTES:] for frame in frames])


rows = st.lists(
    st.fixed_dictionaries(
        {
            "k": st.none() | st.text(max_size=8),
            "n": st.none() | st.integers(-(2**63), 2**63 - 1),
            "x": st.none() | st.floats(),
            "b": st.none() | st.booleans(),
            "_time": st.integers(-(2**40), 2**40),
        }
    ),
    max_size=20,
)


@given(rows)
def test_rows_come_back_as_they_were(some: list[dict[str, object]]) -> None:
    codec = FrameCodec(SCHEMA)
    frame = pl.DataFrame(some, schema=SCHEMA)
    encoded = codec.encode(frame, SENDER, 5, 77)
    assert decode(codec, encoded if some else []).equals(frame)
    header = unpack(encoded[0])
    assert (header.writer, header.generation, header.batch, header.watermark, header.parts) == (3, 9, 5, 77, 1)


def test_no_rows_are_a_header_alone() -> None:
    (frame,) = FrameCodec(SCHEMA).encode(SCHEMA.to_frame(), SENDER, 1, 0)
    assert len(frame) == HEADER_BYTES


def test_a_payload_without_bytes_has_no_rows() -> None:
    codec = FrameCodec(SCHEMA)
    assert codec.decode([memoryview(b"")]).equals(codec.decode([]))


@given(rows, st.data())
def test_earlier_cuts_and_joins_of_rows_do_not_show(some: list[dict[str, object]], data: st.DataObject) -> None:
    frame = pl.DataFrame(some, schema=SCHEMA)
    at = data.draw(st.integers(0, len(some)))
    joined = pl.concat([frame.slice(0, at), frame.slice(at)], rechunk=False)
    sliced = pl.concat([frame, frame]).slice(len(some), len(some))
    codec = FrameCodec(SCHEMA)
    assert codec.encode(joined, SENDER, 1, 0) == codec.encode(frame, SENDER, 1, 0) == codec.encode(sliced, SENDER, 1, 0)


def test_bytes_under_nulls_do_not_show() -> None:
    mask = np.array([False, True, False])
    dirty, clean = (pa.array(np.array([1, junk, 3]), mask=mask) for junk in (999, 0))
    schema = pl.Schema({"n": pl.Int64})
    codec = FrameCodec(schema)
    frames = [codec.encode(pl.DataFrame({"n": pl.from_arrow(a)}, schema=schema), SENDER, 1, 0) for a in (dirty, clean)]
    assert frames[0] == frames[1]


def test_many_rows_split_into_parts_that_depend_on_nothing_else() -> None:
    schema = pl.Schema({"k": pl.String})
    frame = pl.DataFrame({"k": [f"{i:0100}" for i in range(1000)]}, schema=schema)
    codec = FrameCodec(schema, max_frame_bytes=20_000)
    parts = codec.encode(frame, SENDER, 1, 0)
    assert len(parts) > 4
    assert [(unpack(p).part, unpack(p).parts) for p in parts] == [(i, len(parts)) for i in range(len(parts))]
    assert parts == codec.encode(frame.clone(), SENDER, 1, 0)
    assert decode(codec, parts).equals(frame)


def test_every_field_type_passes_through() -> None:
    schema = pl.Schema(
        {
            "t": pl.Datetime("us", "UTC"),
            "d": pl.Date(),
            "p": pl.Decimal(12, 2),
            "raw": pl.Binary(),
            "l": pl.List(pl.Int64),
            "s": pl.Struct({"a": pl.Int64, "b": pl.String}),
        }
    )
    row = {
        "t": datetime(1969, 7, 20, tzinfo=UTC),
        "d": datetime(1969, 7, 20).date(),
        "p": Decimal("-12.30"),
        "raw": b"\x00\xff",
        "l": [1, None, 3],
        "s": {"a": 1, "b": None},
    }
    frame = pl.DataFrame([row, dict.fromkeys(row)], schema=schema)
    codec = FrameCodec(schema)
    assert decode(codec, codec.encode(frame, SENDER, 1, 0)).equals(frame)


def test_a_null_does_not_load_pandas() -> None:
    """It would in the first batch with one, in the loop of the worker: 0.2 s of CPU, and 49 MB."""
    program = (
        "import sys, polars as pl; from holdfast.services.kernel.codecs.frames import RowCodec;"
        "rows = pl.DataFrame({'n': [1, None]}); RowCodec(rows.schema).encode(rows); assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
