"""The form of CSV text: its delimiter, its quote and the words that stand for null."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CsvForm:
    """Form of rows.

    delimiter: one ASCII character between two fields.
    quote: one ASCII character around a field that holds other signs.
    null: words that stand for null, as the empty field does.
    """

    delimiter: str = ","
    quote: str = '"'
    null: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: Mapping[str, Any] | None) -> CsvForm:
        """The form that a source's setting `csv` describes, as plain data."""
        given = settings or {}
        return cls(given.get("delimiter", ","), given.get("quote", '"'), tuple(given.get("null_words", ())))

    def rows(self, lines: Iterable[str], *, strict: bool = False) -> Iterator[list[str]]:
        """The fields of each row. strict: a text behind a closing quote is an error."""
        return csv.reader(lines, delimiter=self.delimiter, quotechar=self.quote, strict=strict)


PLAIN = CsvForm()
"""Commas, double quotes, and no word for null."""
