"""Feeding: a file as records, in blocks, so that a file of any size takes little memory.

`holdfast send` writes them to a topic, `holdfast try` gives them to a job. A record is a JSON object, and of a
text file a line; with `raw` that of a csv file is its line as it stands, for sources whose format is csv; with `arrow`
that of a parquet or arrow file holds many rows, for sources whose format is arrow. Source: JOBS "send ... feed a file".
"""

from __future__ import annotations

import gzip
import re
import shutil
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal, cast

from holdfast.services.client.unusable import UnusableFile
from holdfast.services.kernel.codecs.texts import other_encoding, unmarked

Format = Literal["ndjson", "csv", "text", "parquet", "arrow"]

SUFFIXES: dict[str, Format] = {".ndjson": "ndjson", ".jsonl": "ndjson", ".json": "ndjson", ".csv": "csv"}
SUFFIXES |= {".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow"}

SUFFIXES |= {".txt": "text", ".log": "text"}

BLOCK_BYTES = 1024 * 1024
ROWS = 10_000
"""Rows of a parquet or arrow file in a block."""
MAX_RECORD_BYTES = 64 * 1024 * 1024
"""Kafka takes no record of that size; a longer one is a file without line ends, or with a quote never closed."""


_BLANK = re.compile(rb"^[ \t\r]*\n|^[ \t\r]+\Z", re.MULTILINE)


class Feed:
    """A file being read. share: how much of it has been, from 0 to 1. blank: lines skipped, since they hold nothing.

    Args:
        raw: of a csv file, the lines without the header, as they are.
        columns: with raw, the columns that a line is to have, in this order; the header says where they are.
        text: the lines as they are, whatever the file's name says.
        arrow: of a parquet or arrow file, Arrow records of many rows.
        strings: of a csv file, every value as text; else a column is int, float or bool if all of it is.
        null: of a csv file, words that stand for null, as the empty field does.

    Raises:
        UnusableFile: at once or while it is read.
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
    ) -> None:
        self.path, self._raw, self._columns, self._arrow = path, raw, tuple(columns), arrow
        self._strings, self._null = strings, tuple(null)
        self.format, self.compressed = ("text", path.suffix.lower() == ".gz") if text else format_of(path)
        if raw and self._table:
            raise UnusableFile(f"{path} has no lines", "a source of format csv reads csv files")
        if arrow and not self._table:
            raise UnusableFile(f"{path} has no Arrow records", "a source of format arrow reads parquet and arrow files")
        self._check_exists()
        self.share, self.blank = 0.0, 0

    @property
    def _table(self) -> bool:
        return self.format in ("parquet", "arrow")

    def blocks(self) -> Iterator[list[bytes]]:
        """The records, in blocks of about a megabyte."""
        try:
            yield from self._blocks()
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise UnusableFile(f"{self.path} is not a whole gzip file: {error}", "copy it again") from None
        except OSError as error:
            raise UnusableFile(f"{self.path} cannot be read: {error.strerror or error}") from None
        self.share = 1.0

    def _blocks(self) -> Iterator[list[bytes]]:
        if self._table:
            from holdfast.services.client.feeding_tables import table_records

            with _seekable(self) as file:
                for read, block in table_records(file, self.path, self.format, ROWS, arrow=self._arrow):
                    self.share = read
                    yield block
        elif self.format == "csv" and not self._raw:
            from holdfast.services.client.feeding_tables import csv_records

            yield from csv_records(self.whole_lines, self.path, strings=self._strings, null=self._null)
        elif self._raw and self._columns:
            from holdfast.services.client.feeding_tables import csv_lines

            for text in csv_lines(self.whole_lines, self.path, self._columns, self._null):
                yield _filled(split_quoted(text))
        else:
            yield from self._lines()

    def _lines(self) -> Iterator[list[bytes]]:
        quoted = self.format == "csv"
        for index, lines in enumerate(self.whole_lines(quoted)):
            if index == 0 and not quoted:
                lines = unmarked(lines)
                if self.format != "text":
                    self._check_objects(lines)
            found = split_quoted(lines) if quoted else lines.split(b"\n")
            if block := _filled(found[1:] if quoted and index == 0 else found):
                yield block

    def whole_lines(self, quoted: bool = False) -> Iterator[bytes]:
        """The file without its blank lines, in pieces that end where a line ends; with `quoted`, not inside quotes."""
        self.blank, self.share = 0, 0.0  # a csv file is read more than once
        with self.path.open("rb") as file:
            size = max(1, self.path.stat().st_size)
            text = cast(IO[bytes], gzip.GzipFile(fileobj=file)) if self.compressed else file
            rest = b""
            while piece := text.read(BLOCK_BYTES):
                if not rest and self.share == 0.0 and (other := other_encoding(piece[:400])):
                    raise UnusableFile(f"{self.path} is {other}, not UTF-8", f"convert it: iconv -f {other} -t UTF-8")
                self.share = min(1.0, file.tell() / size)
                lines, rest = _cut(rest + piece, quoted)
                if lines:
                    yield from self._filled(lines, quoted)
                elif len(rest) > MAX_RECORD_BYTES:
                    raise UnusableFile(f"{self.path} has a record of over {MAX_RECORD_BYTES >> 20} MiB", self._long())
            yield from self._filled(rest, quoted)

    def _filled(self, lines: bytes, quoted: bool) -> Iterator[bytes]:
        """The lines that hold anything. To csv's reader a blank line is a row of nulls, unless it is inside quotes."""
        if _BLANK.search(lines):
            if quoted and b'"' in lines:
                *found, last = split_quoted(lines)
                kept = [line for line in found if line.strip()]
                self.blank += len(found) - len(kept) + bool(last and not last.strip())
                lines = b"".join(line + b"\n" for line in kept) + (last if last.strip() else b"")
            else:
                lines, blank = _BLANK.subn(b"", lines)
                self.blank += blank
        if lines:
            yield lines

    def _long(self) -> str:
        return "is a quote left open?" if self.format == "csv" else "one JSON object a line"

    def _check_objects(self, lines: bytes) -> None:
        """Other bad lines go through, to become dead letters; a list of objects would be nothing else."""
        if lines.lstrip()[:1] == b"[":
            raise UnusableFile(f"{self.path} is a JSON list", f"one object a line: jq -c '.[]' {self.path.name}")

    def _check_exists(self) -> None:
        if not self.path.exists():
            raise UnusableFile(f"there is no file {self.path}")
        if self.path.is_dir():
            raise UnusableFile(f"{self.path} is a directory", "send its files one by one")


def format_of(path: Path) -> tuple[Format, bool]:
    """Format by a file's name, and true if the file is compressed. Raises UnusableFile."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compressed = suffixes[-1:] == [".gz"]
    kind = SUFFIXES.get(next(iter(suffixes[-2:-1] if compressed else suffixes[-1:]), ""))
    if kind is None:
        known = ", ".join(SUFFIXES)
        raise UnusableFile(f"the name {path.name} does not say what the file holds", f"known: {known}, each also .gz")
    return kind, compressed


def split_quoted(lines: bytes) -> list[bytes]:
    """Lines of csv text; a line end inside quotes ends none."""
    found = lines.split(b"\n")
    if b'"' not in lines:
        return found
    joined: list[list[bytes]] = []
    inside = False
    for line in found:
        if inside:
            joined[-1].append(line)
        else:
            joined.append([line])
        inside = ends_inside(line, inside)
    return [b"\n".join(lines) for lines in joined]


def ends_inside(line: bytes, inside: bool) -> bool:
    """True if a line of csv text ends inside quotes. inside: true if it begins there.

    As to csv of Python and DuckDB, a quote opens a field only as its first character: in `5" pipe` it is a character.
    """
    at = 0
    while True:
        if inside:
            at = line.find(b'"', at)
            while at >= 0 and line[at + 1 : at + 2] == b'"':
                at = line.find(b'"', at + 2)
            if at < 0:
                return True
            inside, at = False, line.find(b",", at) + 1
            if not at:
                return False
        at = _opening(line, at)
        if at < 0:
            return False
        inside, at = True, at + 1


def _opening(line: bytes, at: int) -> int:
    """Position of the next field that begins with a quote; -1: none does. at: where a field begins."""
    if line[at : at + 1] == b'"':
        return at
    found = line.find(b',"', at)
    return found + 1 if found >= 0 else -1


def _filled(lines: list[bytes]) -> list[bytes]:
    """Lines that hold anything, without their ends."""
    return [line for line in (line.rstrip(b"\r") for line in lines) if line]


def _cut(text: bytes, quoted: bool) -> tuple[bytes, bytes]:
    """The text up to the last line end, and the rest; with `quoted`, up to the last one outside quotes."""
    end = text.rfind(b"\n") + 1
    if quoted and b'"' in text:
        begin, end, last, inside = 0, 0, end, False
        while begin < last:
            line_end = text.index(b"\n", begin)
            inside = ends_inside(text[begin:line_end], inside)
            begin = line_end + 1
            end = end if inside else begin
    return text[:end], text[end:]


@contextmanager
def _seekable(feed: Feed) -> Iterator[IO[bytes]]:
    """Such a file begins to be read at its end, so a compressed one is unpacked first."""
    if not feed.compressed:
        with feed.path.open("rb") as file:
            yield file
        return
    with gzip.open(feed.path) as packed, tempfile.TemporaryFile() as unpacked:
        shutil.copyfileobj(packed, unpacked, BLOCK_BYTES)
        unpacked.seek(0)
        yield unpacked
