"""Protobuf messages of plain fields to the columns of a stream, many at once. See protobuf_bytes.py.

A message that does not give the fields, for whatever reason, is odd: the library reads it again and says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from holdfast.services.kernel.codecs import fields as field_types
from holdfast.services.kernel.codecs import timestamps
from holdfast.services.kernel.codecs.protobuf_bytes import PlainField, Stretch, plain_fields, read_plain

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

FEW = 64
"""Below so many messages the library is faster."""
Convert = Callable[[pl.Series], pl.Series]
_TIME = pl.Datetime("us", "UTC")


class PlainReader:
    """Reads the messages of one type. fields: type text by name."""

    def __init__(self, plain: Sequence[PlainField], fields: Mapping[str, str], converts: Mapping[str, Convert]) -> None:
        self._plain, self._fields, self._converts = plain, fields, converts

    @classmethod
    def of(cls, message: Descriptor, fields: Mapping[str, str], unit: str | None) -> PlainReader | None:
        """None: not all fields of the message are plain, or some are wanted as another type than theirs."""
        plain = plain_fields(message)
        if plain is None:
            return None
        empty = Stretch([])
        kinds = {field.name: pl.Series(field.read(empty, np.zeros(0, np.int64))).dtype for field in plain}
        converts = dict[str, Convert]()
        for name, text in fields.items():
            if name in kinds:
                convert = _convert(kinds[name], field_types.required(text), unit)
                if convert is None:
                    return None
                converts[name] = convert
        return cls(plain, fields, converts)

    def read(self, values: Sequence[bytes], skip: int) -> tuple[list[pl.Series], np.ndarray]:
        """A value of each message for each field, and the places of the odd ones, whose values are any."""
        stretch = Stretch(values, skip)
        found = read_plain(stretch, self._plain)
        odd, columns = stretch.odd, list[pl.Series]()
        for name, text in self._fields.items():
            kind = field_types.dtype(text)
            if name in found:
                column = self._converts[name](found[name])
                if column.null_count():
                    lost = column.is_null()
                    odd |= (lost & found[name].is_not_null() if field_types.nullable(text) else lost).to_numpy()
            else:
                column = pl.Series([None], dtype=kind).new_from_index(0, len(values))
            columns.append(column.cast(kind).alias(name))
        return columns, np.flatnonzero(odd)


def _convert(kind: pl.DataType, required: str, unit: str | None) -> Convert | None:
    """Values of a kind as the wanted type; null where they do not fit. None: there is no such way."""
    if required == "timestamp" and kind == pl.Int64 and unit is not None:
        return lambda values: timestamps.scaled(values, unit).cast(_TIME)  # type: ignore[arg-type]
    if required == "float" and kind == pl.Int64:
        return lambda values: values.cast(pl.Float64)
    wanted = field_types.SIMPLE.get(required)
    return (lambda values: values) if wanted is not None and wanted == kind else None
