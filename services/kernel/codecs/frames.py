"""Encoding of rows as frames, and decoding: equal rows give equal bytes.

Source: PROTOCOL 2 and 4 (frames normalised: nulls zeroed, offsets rebased, no dictionaries).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from holdfast.schemas.formats import FIRST
from holdfast.schemas.frames import FLAG_CLOCK, Header

MAX_FRAME_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Sender:
    """The sender of frames, and their format."""

    writer: int
    generation: int
    epoch: int
    format: int = FIRST


def arrow_schema(schema: pl.Schema) -> pa.Schema:
    """The Arrow schema of rows in a frame."""
    return _arrow_schema(tuple(schema.items()))


@lru_cache(maxsize=256)
def _arrow_schema(columns: tuple[tuple[str, pl.DataType], ...]) -> pa.Schema:
    return pl.Schema(columns).to_frame().to_arrow(compat_level=pl.CompatLevel.oldest()).schema


def payload_of(frame: bytes, header: Header) -> memoryview:
    """The payload of a frame, without a copy; its rows are not checked. Raises ValueError if its hash differs from the
    header.
    """
    payload = memoryview(frame)[header.size :]
    if xxhash.xxh3_64_intdigest(payload) != header.payload_hash:
        raise ValueError("the payload is not that of its header")
    return payload


class RowCodec:
    """An encoder of rows of one schema into canonical bytes, and their decoder."""

    def __init__(self, schema: pl.Schema) -> None:
        self.schema = schema
        self.arrow = arrow_schema(schema)
        self._nothing = schema.to_frame()

    def encode(self, rows: pl.DataFrame) -> bytes:
        """Encodes rows as Arrow IPC without schema; equal rows give equal bytes."""
        payload: bytes = self._normal(rows).serialize().to_pybytes()
        return payload

    def pack(self, rows: pl.DataFrame) -> Any:
        """Encodes rows like `encode`, but equal rows may give different bytes: for a reader on this machine. No rows
        give no bytes.
        """
        if not rows.height:
            return b""
        arrays = [_array(rows[field.name], field.type) for field in self.arrow]
        return memoryview(pa.RecordBatch.from_arrays(arrays, schema=self.arrow).serialize())

    def stream(self, rows: pl.DataFrame) -> bytes:
        """Encodes rows as Arrow IPC with the schema, for readers without it; equal rows give equal bytes."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.arrow) as writer:
            writer.write_batch(self._normal(rows))
        payload: bytes = sink.getvalue().to_pybytes()
        return payload

    def decode(self, *payloads: memoryview | bytes) -> pl.DataFrame:
        """The rows of all payloads, in order; an empty payload has none."""
        batches = [pa.ipc.read_record_batch(pa.py_buffer(one), self.arrow) for one in payloads if len(one)]
        if not batches:
            return self._nothing
        frames = [pl.DataFrame(batch) for batch in batches]  # by the C interface: a quarter of from_arrow's time
        return frames[0] if len(frames) == 1 else pl.concat(frames).rechunk()

    def check(self, payload: memoryview | bytes, full: bool = False) -> None:
        """Checks that the payload has the layout of rows of this schema. Raises ValueError if it does not.

        full: also check each value.
        """
        try:
            pa.ipc.read_record_batch(pa.py_buffer(payload), self.arrow).validate(full=full)
        except (pa.ArrowException, OSError, EOFError) as error:
            raise ValueError(f"not rows of the stream: {error}") from error

    def _normal(self, rows: pl.DataFrame) -> pa.RecordBatch:
        """A contiguous batch without slices, dictionaries, or leftover bits and bytes."""
        arrays = [_array(rows[field.name], field.type) for field in self.arrow]
        columns = [array if _clean(array) else _fresh(array) for array in arrays]
        return pa.RecordBatch.from_arrays(columns, schema=self.arrow)


class FrameCodec:
    """An encoder and decoder of the frames of one stream."""

    def __init__(self, schema: pl.Schema, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._rows = RowCodec(schema)
        self._max_frame_bytes = max_frame_bytes
        self._id = xxhash.xxh32_intdigest(str(self._rows.arrow).encode())

    def encode(
        self, rows: pl.DataFrame, sender: Sender, batch: int, watermark: int, flags: int = 0, clock_us: int = 0
    ) -> list[bytes]:
        """Encodes rows as one frame, or as several parts if they are large; no rows give a header alone.

        clock_us: the time at which the batch was cut, microseconds since 1970; 0: the frames hold no time.
        """
        payloads = self._payloads(rows)
        return [
            Header(
                version=sender.format,
                flags=flags | (FLAG_CLOCK if clock_us else 0),
                writer=sender.writer,
                generation=sender.generation,
                batch=batch,
                part=index,
                parts=len(payloads),
                watermark=watermark,
                epoch=sender.epoch,
                schema=self._id,
                payload_hash=xxhash.xxh3_64_intdigest(payload),
                clock_us=clock_us,
            ).pack()
            + payload
            for index, payload in enumerate(payloads)
        ]

    def decode(self, payloads: Sequence[memoryview]) -> pl.DataFrame:
        """The rows of all payloads, in order."""
        return self._rows.decode(*payloads)

    def check(self, header: Header, payload: memoryview) -> None:
        """Checks that the payload has the layout of rows of this stream, but not single values. Raises ValueError
        otherwise.
        """
        if header.schema != self._id:
            raise ValueError(f"schema {header.schema:#x}, expected {self._id:#x}")
        self._rows.check(payload)

    def _payloads(self, rows: pl.DataFrame) -> list[bytes]:
        """Splits rows into payloads; the split depends only on the rows and the limit."""
        if rows.height == 0:
            return [b""]
        whole = self._rows.encode(rows)
        pieces = min(-(-len(whole) // self._max_frame_bytes), rows.height)
        if pieces == 1:
            return [whole]
        step = -(-rows.height // pieces)
        return [self._rows.encode(rows.slice(start, step)) for start in range(0, rows.height, step)]


def _array(column: pl.Series, kind: pa.DataType) -> pa.Array:
    """The Arrow array of a column. Converting a whole table at once costs four times as much."""
    array = column.to_arrow(compat_level=pl.CompatLevel.oldest())
    return array if array.type == kind else array.cast(kind)


def _clean(column: Any) -> bool:
    """True if the buffers hold only the values: no bytes under nulls, no bits after a bitmap."""
    flat = pa.types.is_primitive(column.type) or pa.types.is_large_string(column.type)
    return flat and not pa.types.is_boolean(column.type) and column.null_count == 0 and column.offset == 0


def _fresh(column: Any) -> Any:
    """Copies a column into new, zeroed buffers by `take`.

    The indices come from polars: `pa.array` would load pandas to test its input, which takes 0.2 s and 49 MB in the
    first batch with a null.
    """
    return pc.take(column, pl.int_range(len(column), dtype=pl.Int32, eager=True).to_arrow())
