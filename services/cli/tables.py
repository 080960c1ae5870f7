"""Tables that break lines between words alone, so that each name in them can be copied."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from holdfast.services.kernel.visible import visible_line

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions

GAP = 2
"""Columns of the screen between two columns of a table."""
MOST_LINES = 8
"""A row that would be taller stands as a block: a narrow column of text cannot be read."""
INDENT = 4


class Fitted:
    """A table as wide as there is room. Where its longest words do not fit side by side, each row is a block of lines,
    a line for each cell. A word that is wider than the room stands alone in its line, whole.
    """

    def __init__(self, columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "") -> None:
        """A column that says nothing in any row is left out, but for the first."""
        filled = list(rows)
        kept = [at for at, _ in enumerate(columns) if not at or not filled or any(_says(row[at]) for row in filled)]
        self.columns = [visible_line(columns[at]) for at in kept]
        self._rows = [[_cell(row[at]) for at in kept] for row in filled]
        self._title = title

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Any]:
        room = options.max_width
        yield Text("")
        for line in _wrapped(Text(self._title, style="italic"), room) if self._title else ():
            yield _whole(line)
        widths = self._widths(room)
        if widths is None:
            yield from map(_whole, self._blocks(room))
        else:
            yield self._table(widths)
        yield Text("")

    def _table(self, widths: Sequence[int]) -> Table:
        table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
        for column, width in zip(self.columns, widths, strict=True):
            table.add_column(_broken(Text(column), width), width=width)
        for row in self._rows:
            table.add_row(*map(_broken, row, widths))
        return table

    def _widths(self, room: int) -> list[int] | None:
        """Widths of the columns; None if the longest words do not fit, or a cell would have too many lines."""
        cells = [[Text(column), *(row[at] for row in self._rows)] for at, column in enumerate(self.columns)]
        least = [max(1, *(_word(cell) for cell in column)) for column in cells]
        wanted = [max(1, *(_line(cell) for cell in column)) for column in cells]
        left = room - GAP * (len(cells) - 1) - sum(least)
        if left < 0:
            return None
        widths = shared(least, wanted, left)
        tall = max(len(_wrapped(cell, width)) for column, width in zip(cells, widths, strict=True) for cell in column)
        return widths if tall <= MOST_LINES else None

    def _blocks(self, room: int) -> Iterator[Text]:
        indent = min(max(map(cell_len, self.columns)) + 2, room // 3)
        for number, row in enumerate(self._rows):
            if number:
                yield Text("")
            for column, cell in zip(self.columns, row, strict=True):
                yield from _labelled(Text(column, style="bold"), cell, indent, room)


def shared(least: Sequence[int], wanted: Sequence[int], left: int) -> list[int]:
    """Widths: the rest of the room is shared equally among columns that need more, up to their needs."""
    widths = list(least)
    while left > 0 and (short := [at for at, width in enumerate(widths) if width < wanted[at]]):
        share = max(1, left // len(short))
        for at in short:
            given = min(share, wanted[at] - widths[at], left)
            widths[at] += given
            left -= given
    return widths


def _labelled(label: Text, cell: Text, indent: int, room: int) -> Iterator[Text]:
    """Lines of one cell of a block, with the label before the first line, or above it if a word is too wide."""
    if cell_len(label.plain) > indent - 2 or _word(cell) > room - indent:
        yield from _wrapped(label, room)
        label, indent = Text(""), INDENT if _word(cell) <= room - INDENT else 0
    for line in _wrapped(cell, room - indent):
        yield Text.assemble(label, " " * (indent - cell_len(label.plain)), line)
        label = Text("")


def _wrapped(text: Text, width: int) -> list[Text]:
    """Lines of whole words, each as wide as `width` unless it holds one word that is wider."""
    from rich.containers import Lines

    lines = Lines(line for part in text.split("\n", allow_blank=True) for line in _filled(part, width))
    return list(lines)


def _broken(cell: Text, width: int) -> Text:
    """The lines of a cell. Left to itself the library cuts a word behind a space if both do not fit."""
    return Text("\n").join(_wrapped(cell, width))


def _filled(text: Text, width: int) -> Iterator[Text]:
    begin, end = 0, 0
    for word_begin, word_end in _words(text.plain):
        if not end:
            begin = word_begin
        if end > begin and cell_len(text.plain[begin:word_end]) > width:
            yield text[begin:end]
            begin = word_begin
        end = word_end
    yield text[begin:end]


def _words(text: str) -> Iterator[tuple[int, int]]:
    """Begin and end of each word."""
    at = 0
    for word in text.split():
        at = text.index(word, at)
        yield at, at + len(word)
        at += len(word)


def _whole(line: Text) -> Text:
    line.no_wrap, line.overflow = True, "ignore"
    return line


def _word(cell: Text) -> int:
    return max(map(cell_len, cell.plain.split()), default=0)


def _line(cell: Text) -> int:
    return max(map(cell_len, cell.plain.splitlines()), default=0)


def _says(cell: object) -> bool:
    return bool(cell) if isinstance(cell, str) else bool(getattr(cell, "plain", True))


def _cell(value: object) -> Text:
    if isinstance(value, Text):
        return value
    if value is None:
        return Text("-")
    return Text(f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value))
