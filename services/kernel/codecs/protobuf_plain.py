"""Decoding of Protobuf messages of plain fields into columns, many at once. See protobuf_bytes.py.

A message that does not give the fields is odd, for any reason: the library reads it again and reports the error.
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
"""The number of messages below which the library is faster."""
Convert = Callable[[pl.Series], pl.Series]
_TIME = pl.Datetime("us", "UTC")


class PlainReader:
    """A reader of the messages of one type.

    fields: the type text of each field.
    """

    def __init__(self, plain: Sequence[PlainField], fields: Mapping[str, str], converts: Mapping[str, Convert]) -> None:
        self._plain = plain
        self._fields = fields
        self._converts = converts

    @classmethod
    def of(cls, message: Descriptor, fields: Mapping[str, str], unit: str | None) -> PlainReader | None:
        """The reader for a message type; None if some of its fields are not plain or cannot be converted to the field
        type.
        """
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
        """The values of each field, and the positions of the odd messages, whose values are arbitrary."""
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
    """A function that converts values to the wanted type, with null if a value does not fit; None if no conversion
    exists.
    """
    if required == "timestamp" and kind == pl.Int64 and unit is not None:
        return lambda values: timestamps.scaled(values, unit).cast(_TIME)  # type: ignore[arg-type]
    if required == "float" and kind == pl.Int64:
        return lambda values: values.cast(pl.Float64)
    wanted = field_types.SIMPLE.get(required)
    return (lambda values: values) if wanted is not None and wanted == kind else None
