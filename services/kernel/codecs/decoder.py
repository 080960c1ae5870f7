"""Decoding of records of a user's topic into rows of a source, and into dead letters with a reason.

Source: PROTOCOL 3. The result for a record never depends on other records.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Protocol

import numpy as np
import polars as pl

from holdfast.schemas.source_settings import MAX_AHEAD_S
from holdfast.services.kernel.codecs import fields as field_types
from holdfast.services.kernel.codecs.arrow_records import ArrowReader, UnfitRecord
from holdfast.services.kernel.codecs.csv_form import PLAIN, CsvForm
from holdfast.services.kernel.codecs.fields import TIME, with_time
from holdfast.services.kernel.codecs.metadata import Metadata, MetadataColumns
from holdfast.services.kernel.codecs.registered import KINDS, NO_SCHEMAS, Registered, RegisteredReader, Schemas
from holdfast.services.kernel.codecs.text_columns import FORMATS, Columns, TextColumns
from holdfast.services.kernel.plurals import digits

"""The default limit in seconds: an event time further ahead of its record's timestamp is wrong, and would make later
records late.
"""


@dataclass(frozen=True, slots=True)
class Decoded:
    """Decoded records.

    rows: the rows with their event time.
    kept: the index of each row's record, ascending.
    refused: index and reason of each refused record.
    unknown: schema ids of the records that their registry does not know.
    """

    rows: pl.DataFrame
    kept: np.ndarray
    refused: list[tuple[int, str]]
    unknown: tuple[int, ...] = ()


class Times(Protocol):
    """A computation of event times.

    text: its expression, for messages.
    """

    text: str

    def of(self, columns: Sequence[pl.Series]) -> tuple[pl.Series, dict[int, str]]:
        """Returns microseconds since 1970 (null for no time), and the known errors by position.

        columns: the columns of the rows.
        """
        ...


Refuse = Callable[[int, str], None]
"""A function that takes a row's position and the reason."""


class Decoder:
    """A decoder for the records of one source.

    Args:
        fields: the type text of each column.
        format: json, csv, text, arrow, avro, json-schema or protobuf.
        event_time: the column with the event time, or its computation; None: the record's timestamp.
        unit: s, ms, us or ns of timestamps that are integers.
        origins: by column, the name in the record if it differs.
        max_ahead_s: the limit in seconds for an event time ahead of its record's timestamp; None: no limit.
        clamps: True: an event time beyond the limit becomes the record's timestamp; False: the record is refused.
        schemas: the registry's schemas for avro, json-schema and protobuf.
        form: the form of CSV.
        about: the reader of metadata columns; None: there are none.
        subject: see RegisteredReader.
        stops: see RegisteredReader.
    """

    def __init__(
        self,
        fields: Mapping[str, str],
        format: str = "json",
        event_time: str | Times | None = None,
        unit: str | None = None,
        origins: Mapping[str, str] = MappingProxyType({}),
        max_ahead_s: float | None = MAX_AHEAD_S,
        clamps: bool = False,
        schemas: Schemas = NO_SCHEMAS,
        form: CsvForm = PLAIN,
        about: MetadataColumns | None = None,
        subject: str = "",
        stops: bool = False,
    ) -> None:
        self._clamps = clamps
        self._about = about
        self._fields = dict(fields)
        self._event_time = event_time
        self._max_ahead_s = max_ahead_s
        names = [name for name in fields if about is None or name not in about.names]
        written = {origins.get(name, name): fields[name] for name in names}
        self._nothing = with_time(field_types.schema(fields)).to_frame()
        self._tables = ArrowReader(written) if format == "arrow" else None
        self._in_value = names
        self._registered = None
        if format in KINDS:
            self._registered = RegisteredReader(
                written, names, format, unit, schemas=schemas, subject=subject, stops=stops
            )
        self._texts = TextColumns(written, names, format, unit, form=form) if format in FORMATS else None

    def decode(
        self,
        values: Sequence[bytes | None],
        timestamps_ms: Sequence[int],
        unknown: Collection[int] | None = None,
        metadata: Metadata | None = None,
    ) -> Decoded:
        """Decodes records: one row for each record that fits, many rows for an Arrow record.

        Args:
            timestamps_ms: the timestamps of the records; negative: none.
            unknown: the schema ids that count as unknown; None: ask the registry.
            metadata: the metadata of the records, if columns hold some.
        """
        if not values:
            return Decoded(self._nothing, np.zeros(0, dtype=np.int64), [])
        if self._tables is not None:
            return self._decode_tables(self._tables, values, timestamps_ms, metadata, unknown=unknown)
        found: Columns | Registered
        lacking: tuple[int, ...] = ()
        if self._registered is not None:
            found = self._registered.read(values, unknown)
            lacking = found.unknown
        else:
            assert self._texts is not None
            found = self._texts.read(values)
        kept, refused = found.kept, found.refused

        def refuse(position: int, reason: str) -> None:
            refused.setdefault(int(kept[position]), reason)

        stamps_us = np.asarray(timestamps_ms, dtype=np.int64)[kept] * 1_000
        columns, of_keys = self._with_metadata(found.columns, metadata, kept, refuse, unknown=unknown)
        lacking = tuple(sorted({*lacking, *of_keys}))
        rows = pl.DataFrame([*columns, self._times(columns, stamps_us, refuse).alias(TIME)])
        if refused and not (fits := ~np.isin(kept, list(refused))).all():
            rows, kept = rows.filter(pl.Series(fits)), kept[fits]
        return Decoded(rows, kept, sorted(refused.items()), lacking)

    def _with_metadata(
        self,
        columns: list[pl.Series],
        metadata: Metadata | None,
        kept: np.ndarray,
        refuse: Refuse,
        unknown: Collection[int] | None,
    ) -> tuple[list[pl.Series], tuple[int, ...]]:
        """The columns of values and metadata in the order of the fields, and the schema ids of keys that are
        unknown.
        """
        if self._about is None:
            return columns, ()
        assert metadata is not None
        whole = np.array_equal(kept, np.arange(len(metadata.offsets)))
        found, lacking = self._about.read(metadata if whole else metadata.at(kept), refuse, unknown)
        found |= zip(self._in_value, columns, strict=True)
        return [found[name] for name in self._fields], lacking

    def _decode_tables(
        self,
        reader: ArrowReader,
        values: Sequence[bytes | None],
        timestamps_ms: Sequence[int],
        metadata: Metadata | None,
        unknown: Collection[int] | None,
    ) -> Decoded:
        """Decodes Arrow records. A bad row refuses its whole record: only whole records can be dead-lettered and
        resent.
        """
        names = self._in_value
        tables, heights, refused = (
            [_named(reader.nothing, names)],
            np.zeros(len(values), dtype=np.int64),
            dict[int, str](),
        )
        for index, value in enumerate(values):
            try:
                tables.append(_named(reader.read(value), names))
                heights[index] = tables[-1].height
            except UnfitRecord as error:
                refused[index] = str(error)
        rows = pl.concat(tables)
        kept, first = np.repeat(np.arange(len(values)), heights), np.cumsum(heights) - heights

        def refuse(position: int, reason: str) -> None:
            record = int(kept[position])
            refused.setdefault(record, f"{reason} in row {position - int(first[record])}")

        stamps_us = np.asarray(timestamps_ms, dtype=np.int64)[kept] * 1_000
        columns, lacking = self._with_metadata(rows.get_columns(), metadata, kept, refuse, unknown=unknown)
        rows = pl.DataFrame([*columns, self._times(columns, stamps_us, refuse).alias(TIME)])
        fits = ~np.isin(kept, list(refused))
        if not fits.all():
            rows, kept = rows.filter(pl.Series(fits)), kept[fits]
        return Decoded(rows, kept, sorted(refused.items()), lacking)

    def _times(self, columns: Sequence[pl.Series], stamps_us: np.ndarray, refuse: Refuse) -> pl.Series:
        """Event times in microseconds; refuses rows without a usable one."""
        if self._event_time is None:
            for position in np.flatnonzero(stamps_us < 0).tolist():
                refuse(position, "the record has no timestamp")
            return pl.Series(stamps_us)
        name, given = self._given(columns, refuse)
        for position in given.is_null().arg_true().to_list() if given.null_count() else ():
            refuse(position, f"{name}: the event time is null")
        times = given.fill_null(0) if given.null_count() else given
        if self._max_ahead_s is None:
            return times
        ahead = (stamps_us >= 0) & (times.to_numpy() - stamps_us > round(self._max_ahead_s * 1_000_000))
        if self._clamps:
            return pl.Series(np.where(ahead, stamps_us, times.to_numpy()))
        for position in np.flatnonzero(ahead).tolist():
            far = "1 h" if self._max_ahead_s == MAX_AHEAD_S else f"{digits(self._max_ahead_s)} s"
            refuse(position, f"{name}: {_iso(times[position])} is more than {far} ahead of the record's timestamp")
        return times

    def _given(self, columns: Sequence[pl.Series], refuse: Refuse) -> tuple[str, pl.Series]:
        """The name and values of the event time."""
        if self._event_time is None or isinstance(self._event_time, str):
            name = self._event_time or ""
            return name, columns[list(self._fields).index(name)].cast(pl.Datetime("us")).cast(pl.Int64)
        times, failed = self._event_time.of(columns)
        for position, reason in failed.items():
            refuse(position, f"{self._event_time.text}: {reason}")
        return self._event_time.text, times


def _named(rows: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """The columns renamed to the names of the stream."""
    return (
        rows
        if rows.columns == list(names)
        else pl.DataFrame([column.alias(name) for column, name in zip(rows.get_columns(), names, strict=True)])
    )


def _iso(microseconds: int) -> str:
    return f"{(datetime(1970, 1, 1) + timedelta(microseconds=microseconds)).isoformat()}Z"
