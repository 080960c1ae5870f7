"""Random records of every format: whole ones, ones with a wrong value, and ones whose bytes or structure are damaged.

A drawn record says what has to become of it, where that is known.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa

from holdfast.services.kernel.codecs.fields import schema
from tests.records.messages import FIRST, Schemas
from tests.records.values import FIELDS, WRONG, row, text, value
from tests.support.avro import avro, framed, record


class Drawn(NamedTuple):
    """A record. ids: of its rows; taken: whether they come out, None where nobody can say."""

    value: bytes | None
    ids: tuple[int, ...] = ()
    taken: bool | None = None


FORMS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (",", '"', ()), (",", '"', ("NA",)), (";", "'", ("NA", "\\N")), ("\t", '"', ("nil",)), ("|", "~", ()),
)  # fmt: skip
"""Delimiter, quote and words for null of csv."""


class Pool:
    """Values of each field, drawn once for many records, with their texts in JSON and in CSV."""

    def __init__(self, some: Random, size: int = 400) -> None:
        rows = [row(some, 0) for _ in range(size)]
        self.values = {name: [one[name] for one in rows] for name in FIELDS}
        plain = {name: [text(one) for one in found] for name, found in self.values.items()}
        self.json = {
            name: [json.dumps(one, ensure_ascii=some.random() < 0.5) for one in found] for name, found in plain.items()
        }
        self.form = some.choice(FORMS)
        self.csv = {name: [self.cell(some, one) for one in found] for name, found in plain.items()}
        del self.values["id"], self.json["id"], self.csv["id"]
        self.frame = pl.DataFrame(rows, schema=_SCHEMA, orient="row")
        self.schemas = avro_schemas(some)
        self.messages = Schemas(some)

    def cell(self, some: Random, one: Any) -> str:
        """A value as a field of csv, in the form of the part."""
        delimiter, quote, null_words = self.form
        if one is None:
            return some.choice(("", *null_words))
        plain = one if isinstance(one, str) else json.dumps(one)
        needs = any(mark in plain for mark in (delimiter, quote, "\r", "\n")) or plain != plain.strip()
        return quote + plain.replace(quote, quote * 2) + quote if needs or some.random() < 0.1 else plain


def json_record(some: Random, id: int, pool: Pool) -> Drawn:
    whole, taken = json_text(some, id, pool)
    if some.random() < 0.02:
        whole = "\ufeff" + whole
    return perhaps_damaged(some, whole.encode("utf-8", "surrogatepass"), (id,), taken, _JSON)


def json_text(some: Random, id: int, pool: Pool) -> tuple[str, bool]:
    """An object, and whether it is a row."""
    chance = some.random
    parts = {"id": str(id)} | {name: found[int(chance() * len(found))] for name, found in pool.json.items()}
    taken = True
    if chance() < 0.1:
        name = some.choice(list(FIELDS))
        parts[name], taken = some.choice(WRONG[name]), False
    if chance() < 0.3:
        parts = {name: one for name, one in parts.items() if one != "null" or name == "id"}
    if chance() < 0.1:
        parts[some.choice(("more", "", "ID", "n.a"))] = some.choice(("1e400", "[[[]]]", '{"id":5}', '"\\n"', "0.1"))
    if chance() < 0.1:
        parts = dict(some.sample(list(parts.items()), len(parts)))
    space = "" if chance() < 0.8 else some.choice((" ", "\n\t"))
    return "{" + ",".join([f'{space}"{name}"{space}:{space}{one}' for name, one in parts.items()]) + "}", taken


_JSON = (
    b"", b"{", b"null", b"[1]", b"NaN", b"1", b'"a"', b"{}", b'{"id":1e999}', b'{"id":' + b"[" * 3_000, b"\xff\xfe{\0",
    b'{"id":' * 2_000, b"\xef\xbb\xbf", b'{"id":1}{"id":2}', b'{"id":NaN}', b"\x00" * 8, b'{"id":1,}', b"{'id':1}",
)  # fmt: skip


def csv_record(some: Random, id: int, pool: Pool) -> Drawn:
    chance = some.random
    taken: bool | None = True
    parts = [str(id), *(found[int(chance() * len(found))] for found in pool.csv.values())]
    if chance() < 0.1:
        name = some.choice([name for name in FIELDS if name not in ("s", "b")])
        wrong = json.loads(some.choice([one for one in WRONG[name] if _is_wrong_in_csv(one)]))
        parts[list(FIELDS).index(name)], taken = pool.cell(some, wrong), False
    if chance() < 0.03:
        parts, taken = some.choice((parts[:-1], [*parts, "1"], [*parts, ""])), False
    whole = pool.form[0].join(parts) + ("" if chance() < 0.7 else some.choice(("\n", "\r\n")))
    return perhaps_damaged(some, whole.encode("utf-8", "surrogatepass"), (id,), taken, _CSV)


def _is_wrong_in_csv(text: str) -> bool:
    """Texts are numbers there, and what is empty is null."""
    return text not in ('"1"', '""', "null", "1e400", "1e999", '"[1]"')


_CSV = (
    b"",
    b"\n",
    b",",
    b'"',
    b'a,"b',
    b",,,,,,,,,,,,,",
    b'1,"',
    b"\xff",
    b"\x00",
    b"id,n,f",
    b"1\n2",
    b"\xef\xbb\xbf",
)


def json_schema_record(some: Random, id: int, pool: Pool) -> Drawn:
    one = json_record(some, id, pool)
    return in_frame(some, one._replace(value=one.value or b""), LETTERED)


LETTERED = {1: {"type": "object"}, 2: {"type": "string"}}


def in_frame(some: Random, one: Drawn, known: dict[int, Any], id: int | None = None) -> Drawn:
    chance = some.random()
    if chance < 0.02:
        return Drawn(framed(some.choice((0, 9, 2**32 - 1)), one.value or b""), one.ids, False)
    if chance < 0.03:
        return Drawn(some.choice((None, b"", b"\0", b"\0\0\0\0", b"\1" * 9, one.value)), one.ids, None)
    return one._replace(value=framed(some.choice(list(known)) if id is None else id, one.value or b""))


# -- Avro -------------------------------------------------------------------------------------------------------------

_MEMBERS = record(("a", ["null", "long"]), ("b", ["null", "string"]), name="M")
_PRICED = record(
    ("v", ["null", {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 1}]),
    ("a", ["null", "long"]),
    name="P",
)
_NARROW = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
_WIDE = {"type": "fixed", "size": 16, "name": "W", "logicalType": "decimal", "precision": 38, "scale": 10}
_TEXT_LIST = {"type": "array", "items": ["null", "string"]}
_AVRO_TYPES: dict[str, tuple[Any, ...]] = {
    "id": ("long", ["long", "null"], ["null", "long", "string"]),
    "n": (["null", "long"], ["long", "null"], ["boolean", "null", "long"]),
    "f": (["null", "double"], ["double", "null"]),
    "s": (["null", "string"], ["string", "null"], ["null", "int", "string"]),
    "b": (["null", "boolean"],),
    "t": (["null", {"type": "long", "logicalType": "timestamp-micros"}],),
    "d": (["null", {"type": "int", "logicalType": "date"}],),
    "m": (["null", _NARROW],),
    "w": (["null", _WIDE],),
    "y": (["null", "bytes"],),
    "l": (["null", {"type": "array", "items": ["null", "long"]}],),
    "x": (["null", _TEXT_LIST], [_TEXT_LIST, "null"]),
    "r": (["null", _MEMBERS],),
    "q": (["null", {"type": "array", "items": ["null", _PRICED]}],),
    "more": ("string", "boolean", {"type": "map", "values": "long"}, {"type": "array", "items": "double"}),
}  # fmt: skip
_MORE: dict[str, Any] = {"string": "more", "boolean": True, "map": {"a": 1, "b": 2}, "array": [0.5]}


def avro_schemas(some: Random) -> dict[int, Any]:
    """Schemas of one stream: fields in any order, some left out, others more, and some of no use."""
    found: dict[int, Any] = {}
    for id in range(1, 5):
        names = ["id", *(name for name in _AVRO_TYPES if name != "id" and some.random() < 0.85)]
        some.shuffle(names)
        found[id] = record(*((name, some.choice(_AVRO_TYPES[name])) for name in names))
    return found | {5: "long", 6: record(("n", "long")), 7: record(("id", "string"))}


def avro_record(some: Random, id: int, pool: Pool) -> Drawn:
    known = pool.schemas
    which = some.choice((1, 2, 3, 4)) if some.random() < 0.9 else some.choice((5, 6, 7))
    if which > 4:
        payload = avro(known[which], {5: 5, 6: {"n": 1}, 7: {"id": "a"}}[which])
        return Drawn(framed(which, payload), (id,), False)
    given = {"id": id} | {name: found[int(some.random() * len(found))] for name, found in pool.values.items()}
    given["more"] = _MORE[_kind_of(known[which], "more")]
    one = perhaps_damaged(some, avro(known[which], given), (id,), True, (b"", b"\x80" * 12, b"\x02" * 40, b"\xff" * 30))
    return in_frame(some, one, known, which)


def _kind_of(schema: Any, field: str) -> str:
    kind = next((one["type"] for one in schema["fields"] if one["name"] == field), "string")
    return kind if isinstance(kind, str) else str(kind["type"])


def protobuf_record(some: Random, id: int, pool: Pool) -> Drawn:
    which = some.choice((1, 2, 3, 4)) if some.random() < 0.9 else some.choice((5, 6, 7))
    if which > 4:
        return Drawn(framed(which, FIRST), (id,), False)
    given = {"id": id} | {name: found[int(some.random() * len(found))] for name, found in pool.values.items()}
    one = perhaps_damaged(
        some, pool.messages.message(which, given), (id,), True, (b"", FIRST, b"\x02\x0e", b"\xff" * 30)
    )
    return one if one.value is None else one._replace(value=framed(which, one.value))


# -- Arrow ------------------------------------------------------------------------------------------------------------

_SCHEMA = schema(FIELDS)


def arrow_record(some: Random, id: int, pool: Pool) -> Drawn:
    """Up to three rows, in a stream or a file."""
    ids = tuple(range(id, id + some.choice((1, 1, 2, 3))))
    begin = some.randrange(pool.frame.height - len(ids))
    frame = pool.frame[begin : begin + len(ids)].with_columns(pl.Series("id", ids))
    if some.random() < 0.1:
        frame = frame.with_columns(f=pl.lit(some.choice((float("nan"), float("inf")))))
    taken: bool | None = True
    if some.random() < 0.12:
        name = some.choice(list(FIELDS))
        frame, taken = frame.with_columns(_other(some, name, frame.height)), None
    if some.random() < 0.1:
        gone = some.sample([name for name in FIELDS if name != "id"], some.randint(1, 5))
        frame = frame.drop(gone).with_columns(more=pl.lit(1))
    if some.random() < 0.02:
        frame, taken = frame.drop("id"), False
    if some.random() < 0.2:
        frame = frame.select(some.sample(frame.columns, frame.width))
    value = _written(some, frame)
    return perhaps_damaged(
        some, value, ids, taken, (b"", b"ARROW1", b"ARROW1\0\0", b"\xff\xff\xff\xff\0\0\0\0", b"x" * 50)
    )


def _written(some: Random, frame: pl.DataFrame) -> bytes:
    out = io.BytesIO()
    compression: Any = some.choice(("uncompressed", "uncompressed", "lz4", "zstd"))
    if some.random() < 0.2:
        frame.write_ipc(out, compression=compression)
    elif some.random() < 0.5:
        frame.write_ipc_stream(out, compression=compression)
    else:
        table = frame.to_arrow()
        with pa.ipc.new_stream(out, table.schema) as writer:
            writer.write_table(table, max_chunksize=some.choice((1, 100)))
    return out.getvalue()


def _other(some: Random, name: str, height: int) -> pl.Series:
    """A column of another type, or with values that its type does not have."""
    far = [2**62, -(2**62), 2**63 - 1]
    made: Callable[[], pl.Series] = some.choice((
        lambda: pl.Series(name, [some.choice((1.5, 4.0, None, float("nan"))) for _ in range(height)], dtype=pl.Float64),
        lambda: pl.Series(name, [some.choice(far) for _ in range(height)], dtype=pl.Datetime("us")),
        lambda: pl.Series(name, [some.choice(far) for _ in range(height)], dtype=pl.Datetime("ns", "UTC")),
        lambda: pl.Series(name, [some.choice((-(2**31), 2**31 - 1))] * height, dtype=pl.Int32).cast(pl.Date),
        lambda: pl.Series(name, ["a"] * height, dtype=pl.Categorical),
        lambda: pl.Series(name, [None] * height),
        lambda: pl.Series(name, [2**64 - 1] * height, dtype=pl.UInt64),
        lambda: pl.Series(name, [1] * height, dtype=pl.Int8),
        lambda: pl.Series(name, [b"\xff"] * height, dtype=pl.Binary),
        lambda: pl.Series(name, [Decimal("0.001")] * height, dtype=pl.Decimal(12, 3)),
        lambda: pl.Series(name, [[["a"]]] * height, dtype=pl.List(pl.List(pl.String))),
        lambda: pl.Series(name, [5] * height, dtype=pl.Duration("us")),
        lambda: pl.Series(name, [5] * height, dtype=pl.Time),
        lambda: pl.Series(name, [{"a": value(some, "int")}] * height),
    ))  # fmt: skip
    return made()


# -- damage -----------------------------------------------------------------------------------------------------------


_ENCODINGS = ("utf-16", "utf-16-le", "utf-32", "latin-1")


def perhaps_damaged(
    some: Random, whole: bytes, ids: tuple[int, ...], taken: bool | None, odd: tuple[bytes, ...]
) -> Drawn:
    chance = some.random()
    if chance < 0.9:
        return Drawn(whole, ids, taken)
    if chance < 0.905:
        return Drawn(some.choice((None, *odd)), ids, None)
    at, other = some.randrange(len(whole) + 1), some.randrange(len(whole) + 1)
    low, high = sorted((at, other))
    damages: tuple[Callable[[], bytes], ...] = (
        lambda: whole[:at],
        lambda: whole[:at] + some.randbytes(some.choice((1, 1, 1, 4, 9))) + whole[at + 1 :],
        lambda: whole[:low] + whole[high:],
        lambda: whole[:high] + whole[low:],
        lambda: whole + whole[:at],
        lambda: whole[:at] + bytes([byte ^ (1 << some.randrange(8)) for byte in whole[at : at + 1]]) + whole[at + 1 :],
        lambda: whole.decode("utf-8", "replace").encode(some.choice(_ENCODINGS), "replace"),
        lambda: some.randbytes(some.choice((1, 8, 60))),
    )  # fmt: skip
    return Drawn(some.choice(damages)(), ids, None)
