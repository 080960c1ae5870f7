"""Between polars frames and records: the input of a source from a frame, and the rows of a query as a frame.

Source: JOBS "Jobs in Python".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from holdfast.schemas.delivered import NO_ROW
from holdfast.schemas.jobs import CsvOptions, Source
from holdfast.schemas.plans import OperatorPlan
from holdfast.services.client.feed import Feed
from holdfast.services.client.unusable import UnusableFile
from holdfast.services.kernel.codecs import fields as field_types
from holdfast.services.kernel.codecs.arrow_records import encode_arrow
from holdfast.services.kernel.codecs.csv_form import CsvForm
from holdfast.services.kernel.codecs.decoder import Decoder
from holdfast.services.kernel.codecs.fields import TIME
from holdfast.services.kernel.codecs.json_encoder import encode_json
from holdfast.services.kernel.suggestions import suggest

Given = pl.DataFrame | Path | str | Iterable[Mapping[str, Any] | bytes]
"""Input of a source: a frame, the path of a file, or records, each a mapping (as JSON) or its bytes."""


def records(name: str, source: Source, given: Given, null: Sequence[str] = ()) -> Iterator[list[bytes]]:
    """The records of a source, in blocks.

    Args:
        name: of the source, for messages. null: of csv files, words that stand for null.

    Raises:
        UnusableFile: a file cannot be read, or a frame does not have the source's columns.
    """
    if isinstance(given, str | Path):
        yield from file_records(Path(given), source, null)
    elif isinstance(given, pl.DataFrame):
        yield _of_frame(name, source, given)
    else:
        yield [one if isinstance(one, bytes) else msgspec.json.encode(one) for one in given]


def file_records(path: Path, source: Source, null: Sequence[str]) -> Iterator[list[bytes]]:
    """Records of a file as the source reads them."""
    if source.format == "text":
        return Feed(path, text=True).blocks()
    if source.format != "csv":
        return Feed(path, arrow=source.format == "arrow", null=null).blocks()
    columns = tuple(source.origins.get(name, name) for name in source.in_value)
    written = source.csv or CsvOptions()
    form = CsvForm(written.delimiter, written.quote)
    return Feed(path, raw=True, columns=columns, null=null, form=form, header=written.header).blocks()


def _of_frame(name: str, source: Source, rows: pl.DataFrame) -> list[bytes]:
    """The records of a frame, which has the source's columns by their names in the job; other columns are left out."""
    if source.envelope is not None:
        raise UnusableFile(f"source '{name}' reads change records, which are not made of frames", "give mappings")
    if absent := [column for column in source.in_value if column not in rows.columns]:
        hint = suggest(absent[0], rows.columns)
        raise UnusableFile(f"the frame for source '{name}' has no column {', '.join(absent)}", hint)
    try:
        typed = rows.select(*source.in_value).cast(field_types.schema(source.in_value))
    except pl.exceptions.PolarsError as error:
        raise UnusableFile(f"the frame for source '{name}': {str(error).splitlines()[0]}") from None
    written = {source.origins.get(column, column): kind for column, kind in source.in_value.items()}
    typed = typed.rename(dict(zip(source.in_value, written, strict=True)))
    if source.format == "text":
        return [text.encode() for text in typed.to_series().to_list() if text is not None]
    if source.format == "json":
        return encode_json(typed, written)
    if source.format == "arrow":
        return encode_arrow(typed, written)
    raise UnusableFile(f"source '{name}' reads {source.format}, which is not made of frames", "give records as bytes")


def rows_of(sink: OperatorPlan, rows: Sequence[bytes]) -> pl.DataFrame:
    """The rows of a query, each a JSON object, as a frame of the query's types; deletions are left out."""
    rows = [row for row in rows if row != NO_ROW]
    fields = {name: field_types.optional(text) for name, text in sink.fields.items()}
    decoded = Decoder(fields).decode(rows, [0] * len(rows))
    assert not decoded.refused, decoded.refused[0]
    return decoded.rows.drop(TIME)
