"""Rows of csv, parquet and arrow files as JSON objects; of the latter two also as Arrow records.

A csv file is read twice: once to learn what each column holds in all of the file, once for the rows. So a column has
one type, whatever the first thousand rows look like.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from holdfast.services.client.csv_text import CsvText
from holdfast.services.client.unusable import UnusableFile
from holdfast.services.kernel.codecs.arrow_records import MAX_RECORD_BYTES
from holdfast.services.kernel.codecs.csv_form import CsvForm
from holdfast.services.kernel.codecs.texts import BOM
from holdfast.services.kernel.plurals import plural

Lines = Callable[[bool], Iterator[bytes]]
"""Reads a file from its beginning; see `Feed.whole_lines`."""

SHOWN_BYTES = 80
"""Bytes of a row that a message shows."""
NOT_UTF8 = "convert it, such as with iconv"
_BOOLS = {"true": True, "false": False}


# -- csv --------------------------------------------------------------------------------------------------------------


def csv_records(
    lines: Lines, path: Path, form: CsvForm, names: Sequence[str], *, strings: bool
) -> Iterator[list[bytes]]:
    """The rows of a csv file; a row that does not fit the header passes unchanged, as lines that are no JSON do.

    Args:
        names: names of its columns, if it has no header. See `feeding.Feed`.

    Raises:
        UnusableFile: the first row does not fit.
    """
    table = _Csv(lines, path, form, names)
    types = {} if strings else table.types()
    for piece in table.pieces():
        if isinstance(piece, bytes):
            yield [piece]
        else:
            yield _objects(piece.with_columns(_typed(column, kind) for column, kind in types.items()))


def csv_lines(lines: Lines, path: Path, form: CsvForm, names: Sequence[str], columns: Sequence[str]) -> Iterator[bytes]:
    """The lines of a csv file without its header, in pieces, with these columns in this order; others are left out.

    Words of the form's `null` become empty fields. A file that has just these columns passes as it stands without them.
    Raises UnusableFile if a column is missing.
    """
    table = _Csv(lines, path, form, names)
    header = table.header
    if missing := [column for column in columns if column not in header]:
        hint = f"the header has: {', '.join(header)}"
        raise UnusableFile(f"{path} has no column {', '.join(missing)}", hint)
    yield from (
        table.bodies()
        if header == list(columns) and not form.null
        else (
            frame.select(columns)
            .write_csv(include_header=False, separator=form.delimiter, quote_char=form.quote)
            .encode()
            for frame in table.frames()
        )
    )


class _Csv:
    """A csv file as frames of text.

    names: names of its columns, if it has no header.
    """

    def __init__(self, lines: Lines, path: Path, form: CsvForm, names: Sequence[str]) -> None:
        self._lines = lines
        self._path = path
        self._form = form
        self._names = list(names)
        self._text = CsvText(form)
        self._null = ["", *form.null]

    @cached_property
    def header(self) -> list[str]:
        """The names of its columns."""
        return self._names or self._columns(self._text.header(next(self._lines(True), b""))[0])

    @cached_property
    def _headline(self) -> bytes:
        written, form = io.StringIO(), self._form
        csv.writer(written, lineterminator="\n", delimiter=form.delimiter, quotechar=form.quote).writerow(self.header)
        return written.getvalue().encode()

    def bodies(self) -> Iterator[bytes]:
        """The file's text without the header, in pieces."""
        for index, block in enumerate(self._lines(True)):
            yield block if index > 0 or self._names else self._text.header(block)[1]

    def frames(self) -> Iterator[pl.DataFrame]:
        """Frames of the file's rows. Raises UnusableFile for a row that does not fit the header."""
        row = 1
        for piece in self.pieces():
            if isinstance(piece, bytes):
                raise self._unfit(row, piece)
            row += piece.height
            yield piece

    def pieces(self) -> Iterator[pl.DataFrame | bytes]:
        """Frames, and between them each row that does not fit the header.

        Raises:
            UnusableFile: the first row does not fit, or has fewer columns than were named.
        """
        _ = self.header  # a wrong header is refused, also if no row follows
        first = True
        for text in self.bodies():
            if text.strip():
                for piece in self._split(text):
                    if first and (isinstance(piece, bytes) or self._is_short(text)):
                        raise self._unfit(1, self._text.lines(text)[0])
                    first = False
                    yield piece

    def _is_short(self, text: bytes) -> bool:
        """True if columns are named for a file without a header, and its first row has fewer."""
        first = self._text.lines(text)[0].decode(errors="replace") if self._names else ""
        return len(next(self._form.rows(io.StringIO(first, newline="")), [])) < len(self._names)

    def _split(self, text: bytes) -> Iterator[pl.DataFrame | bytes]:
        """Frames of the text; text that cannot be parsed is halved, down to the rows at fault, also rows with an open
        quote.
        """
        text, is_open = text.rstrip(b"\r\n"), self._text.is_open(text)
        if not is_open:
            with suppress(pl.exceptions.PolarsError):
                yield self._frame(text)
                return
        lines = self._text.lines(text)
        if len(lines) == 1:
            yield lines[0].rstrip(b"\r")
            return
        middle = len(lines) - 1 if is_open else len(lines) // 2
        for half in (lines[:middle], lines[middle:]):
            yield from self._split(b"\n".join(half))

    def _frame(self, text: bytes) -> pl.DataFrame:
        return pl.read_csv(
            # without a mark, polars reads text that begins with x^ as zlib; the first line sets the number of columns
            BOM + self._headline + self._text.plainly_quoted(text),
            infer_schema=False,
            null_values=self._null,
            separator=self._form.delimiter,
            quote_char=self._form.quote,
        )

    def _unfit(self, row: int, line: bytes) -> UnusableFile:
        shown = line[:SHOWN_BYTES].decode(errors="replace")
        try:
            line.decode()
        except UnicodeDecodeError:
            return UnusableFile(f"{self._path}, row {row} behind the header is not UTF-8: {shown!r}", NOT_UTF8)
        return UnusableFile(
            f"{self._path}, row {row} behind the header is no row of {plural(len(self.header), 'column')}: {shown!r}",
            "is every row as long as the header, and each quote closed?",
        )

    def _columns(self, header: bytes) -> list[str]:
        if b"\r" in header.strip(b"\r") and self._form.quote.encode() not in header:
            raise UnusableFile(f"{self._path} ends its lines by a carriage return alone", "convert it: tr '\\r' '\\n'")
        try:
            columns = next(self._form.rows([header.decode("utf-8-sig")]), [])
        except UnicodeDecodeError:
            raise UnusableFile(f"{self._path} is not UTF-8", NOT_UTF8) from None
        if len(set(columns)) < len(columns) or not all(columns):
            raise UnusableFile(f"{self._path}: the first line does not name every column once", "it must be a header")
        if len(columns) == 1 and (other := next((one for one in ";\t|" if one in columns[0]), "")):
            hint = f"if {other!r} is the delimiter, name it (--delimiter of send, csv of a source), or convert the file"
            raise UnusableFile(f"{self._path}: the only column is named {columns[0]!r}", hint)
        return columns

    def types(self) -> dict[str, pl.DataType]:
        """The columns that are not text, each with the narrowest type that all its values have."""
        candidates: dict[str, list[pl.DataType]] = {}
        filled: set[str] = set()
        for frame in self.pieces():
            if isinstance(frame, bytes):
                continue
            for column in frame.columns:
                values = frame[column].drop_nulls()
                fit = candidates.setdefault(column, [pl.Int64(), pl.Float64(), pl.Boolean()])
                if values.len():
                    filled.add(column)
                    candidates[column] = [kind for kind in fit if _fits(values, kind)]
        return {column: kinds[0] for column, kinds in candidates.items() if kinds and column in filled}


def _fits(values: pl.Series, kind: pl.DataType) -> bool:
    """True if all values have this type; a number with a leading zero, such as a postal code, is text."""
    if isinstance(kind, pl.Boolean):
        return bool(values.is_in(list(_BOOLS)).all())
    if values.str.contains(r"^[+-]?0\d").any():
        return False
    return values.cast(kind, strict=False).null_count() == 0


def _typed(column: str, kind: pl.DataType) -> pl.Expr:
    if isinstance(kind, pl.Boolean):
        return pl.col(column).replace_strict(_BOOLS, return_dtype=pl.Boolean)
    return pl.col(column).cast(kind)


# -- parquet and arrow ------------------------------------------------------------------------------------------------


def table_records(
    file: IO[bytes], path: Path, kind: str, rows: int, *, arrow: bool
) -> Iterator[tuple[float, list[bytes]]]:
    """The share that has been read, and a block: its rows, or with `arrow` its Arrow records."""
    try:
        for share, batch in (_parquet if kind == "parquet" else _arrow)(file, rows):
            if arrow:
                yield share, _streams(batch)
                continue
            frame = pl.from_arrow(pa.Table.from_batches([batch]))
            assert isinstance(frame, pl.DataFrame)
            yield share, _objects(frame)
    except pa.ArrowException as error:
        what = "a parquet" if kind == "parquet" else "an arrow"
        raise UnusableFile(f"{path} is not {what} file: {str(error).split('.')[0]}") from None


def _parquet(file: IO[bytes], rows: int) -> Iterator[tuple[float, Any]]:
    table, read = pq.ParquetFile(file), 0
    for batch in table.iter_batches(rows):
        read += batch.num_rows
        yield read / max(1, table.metadata.num_rows), batch


def _arrow(file: IO[bytes], rows: int) -> Iterator[tuple[float, Any]]:
    """Batches of an IPC file or stream; the number of its rows is known only at the end."""
    magic = file.read(6)
    file.seek(0)
    source = pa.ipc.open_file(file) if magic == b"ARROW1" else pa.ipc.open_stream(file)
    batches = map(source.get_batch, range(source.num_record_batches)) if magic == b"ARROW1" else source
    for batch in batches:
        for begin in range(0, batch.num_rows, rows):
            yield 0.0, batch.slice(begin, rows)


def _streams(batch: Any) -> list[bytes]:
    """Halved until no record is too large for a topic. Views become texts: a slice of views carries all of their text,
    so that a file of views would grow with every record that is made of it.
    """
    return _halved(batch.cast(pa.schema([field.with_type(_dense(field.type)) for field in batch.schema])))


def _dense(kind: Any) -> Any:
    """The type with texts and bytes in place of views, at any depth."""
    if types.is_string_view(kind):
        return pa.large_string()
    if types.is_binary_view(kind):
        return pa.large_binary()
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_dense(kind.value_type)))
    if types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_dense(kind.value_type)))
    if types.is_struct(kind):
        inner = [kind.field(index) for index in range(kind.num_fields)]
        return pa.struct([field.with_type(_dense(field.type)) for field in inner])
    return kind


def _halved(batch: Any) -> list[bytes]:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    whole: bytes = sink.getvalue().to_pybytes()
    if len(whole) <= MAX_RECORD_BYTES or batch.num_rows == 1:
        return [whole]
    half = batch.num_rows // 2
    return [*_halved(batch.slice(0, half)), *_halved(batch.slice(half))]


# -- JSON -------------------------------------------------------------------------------------------------------------


def _objects(frame: pl.DataFrame) -> list[bytes]:
    """Rows as JSON objects: times in ISO 8601 (UTC if they do not say), bytes as base64, NaN as null."""
    plain = frame.with_columns(pl.col(pl.Binary).bin.encode("base64"), *_utc(frame))
    if any(_holds_bytes(kind) for kind in plain.dtypes):
        return [msgspec.json.encode(row) for row in plain.to_dicts()]  # polars cannot write bytes
    text = io.BytesIO()
    plain.write_ndjson(text)
    return text.getvalue().splitlines()


def _utc(frame: pl.DataFrame) -> Iterator[pl.Expr]:
    for column, kind in frame.schema.items():
        if isinstance(kind, pl.Datetime) and kind.time_zone is None:
            yield pl.col(column).dt.replace_time_zone("UTC")


def _holds_bytes(kind: pl.DataType) -> bool:
    if isinstance(kind, pl.List | pl.Array):
        return kind.inner == pl.Binary or _holds_bytes(kind.inner)  # type: ignore[arg-type]
    if isinstance(kind, pl.Struct):
        return any(field.dtype == pl.Binary or _holds_bytes(field.dtype) for field in kind.fields)  # type: ignore[arg-type]
    return False
