"""CSV text: its line ends, its blank lines, and its quotes as polars reads them."""

from __future__ import annotations

import csv
import io
import re
from functools import cached_property

from holdfast.services.kernel.codecs.csv_form import CsvForm

_BLANK = re.compile(rb"^[ \t\r]*\n|^[ \t\r]+\Z", re.MULTILINE)
_BLANK_OF_TABS = re.compile(rb"^[ \r]*\n|^[ \r]+\Z", re.MULTILINE)


class CsvText:
    """Reads text of one form, as bytes. As to csv of Python and DuckDB, a quote opens a field only as its first
    character: in `5" pipe` it is a character.
    """

    def __init__(self, form: CsvForm) -> None:
        self._form = form
        self._delimiter = form.delimiter.encode()
        self._quote = form.quote.encode()
        self._opens = self._delimiter + self._quote
        tabs = form.delimiter == "\t"
        self._blank, self._space = (_BLANK_OF_TABS, b" \r") if tabs else (_BLANK, b" \t\r")

    @cached_property
    def _plain(self) -> re.Pattern[bytes]:
        """A line in which every quote opens or closes a field, or is doubled in one."""
        quote, delimiter = re.escape(self._quote), re.escape(self._delimiter)
        field = rb"(?:Q(?:[^Q]|QQ)*Q|[^QD]*)".replace(b"Q", quote).replace(b"D", delimiter)
        return re.compile(field + rb"(?:" + delimiter + field + rb")*")

    def lines(self, text: bytes) -> list[bytes]:
        """The lines of the text; a line end inside quotes does not end a line."""
        found = text.split(b"\n")
        if self._quote not in text:
            return found
        joined: list[list[bytes]] = []
        inside = False
        for line in found:
            if inside:
                joined[-1].append(line)
            else:
                joined.append([line])
            inside = self.ends_inside(line, inside)
        return [b"\n".join(lines) for lines in joined]

    def is_open(self, text: bytes) -> bool:
        """True if a quote of the text is never closed."""
        inside = False
        for line in text.split(b"\n") if self._quote in text else ():
            inside = self.ends_inside(line, inside)
        return inside

    def ends_inside(self, line: bytes, inside: bool) -> bool:
        """True if a line ends inside quotes.

        inside: true if the line begins inside quotes.
        """
        at = 0
        while True:
            if inside:
                at = line.find(self._quote, at)
                while at >= 0 and line[at + 1 : at + 2] == self._quote:
                    at = line.find(self._quote, at + 2)
                if at < 0:
                    return True
                inside, at = False, line.find(self._delimiter, at) + 1
                if not at:
                    return False
            at = self._opening(line, at)
            if at < 0:
                return False
            inside, at = True, at + 1

    def _opening(self, line: bytes, at: int) -> int:
        """Position of the next field that begins with a quote, from the field that begins
        at `at`; -1 if there is none.
        """
        if line[at : at + 1] == self._quote:
            return at
        found = line.find(self._opens, at)
        return found + 1 if found >= 0 else -1

    def cut(self, text: bytes) -> tuple[bytes, bytes]:
        """The text up to the last line end outside quotes, and the rest."""
        end = text.rfind(b"\n") + 1
        if self._quote in text:
            begin, end, last, inside = 0, 0, end, False
            while begin < last:
                line_end = text.index(b"\n", begin)
                inside = self.ends_inside(text[begin:line_end], inside)
                begin = line_end + 1
                end = end if inside else begin
        return text[:end], text[end:]

    def without_blank(self, text: bytes) -> tuple[bytes, int]:
        """The text without its blank lines, and their number; inside quotes no line is blank."""
        if not self._blank.search(text):
            return text, 0
        if self._quote not in text:
            return self._blank.subn(b"", text)
        *found, last = self.lines(text)
        kept = [line for line in found if line.strip(self._space)]
        end = last if last.strip(self._space) else b""
        return b"".join(line + b"\n" for line in kept) + end, len(found) - len(kept) + bool(last and not end)

    def header(self, text: bytes) -> tuple[bytes, bytes]:
        """The first line, and the rest."""
        begin, end = 0, text.find(b"\n")
        inside = end >= 0 and self.ends_inside(text[:end], False)
        while inside and end >= 0:
            begin, end = end + 1, text.find(b"\n", end + 1)
            inside = end >= 0 and self.ends_inside(text[begin:end], True)
        return (text.rstrip(b"\r\n"), b"") if end < 0 else (text[:end].rstrip(b"\r"), text[end + 1 :])

    def plainly_quoted(self, text: bytes) -> bytes:
        """The same rows, without quotes inside fields that do not begin with one: polars would count these quotes
        differently, and join or refuse lines.
        """
        if self._quote not in text or all(
            self._plain.fullmatch(line) for line in self.lines(text) if self._quote in line
        ):
            return text
        written = io.StringIO()
        form = self._form
        try:
            csv.writer(written, lineterminator="\n", delimiter=form.delimiter, quotechar=form.quote).writerows(
                form.rows(io.StringIO(text.decode(), newline=""))
            )
        except (UnicodeDecodeError, csv.Error):
            return text
        return written.getvalue().encode()
