"""The form of CSV text: its delimiter, its quote and the words that mean null."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CsvForm:
    """The form of CSV rows.

    delimiter: one ASCII character between two fields.
    quote: one ASCII character around a field that contains special characters.
    null: words that mean null, besides the empty field.
    """

    delimiter: str = ","
    quote: str = '"'
    null: tuple[str, ...] = ()

    def rows(self, lines: Iterable[str], *, strict: bool = False) -> Iterator[list[str]]:
        """The fields of each row.

        strict: a text after a closing quote is an error.
        """
        return csv.reader(lines, delimiter=self.delimiter, quotechar=self.quote, strict=strict)


PLAIN = CsvForm()
"""Commas, double quotes, and no word for null."""
