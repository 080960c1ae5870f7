"""A file as records, in blocks, so that a file of any size takes little memory.

`holdfast send` writes them to a topic, `holdfast try` gives them to a job. A record is a JSON object, and of a
text file a line; with `raw` that of a csv file is its line as it stands, for sources whose format is csv; with `arrow`
that of a parquet or arrow file holds many rows, for sources whose format is arrow. A pipe is read as a file is; where
its name does not say its format, the pipe holds csv with `raw` or a form of csv, arrow with `arrow`, else ndjson.
Source: JOBS "send ... feed a file".
"""

from __future__ import annotations

import gzip
import io
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal, cast

from holdfast.services.client.csv_text import CsvText
from holdfast.services.client.pipes import copied, is_pipe
from holdfast.services.client.unusable import UnusableFile
from holdfast.services.kernel.codecs.csv_form import PLAIN, CsvForm
from holdfast.services.kernel.codecs.texts import other_encoding, unmarked

Format = Literal["ndjson", "csv", "text", "parquet", "arrow"]

SUFFIXES: dict[str, Format] = {".ndjson": "ndjson", ".jsonl": "ndjson", ".json": "ndjson", ".csv": "csv"}
SUFFIXES |= {".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow"}

SUFFIXES |= {".txt": "text", ".log": "text"}

BLOCK_BYTES = 1024 * 1024
ROWS = 10_000
"""Rows of a parquet or arrow file in a block."""
MAX_RECORD_BYTES = 64 * 1024 * 1024
"""Kafka accepts no record of that size; a longer one means a file without line ends, or a quote never closed."""


_BLANK = re.compile(rb"^[ \t\r]*\n|^[ \t\r]+\Z", re.MULTILINE)


class Feed:
    """A file that is read as records.

    share: part of the file read so far, 0 to 1; of a pipe 0 until its end.
    blank: number of blank lines skipped.

    Args:
        raw: of a csv file, the unchanged lines without the header.
        columns: with raw, the columns of each line, in this order; the header gives their places. Without a header they
            name the columns of the file.
        text: true to read lines unchanged, whatever the file's name.
        arrow: of a parquet or arrow file, Arrow records of many rows.
        strings: of a csv file, true to read every value as text; else a column is int, float or bool if all of its
            values are.
        null: of a csv file, words that mean null, as the empty field does.
        form: of a csv file, its delimiter and its quote.
        header: of a csv file, true if its first line names the columns.

    Raises:
        UnusableFile: at once or during a read.
    """

    def __init__(
        self,
        path: Path,
        *,
        raw: bool = False,
        text: bool = False,
        columns: Sequence[str] = (),
        arrow: bool = False,
        strings: bool = False,
        null: Sequence[str] = (),
        form: CsvForm = PLAIN,
        header: bool = True,
    ) -> None:
        self.path = path
        self._raw = raw
        self._columns = tuple(columns)
        self._arrow = arrow
        self._strings = strings
        self._header = header
        self._form = CsvForm(form.delimiter, form.quote, tuple(null))
        self._csv = CsvText(form)
        unnamed: Format = "arrow" if arrow else "csv" if raw or form != PLAIN or not header else "ndjson"
        self.format, self.compressed = ("text", path.suffix.lower() == ".gz") if text else format_of(path, unnamed)
        if raw and self._table:
            raise UnusableFile(f"{path} has no lines", "a source of format csv reads csv files")
        if arrow and not self._table:
            raise UnusableFile(f"{path} has no Arrow records", "a source of format arrow reads parquet and arrow files")
        self._check_exists()
        self._pipe = is_pipe(path)
        self._copy: IO[bytes] | None = None
        self.share = 0.0
        self.blank = 0

    @property
    def _table(self) -> bool:
        return self.format in ("parquet", "arrow")

    @property
    def _read_again(self) -> bool:
        """True if the file is read more than once, or from its end."""
        return self._table or (self.format == "csv" and (not self._raw or bool(self._columns)))

    def blocks(self) -> Iterator[list[bytes]]:
        """The records, in blocks of about a megabyte."""
        try:
            yield from self._blocks()
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise UnusableFile(f"{self.path} is not a whole gzip file: {error}", "copy it again") from None
        except OSError as error:
            raise UnusableFile(f"{self.path} cannot be read: {error.strerror or error}") from None
        finally:
            if self._copy is not None:
                self._copy.close()
        self.share = 1.0

    @contextmanager
    def _opened(self) -> Iterator[IO[bytes]]:
        """The file from its begin; of a pipe that is read again, a copy."""
        if self._copy is None:
            with self.path.open("rb") as file:
                if not self._pipe or not self._read_again:
                    yield file
                    return
                self._copy = copied(file)
        self._copy.seek(0)
        yield self._copy

    def _blocks(self) -> Iterator[list[bytes]]:
        if self._table:
            from holdfast.services.client.tables import table_records

            with self._opened() as file, _unpacked(file, self.compressed) as file:
                for read, block in table_records(file, self.path, self.format, ROWS, arrow=self._arrow):
                    self.share = read
                    yield block
        elif self.format == "csv" and not self._raw:
            from holdfast.services.client.tables import csv_records

            yield from csv_records(self.whole_lines, self.path, self._form, self._names, strings=self._strings)
        elif self._raw and self._columns:
            from holdfast.services.client.tables import csv_lines

            for text in csv_lines(self.whole_lines, self.path, self._form, self._names, self._columns):
                yield _filled(self._csv.lines(text))
        else:
            yield from self._lines()

    @property
    def _names(self) -> tuple[str, ...]:
        """The columns of a csv file without a header."""
        return () if self._header else self._columns

    def _lines(self) -> Iterator[list[bytes]]:
        quoted = self.format == "csv"
        headed = quoted and self._header
        for index, lines in enumerate(self.whole_lines(quoted)):
            if index == 0 and self.format not in ("text", "csv"):
                self._check_objects(lines)
            found = self._csv.lines(lines) if quoted else lines.split(b"\n")
            if block := _filled(found[1:] if headed and index == 0 else found):
                yield block

    def whole_lines(self, quoted: bool = False) -> Iterator[bytes]:
        """The file without its blank lines, in pieces that end where a line ends; with `quoted`, not inside quotes."""
        self.blank, self.share = 0, 0.0  # reset, because a csv file is read more than once
        with self._opened() as file:
            size = max(1, os.fstat(file.fileno()).st_size)
            text = cast(io.BufferedReader, gzip.GzipFile(fileobj=file) if self.compressed else file)
            read = text.read1 if self._pipe else text.read  # records of a pipe are there before its end
            first, rest = True, b""
            while piece := read(BLOCK_BYTES):
                if first and (other := other_encoding(piece[:400])):
                    raise UnusableFile(f"{self.path} is {other}, not UTF-8", f"convert it: iconv -f {other} -t UTF-8")
                piece, first = unmarked(piece) if first else piece, False
                self.share = 0.0 if self._pipe else min(1.0, file.tell() / size)
                lines, rest = self._csv.cut(rest + piece) if quoted else _cut(rest + piece)
                if lines:
                    yield from self._filled(lines, quoted)
                elif len(rest) > MAX_RECORD_BYTES:
                    raise UnusableFile(f"{self.path} has a record of over {MAX_RECORD_BYTES >> 20} MiB", self._long())
            yield from self._filled(rest, quoted)

    def _filled(self, lines: bytes, quoted: bool) -> Iterator[bytes]:
        """The lines with content. To csv's reader a blank line is a row of nulls, unless it is inside quotes."""
        if quoted:
            lines, blank = self._csv.without_blank(lines)
        else:
            lines, blank = _BLANK.subn(b"", lines) if _BLANK.search(lines) else (lines, 0)
        self.blank += blank
        if lines:
            yield lines

    def _long(self) -> str:
        return "is a quote left open?" if self.format == "csv" else "one JSON object a line"

    def _check_objects(self, lines: bytes) -> None:
        """Raises UnusableFile for a JSON list, whose lines would all be bad; other bad lines pass and become dead
        letters.
        """
        if lines.lstrip()[:1] == b"[":
            raise UnusableFile(f"{self.path} is a JSON list", f"one object a line: jq -c '.[]' {self.path.name}")

    def _check_exists(self) -> None:
        if not self.path.exists():
            raise UnusableFile(f"there is no file {self.path}")
        if self.path.is_dir():
            raise UnusableFile(f"{self.path} is a directory", "send its files one by one")


def format_of(path: Path, unnamed: Format | None = None) -> tuple[Format, bool]:
    """Format by a file's name, and true if the file is compressed. Raises UnusableFile.

    Args:
        unnamed: format of a pipe whose name says none.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compressed = suffixes[-1:] == [".gz"]
    kind = SUFFIXES.get(next(iter(suffixes[-2:-1] if compressed else suffixes[-1:]), ""))
    if kind is None and unnamed is not None and is_pipe(path):
        return unnamed, compressed
    if kind is None:
        known = ", ".join(SUFFIXES)
        hint = "the standard input is /dev/stdin" if path == Path("-") else f"known: {known}, each also .gz"
        raise UnusableFile(f"the name {path.name} does not say what the file holds", hint)
    return kind, compressed


def _filled(lines: list[bytes]) -> list[bytes]:
    """Lines with content, without their ends."""
    return [line for line in (line.rstrip(b"\r") for line in lines) if line]


def _cut(text: bytes) -> tuple[bytes, bytes]:
    """The text up to the last line end, and the rest."""
    end = text.rfind(b"\n") + 1
    return text[:end], text[end:]


@contextmanager
def _unpacked(file: IO[bytes], compressed: bool) -> Iterator[IO[bytes]]:
    """The file, for seeking: its reader begins at its end, so a compressed file is unpacked first."""
    if not compressed:
        yield file
        return
    with gzip.GzipFile(fileobj=file) as packed, copied(cast(IO[bytes], packed)) as unpacked:
        yield unpacked
