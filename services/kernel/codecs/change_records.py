"""Change records of Debezium: extraction of the row that each record carries.

A change is {"before": .., "after": .., "op": ..}, alone or as the payload beside Kafka Connect's schema. The row stays
JSON as written and is read like a record, so the same rules refuse or accept it.
Source: JOBS "format", Debezium's documentation, "Change events".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Any

import msgspec

from holdfast.services.kernel.codecs.texts import are_texts

OP = "op"
"""The column of a stream with the operation on the row: c (created), r (read at the start), u (updated), d (deleted).
"""
_WITH_AFTER = frozenset("cru")
_OTHERS = {"t": " (truncate)", "m": " (message)"}
_NULL = (b"null", b"")
_text = msgspec.json.Decoder(str).decode


class _Change(msgspec.Struct, gc=False):
    """A change with undecoded rows.

    op: the operation; empty if missing.
    before: the row before the change, as JSON.
    after: the row after the change, as JSON.
    """

    op: str = ""
    before: msgspec.Raw = msgspec.Raw()
    after: msgspec.Raw = msgspec.Raw()


class _Record(_Change, gc=False):
    """A change, or a record with a change as its payload.

    payload: None if the record is the change itself.
    """

    payload: _Change | None = None


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of change records, one record each.

    Attributes:
        values: the value of each row; None: the row is deleted.
        keys: the keys of deleted rows, by position among the values.
        ops: the operation on each row.
        at: the position of each row's record among all records.
        refused: position among all records and reason, for records without a row.
    """

    values: list[bytes | None]
    keys: dict[int, bytes | None]
    ops: list[str]
    at: Sequence[int]
    refused: list[tuple[int, str]]


class ChangeReader:
    """A reader of the rows in the change records of one source.

    Args:
        of_table: True: a change of op d deletes the row named by its `before`, and a tombstone the row named by its
            key. False: a change of op d gives `before` as its row, and a tombstone gives none.
        header: the number of bytes before the JSON of a record, which stay before its row.
    """

    def __init__(self, of_table: bool, header: int = 0) -> None:
        self._of_table = of_table
        self._header = header
        self._decode = msgspec.json.Decoder(_Record).decode
        self._body: Callable[[Any], bytes] = itemgetter(slice(header, None))

    def read(self, values: Sequence[bytes | None], keys: Mapping[int, bytes | None]) -> Rows:
        """The rows of the records.

        keys: the keys of records without a value, by position.
        """
        there = values if None not in values else [value for value in values if value is not None]
        places: Sequence[int] = range(len(values))
        if there is not values:
            places = [place for place, value in enumerate(values) if value is not None]
        refused = dict[int, str]()
        records, places = self._records(there, places, refused)
        payloads = list(map(attrgetter("payload"), records))
        alone = payloads.count(None)
        changes = payloads if not alone else records if alone == len(records) else list(map(_inner, records))
        ops: list[str] = list(map(attrgetter(OP), changes))
        rows: list[bytes | None] = list(map(bytes, map(attrgetter("after"), changes)))
        found = Rows(rows, {}, ops, places, refused=[])
        if not _WITH_AFTER.issuperset(ops) or b"null" in rows or b"" in rows:
            found = self._apart(found, changes, refused)
        if there is not values and self._of_table:
            found = _with_tombstones(found, values, keys)
        _unpack_texts(found.values)
        if self._header:
            heads = [(values[at] or b"")[: self._header] for at in found.at]
            found.values[:] = [
                None if row is None else head + row for head, row in zip(heads, found.values, strict=True)
            ]
        return Rows(found.values, found.keys, found.ops, found.at, refused=sorted(refused.items()))

    def _records(
        self, values: Sequence[bytes | None], places: Sequence[int], refused: dict[int, str]
    ) -> tuple[list[_Record], Sequence[int]]:
        """The records that are readable JSON, and the position of each."""
        try:
            # msgspec does not look at names and values that it passes over
            if are_texts(values):
                return list(map(self._decode, map(self._body, values))), places
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            pass
        records, kept = list[_Record](), list[int]()
        for place, value in zip(places, values, strict=True):
            try:
                body = self._body(value)
                body.decode()
                records.append(self._decode(body))
                kept.append(place)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                refused[place] = f"no change record: {_said(error)}"
        return records, kept

    def _apart(self, found: Rows, changes: Sequence[_Change], refused: dict[int, str]) -> Rows:
        """The rows one by one, used when some are deleted or missing."""
        values, keys, ops, at = list[bytes | None](), dict[int, bytes | None](), list[str](), list[int]()
        for place, op, after, change in zip(found.at, found.ops, found.values, changes, strict=True):
            row = bytes(change.before) if op == "d" else after
            if op not in _WITH_AFTER and op != "d":
                refused[place] = _no_op(op)
                continue
            if row in _NULL:
                if op == "d" and self._of_table:
                    continue  # the tombstone behind it deletes the row
                side = "before: is null or missing in a record of op d, and the connector is to send the whole row"
                refused[place] = side if op == "d" else f"after: is null or missing in a record of op {op}"
                continue
            if op == "d" and self._of_table:
                keys[len(values)], row = row, None
            values.append(row)
            ops.append(op)
            at.append(place)
        return Rows(values, keys, ops, at, refused=[])


def _said(error: Exception) -> str:
    return f"a text is not UTF-8: {error.reason}" if isinstance(error, UnicodeDecodeError) else str(error)


def _inner(record: _Record) -> _Change:
    return record if record.payload is None else record.payload


def _no_op(op: str) -> str:
    if not op:
        return "op: is missing: no change record of Debezium; rows without an envelope need no `envelope`"
    return f"op: expected c, r, u or d, found '{op[:20]}'{_OTHERS.get(op, '')}"


def _unpack_texts(values: list[bytes | None]) -> None:
    """Replaces documents of MongoDB, which are texts with JSON, by their JSON. An unreadable text stays and is refused
    later.
    """
    if any(value is not None and value[:1] == b'"' for value in values):
        values[:] = [_unpacked(value) if value is not None and value[:1] == b'"' else value for value in values]


def _unpacked(value: bytes) -> bytes:
    try:
        return _text(value).encode()
    except (msgspec.MsgspecError, UnicodeError):
        return value


def _with_tombstones(found: Rows, values: Sequence[bytes | None], keys: Mapping[int, bytes | None]) -> Rows:
    """Adds, in the order of the records, a deletion for each record without a value; its key names the row."""
    gone = [place for place, value in enumerate(values) if value is None]
    rows = [
        *((at, value, op, found.keys.get(place)) for place, (at, value, op) in enumerate(
            zip(found.at, found.values, found.ops, strict=True))),
        *((at, None, "d", keys.get(at)) for at in gone),
    ]  # fmt: skip
    rows.sort(key=itemgetter(0))
    deleted = {place: key for place, (_, value, _, key) in enumerate(rows) if value is None}
    return Rows([row[1] for row in rows], deleted, [row[2] for row in rows], [row[0] for row in rows], refused=[])
