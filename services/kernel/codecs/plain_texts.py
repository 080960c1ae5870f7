"""Decoding of records that are one text each, such as lines of a log: one column, read strictly as UTF-8.

Source: JOBS "format".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from holdfast.services.kernel.codecs.texts import BOM, other_encoding, unmarked
from holdfast.services.kernel.codecs.typed_columns import Column, Values, plain

_APART = (b"\0", BOM)
"""A batch with one of these bytes is read record by record: they show another encoding, or a byte order mark."""
_SHOWN = 60


class PlainTextReader:
    """A reader of the records of one stream; see JsonReader. An empty value is an empty text."""

    def __init__(self, fields: Mapping[str, str], unit: str | None) -> None:
        assert len(fields) == 1

    def read(self, values: Sequence[bytes | None]) -> tuple[list[Values], Sequence[int], dict[int, str]]:
        """The texts, the positions of their records, and the reasons why other records are refused."""
        try:
            joined = b"".join(values)  # type: ignore[arg-type]
            if not any(mark in joined for mark in _APART):
                return [list(map(bytes.decode, values))], range(len(values)), {}  # type: ignore[arg-type]
        except (TypeError, UnicodeDecodeError):  # reported one by one
            pass
        texts, kept, refused = list[str](), list[int](), dict[int, str]()
        for index, value in enumerate(values):
            found = _text(value)
            if isinstance(found, str):
                texts.append(found)
                kept.append(index)
            else:
                refused[index] = found.reason
        return [texts], kept, refused

    def columns(self) -> list[Column]:
        return [plain(pl.String())]

    @staticmethod
    def shown(value: Any) -> str:
        text = str(value)
        return f"'{text}'" if len(text) <= _SHOWN else f"'{text[: _SHOWN - 3]}...'"


class _NoText:
    """The reason why a record is not a text."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


def _text(value: bytes | None) -> str | _NoText:
    if value is None:
        return _NoText("the record has no value")
    if other := other_encoding(value):
        return _NoText(f"the record is {other}, and is to be UTF-8")
    try:
        return unmarked(value).decode()
    except UnicodeDecodeError as error:
        return _NoText(f"not UTF-8 at byte {error.start}")
