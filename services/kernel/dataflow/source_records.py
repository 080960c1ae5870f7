"""Decoding of a source's records into rows: rows of a stream, or rows and deletions of a table.

Source: PROTOCOL 3. Workers and replays decode alike.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import polars as pl

from holdfast.schemas.plans import OperatorPlan
from holdfast.schemas.source_settings import SourceSettings
from holdfast.services.kernel.codecs.change_records import OP, ChangeReader
from holdfast.services.kernel.codecs.csv_form import PLAIN, CsvForm
from holdfast.services.kernel.codecs.decoder import Decoded, Decoder
from holdfast.services.kernel.codecs.deletions import BareKeys, Deletions
from holdfast.services.kernel.codecs.fields import DELETED, schema, with_time
from holdfast.services.kernel.codecs.metadata import KEY, NOTHING_WANTED, Metadata, MetadataColumns, Wanted
from holdfast.services.kernel.codecs.registered import HEADER, KINDS, NO_SCHEMAS, WHOLE, Schemas
from holdfast.services.kernel.codecs.registered_keys import KeyReader, KeySettings, RegisteredDeletions
from holdfast.services.kernel.dataflow.event_time import EventTime, computed

Key = bytes | None
Keys = Mapping[int, Key]
"""The keys of records without a value, by position."""


class SourceDecoder:
    """A decoder for the records of one source.

    Args:
        operator: the source as planned.
        schemas: the schemas of the registry, for formats whose records name their schema.
    """

    def __init__(self, operator: OperatorPlan, schemas: Schemas = NO_SCHEMAS) -> None:
        source = operator.source
        key, unit = source.table, source.unit
        header = HEADER if source.format in KINDS else 0
        self._changes = ChangeReader(bool(key), header) if source.envelope else None
        added = {DELETED} if self._changes is None else {DELETED, OP}
        fields = {name: kind for name, kind in operator.fields.items() if name not in added or (key and name == OP)}
        # only the order of a table's records matters, so its event time is the timestamp of the record
        written = None if key else source.event_time
        event_time = EventTime(written, unit, fields) if written and computed(written, fields) else written
        origins, about, keys = source.origins, source.metadata, key_settings(source, schemas)
        named = _of_keys(about) if keys is not None else {}
        reader = KeyReader(fields, named, keys) if keys is not None and named else None
        self.about = MetadataColumns(fields, about, source.topic or "", reader) if about else None
        self._rows = Decoder(
            fields,
            source.format,
            event_time,
            unit,
            origins=origins,
            max_ahead_s=source.max_ahead_s,
            clamps=source.on_ahead == "clamp",
            schemas=schemas,
            form=csv_form(source),
            about=self.about,
            subject=subject_of(source.topic, source.subject, source.subject_strategy, source.record),
            stops=source.on_schema_change == "fail",
        )
        self._deletions: Deletions | BareKeys | RegisteredDeletions | None = None
        if key and keys is not None:
            self._deletions = RegisteredDeletions(
                fields, {name: named.get(name, origins.get(name, name)) for name in key}, keys
            )
        elif key and key[0] in about:
            self._deletions = BareKeys(key[0], fields[key[0]])
        elif key:
            self._deletions = Deletions(fields, key, unit, origins)
        self._skips_null = source.null_records == "skip"
        self._schema = with_time(schema(operator.fields))

    def decode(
        self,
        values: Sequence[bytes | None],
        timestamps_ms: Sequence[int],
        keys: Keys,
        unknown: Collection[int] | None = None,
        metadata: Metadata | None = None,
    ) -> Decoded:
        """Decodes records into rows; records that do not fit are refused.

        Args:
            values: the values of the records.
            timestamps_ms: the timestamps of the records; negative: none.
            keys: the keys of deletions, by position.
            unknown: the schema ids that count as unknown; None: ask the registry.
            metadata: the metadata of the records, if columns hold some.
        """
        if self._changes is None:
            return self._decode(values, timestamps_ms, keys, unknown, metadata)
        changed = self._changes.read(values, keys)
        stamps = [timestamps_ms[place] for place in changed.at]
        about = None if metadata is None else metadata.at(changed.at)
        found = self._decode(changed.values, stamps, changed.keys, unknown, about)
        rows = found.rows
        if self._deletions is None:
            ops = pl.Series(OP, changed.ops, dtype=pl.String)[found.kept]
            rows = rows.with_columns(ops).select(self._schema.names())
        moved = _moved(found, changed.at)
        return Decoded(rows, moved.kept, sorted([*moved.refused, *changed.refused]), found.unknown)

    def _decode(
        self,
        values: Sequence[bytes | None],
        timestamps_ms: Sequence[int],
        keys: Keys,
        unknown: Collection[int] | None,
        metadata: Metadata | None,
    ) -> Decoded:
        if self._deletions is None and not (self._skips_null and None in values):
            return self._rows.decode(values, timestamps_ms, unknown, metadata)
        gone = [index for index, value in enumerate(values) if value is None] if None in values else []
        if not gone and self._deletions is not None:
            return self._marked(self._rows.decode(values, timestamps_ms, unknown, metadata))
        there = [index for index, value in enumerate(values) if value is not None]
        stamps = [timestamps_ms[index] for index in there]
        about = None if metadata is None else metadata.at(there)
        rows = self._rows.decode([values[index] for index in there], stamps, unknown, about)
        if self._deletions is None:
            return _moved(rows, there)
        stamps = [timestamps_ms[index] for index in gone]
        deleted = self._deletions.decode([keys[index] for index in gone], stamps, unknown)
        return self._merged(_moved(rows, there), _moved(deleted, gone))

    def _marked(self, decoded: Decoded) -> Decoded:
        """Adds the mark of deletions to rows that delete nothing."""
        mark = pl.Series(DELETED, [None], dtype=pl.Boolean).new_from_index(0, decoded.rows.height)
        rows = decoded.rows.with_columns(mark).select(self._schema.names())
        return Decoded(rows, decoded.kept, decoded.refused, decoded.unknown)

    def _merged(self, rows: Decoded, deleted: Decoded) -> Decoded:
        """Merges rows and deletions in the order of the records; a deletion is null in all columns but its key."""
        marks = deleted.rows.with_columns(pl.lit(True).alias(DELETED))
        both = pl.concat([rows.rows, marks], how="diagonal").select(self._schema.names())
        kept = np.concatenate([rows.kept, deleted.kept])
        order = np.argsort(kept, kind="stable")
        unknown = tuple(sorted({*rows.unknown, *deleted.unknown}))
        return Decoded(both[order], kept[order], sorted([*rows.refused, *deleted.refused]), unknown)


def csv_form(source: SourceSettings) -> CsvForm:
    """The form of the rows of a source of format csv."""
    csv = source.csv
    return PLAIN if csv is None else CsvForm(csv.delimiter, csv.quote, csv.null_words)


def wanted_of(source: SourceSettings) -> Wanted:
    """The metadata that a source needs of its records."""
    about = source.metadata
    return MetadataColumns(dict.fromkeys(about, ""), about, "").wanted if about else NOTHING_WANTED


def _moved(decoded: Decoded, at: Sequence[int]) -> Decoded:
    """The decoded rows with the positions of their records among all records."""
    where = np.asarray(at, dtype=np.int64)
    refused = [(at[index], reason) for index, reason in decoded.refused]
    return Decoded(decoded.rows, where[decoded.kept], refused, decoded.unknown)


def _of_keys(about: Mapping[str, str]) -> dict[str, str]:
    """The field of the key that each column holds; WHOLE if the column holds the key itself."""
    return {name: what.removeprefix(KEY) if what != "key" else WHOLE
            for name, what in about.items() if what == "key" or what.startswith(KEY)}  # fmt: skip


def key_settings(source: SourceSettings, schemas: Schemas) -> KeySettings | None:
    """The settings of keys that name their schema; None if keys name no schema."""
    if source.key_format is None:
        return None
    stops = source.on_schema_change == "fail"
    return KeySettings(source.key_format, source.unit, schemas, f"{source.topic}-key", stops=stops)


def subject_of(topic: str | None, subject: str | None, strategy: str, record: str | None) -> str:
    """The subject under which the schemas of a source or a sink are registered."""
    named = {"topic": f"{topic}-value", "record": record, "topic-record": f"{topic}-{record}"}
    return str(subject or named[strategy])
