"""Readers of records by other libraries, to hold the values of the product's decoders against.

Each gives the rows of a record, or raises: then the product has to refuse the record, too.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

import fastavro
import polars as pl
from google.protobuf.message_factory import GetMessageClass

from holdfast.services.kernel.codecs import fields as field_types
from holdfast.services.kernel.codecs.protobuf_schemas import message, parse
from tests.records import wire
from tests.records.drawing import LETTERED, Pool
from tests.records.values import FIELDS

Row = dict[str, Any]
Read = Callable[[bytes], list[Row]]
_BOM = b"\xef\xbb\xbf"
_FRACTION = re.compile(r"(\.\d{6})\d+")
_TIME = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d(:\d\d(:\d\d(\.\d+)?)?)?( ?(Z|[+-]\d\d(:?\d\d)?))?)?", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_EXACT = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_INT = re.compile(r"[-+]?\d+", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)


class NoRow(Exception):
    """A value that its type does not have."""


class NoReader(Exception):
    """The other library reads less than Arrow's own, so nothing is known of a record."""


# -- values of JSON and CSV -------------------------------------------------------------------------------------------


def value(given: Any, text: str) -> Any:
    """A value of JSON as one of a field type."""
    name = field_types.required(text)
    if given is None:
        if not field_types.nullable(text):
            raise NoRow(f"null for {text}")
        return None
    if name.startswith("list<"):
        return [value(one, name[len("list<") : -1]) for one in _of(given, list)]
    if name.startswith("struct<"):
        return row(_of(given, dict), field_types.members(name))
    return _scalar(given, name)


def row(given: dict[str, Any], fields: dict[str, str]) -> Row:
    return {name: value(given.get(name), text) for name, text in fields.items()}


def _of(given: Any, *kinds: type) -> Any:
    if type(given) not in kinds:
        raise NoRow(f"{given!r} is no {kinds}")
    return given


def _scalar(given: Any, name: str) -> Any:
    if name == "int":
        return _whole(_of(given, int, Decimal))
    if name == "float":
        return _finite(float(_of(given, int, Decimal)))
    if name == "string":
        _of(given, str).encode()
        return given
    if name == "bool":
        return _of(given, bool)
    if name == "bytes":
        return base64.b64decode(_of(given, str), validate=True)
    if name == "timestamp":
        return _time(_of(given, str))
    if name == "date":
        if not _DATE.fullmatch(_of(given, str)):
            raise NoRow(given)
        return date.fromisoformat(given)
    if isinstance(_of(given, str, int, Decimal), str) and not _EXACT.fullmatch(given):
        raise NoRow(given)
    return _fitting(Decimal(given), name)


def _whole(number: int | Decimal) -> int:
    if number != number.to_integral_value() if isinstance(number, Decimal) else False:
        raise NoRow(str(number))
    if isinstance(number, Decimal) and number.adjusted() > 30:
        raise NoRow(str(number))
    found = int(number)
    if not -(2**63) <= found < 2**63:
        raise NoRow(str(number))
    return found


def _finite(number: float) -> float:
    if number in (float("inf"), float("-inf")) or number != number:
        raise NoRow(str(number))
    return number


def _fitting(number: Decimal, name: str) -> Decimal:
    precision, scale = map(int, re.findall(r"\d+", name))
    _sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    if not any(digits):
        return Decimal(0)
    whole = int("".join(map(str, digits)))
    while exponent < -scale:
        if whole % 10 or exponent < -2_000:
            raise NoRow(str(number))
        whole, exponent = whole // 10, exponent + 1
    if len(str(whole)) + exponent + scale > precision:
        raise NoRow(str(number))
    return number


def _time(text: str) -> datetime:
    if not _TIME.fullmatch(text):
        raise NoRow(text)
    found = datetime.fromisoformat(_FRACTION.sub(r"\1", text).replace(" ", "T", 1).replace(" ", ""))
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _no_constant(text: str) -> Any:
    raise NoRow(text)


def loads(text: str) -> Any:
    return json.loads(text, parse_float=Decimal, parse_constant=_no_constant)


def _unmarked(record: bytes) -> str:
    return record.removeprefix(_BOM).decode()


def _json(record: bytes) -> list[Row]:
    return [row(_of(loads(_unmarked(record)), dict), FIELDS)]


def _change(record: bytes) -> list[Row]:
    found = _of(loads(record.decode()), dict)
    change = found if found.get("payload") is None else _of(found["payload"], dict)
    op = change["op"]
    if op not in ("c", "r", "u", "d"):
        raise NoRow(op)
    carried = change.get("before" if op == "d" else "after")
    carried = loads(carried) if isinstance(carried, str) else carried
    return [row(_of(carried, dict), FIELDS) | {"op": op}]


def _text(record: bytes) -> list[Row]:
    return [{"s": _unmarked(record)}]


def _csv(record: bytes, pool: Pool) -> list[Row]:
    delimiter, quote, null_words = pool.form
    lines = io.StringIO(_unmarked(record), newline="")
    (parts,) = csv.reader(lines, delimiter=delimiter, quotechar=quote, strict=True)
    if len(parts) != len(FIELDS):
        raise NoRow(f"{len(parts)} columns")
    given = [None if one in ("", *null_words) else one for one in parts]
    return [{name: _cell(one, text) for one, (name, text) in zip(given, FIELDS.items(), strict=True)}]


def _cell(given: str | None, text: str) -> Any:
    name = field_types.required(text)
    if given is None or name in ("string", "bytes", "timestamp", "date"):
        return value(given, text)
    if name == "bool":
        return {"true": True, "false": False}[given.lower()]
    if name == "int":
        if not (_INT.fullmatch(given) or _FLOAT.fullmatch(given)):
            raise NoRow(given)
        return _whole(Decimal(given))
    if name == "float":
        if not _FLOAT.fullmatch(given):
            raise NoRow(given)
        return _finite(float(given))
    return value(given if name.startswith("decimal") else loads(given), text)


# -- records of a registry and of Arrow -------------------------------------------------------------------------------


def _id(record: bytes) -> int:
    if record[:1] != b"\0" or len(record) < 5:
        raise NoRow("no frame")
    return int.from_bytes(record[1:5], "big")


def _avro(record: bytes, schemas: dict[int, Any]) -> list[Row]:
    body = io.BytesIO(record[5:])
    found: Any = fastavro.schemaless_reader(body, schemas[_id(record)], None)
    if body.tell() != len(record) - 5:
        raise NoRow("too long")
    return [{name: _of(found, dict).get(name) for name in FIELDS}]


def _passed_over(schema: Any) -> Any:
    """The schema in which texts that no field asks for are bytes: nobody looks whether they are UTF-8."""
    found = json.loads(json.dumps(schema))
    for one in found["fields"] if isinstance(found, dict) else ():
        if one["name"] == "more" and one["type"] == "string":
            one["type"] = "bytes"
        elif one["name"] == "more" and isinstance(one["type"], dict) and one["type"]["type"] == "map":
            pairs = [{"name": "key", "type": "bytes"}, {"name": "value", "type": one["type"]["values"]}]
            one["type"] = {"type": "array", "items": {"type": "record", "name": "Pair", "fields": pairs}}
    return found


def _message(record: bytes, classes: dict[int, Any]) -> list[Row]:
    of, body = classes[_id(record)], record[5:]
    count, at = wire.number(body, 0)
    for _ in range(count >> 1):
        index, at = wire.number(body, at)
        if index:
            raise NoRow("another message")
    if count not in (0, 2):
        raise NoRow("an inner message")
    found = wire.row(body[at:], of)
    if found["id"] is None:
        raise NoRow("no id")
    return [{name: found.get(name, None) for name in FIELDS}]


def _arrow(record: bytes) -> list[Row]:
    """polars' own reader, which asks for more order in the metadata than pyarrow does."""
    try:
        found = (pl.read_ipc if record[:6] == b"ARROW1" else pl.read_ipc_stream)(io.BytesIO(record))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError) as error:
        raise NoReader(str(error)) from None
    return [{name: one.get(name) for name in FIELDS} for one in found.to_dicts()]


def reader(format: str, pool: Pool) -> Read:
    """The reader of the records of a part."""
    if format == "avro":
        known = {id: fastavro.parse_schema(_passed_over(one)) for id, one in pool.schemas.items()}
        return lambda record: _avro(record, known)
    if format == "protobuf":
        texts = pool.messages.texts
        classes = {id: GetMessageClass(message(parse(texts[id]), (0,))).DESCRIPTOR for id in range(1, 5)}
        return lambda record: _message(record, classes)
    if format == "csv":
        return lambda record: _csv(record, pool)
    if format in ("json-schema", "debezium-json-schema"):
        inner = _json if format == "json-schema" else _change
        return lambda record: inner(record[5:]) if _id(record) in LETTERED else _no_constant("an id")
    return {"json": _json, "text": _text, "debezium": _change, "arrow": _arrow}[format]


# -- comparison -------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _beginning() -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC)


def alike(ours: Any, theirs: Any) -> bool:
    """True if two values are one, whatever library gave them."""
    if ours is None or theirs is None:
        return ours is theirs
    if isinstance(ours, float):
        return bool(ours == float(theirs)) or (ours != ours and float(theirs) != float(theirs))
    if isinstance(ours, datetime):
        moment = theirs if isinstance(theirs, datetime) else _beginning() + timedelta(microseconds=theirs)
        return ours == (moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(alike, ours, theirs))
    if isinstance(ours, dict):
        return all(alike(one, theirs.get(name)) for name, one in ours.items())
    return (bool not in (type(ours), type(theirs)) and bool(ours == theirs)) or ours is theirs
