"""Random change records of Debezium: a row behind each, as it was before or after, and what is no change."""

from __future__ import annotations

import json
from random import Random

from tests.records.drawing import LETTERED, Drawn, Pool, in_frame, json_text, perhaps_damaged

_OTHER_OPS = ("t", "m", "x", "", "D", "null", "5", "[]")
_BESIDE = (
    '"source":{"db":"shop","lsn":1}', '"ts_ms":1', '"transaction":null', '"source":null', '"ts_us":1e400',
)  # fmt: skip
_TEXTS = ('"\\ud800"', '"\\x"', '"\xff"', '"', '"{}"', '"5"', "5", "[]", "true", '"\\u0000"')
"""What stands for a row and is none."""
_ODD = (
    b"", b"{", b"null", b"[]", b'{"payload":null}', b'{"payload":5}', b'{"payload":{"payload":{"op":"c"}}}', b"5",
    b'{"op":"c","after":' + b"[" * 3_000, b'{"schema":{},"payload":{}}', b"\xff",
    b'{"op":"c","after":"' + b"\xff" + b'"}',
)  # fmt: skip


def change_record(some: Random, id: int, pool: Pool) -> Drawn:
    """A change, alone or in the wrapper of Kafka Connect; now and then a tombstone, which gives no row."""
    chance = some.random
    if chance() < 0.03:
        return Drawn(None)
    row, taken = json_text(some, id, pool)
    if chance() < 0.1:
        row = json.dumps(row, ensure_ascii=chance() < 0.5)  # as of MongoDB
    op = some.choice("cruud")
    row, other = (some.choice(_TEXTS), "null") if chance() < 0.03 else (row, some.choice(("null", "{}", row)))
    taken = taken and row not in _TEXTS
    sides = {"before": row, "after": other} if op == "d" else {"before": other, "after": row}
    parts = [f'"{name}":{value}' for name, value in sides.items() if value != "null" or chance() < 0.5]
    written = f'"{op}"'
    if chance() < 0.05:
        wrong = some.choice(_OTHER_OPS)
        written, taken = wrong if wrong in ("null", "5", "[]") else f'"{wrong}"', False
    parts += some.sample(_BESIDE, some.randint(0, 2))
    if chance() < 0.02:
        taken = False
    else:
        parts.append(f'"op":{written}')
    some.shuffle(parts)
    whole = "{" + ",".join(parts) + "}"
    if chance() < 0.3:
        whole = '{"schema":{"type":"struct"},"payload":' + whole + "}"
    return perhaps_damaged(some, whole.encode("utf-8", "surrogatepass"), (id,), taken, _ODD)


def framed_change(some: Random, id: int, pool: Pool) -> Drawn:
    """A change as a JSON serializer of a registry writes it."""
    one = change_record(some, id, pool)
    return one if one.value is None else in_frame(some, one, LETTERED)
