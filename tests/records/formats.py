"""The formats of random records: how each is drawn, and what a source of it says."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from holdfast.services.kernel.codecs.registered import Schemas
from tests.records.changes import change_record, framed_change
from tests.records.drawing import (
    LETTERED,
    Drawn,
    Pool,
    arrow_record,
    avro_record,
    csv_record,
    json_record,
    json_schema_record,
    perhaps_damaged,
    protobuf_record,
)
from tests.records.values import FIELDS
from tests.support.avro import Known


def text_record(some: Random, id: int, pool: Pool) -> Drawn:
    """A line that begins with its number."""
    line = f"{id} {some.choice(pool.values['s'])}" + (
        "" if some.random() < 0.9 else some.choice(("\n", "\r\n", "\ufeff"))
    )
    return perhaps_damaged(
        some, line.encode(), (id,), True, (b"", b"\xff", b"\xff\xfea\0", b"\x00" * 8, b"\xef\xbb\xbf")
    )


class Format(NamedTuple):
    """A way to write records. draw: one of them; source: more settings; passes_null: a null record gives no row."""

    draw: Callable[[Random, int, Pool], Drawn]
    source: dict[str, Any]
    fields: dict[str, str] = FIELDS
    passes_null: bool = False


_DEBEZIUM = {"envelope": "debezium"}
FORMATS: dict[str, Format] = {
    "json": Format(json_record, {"format": "json"}),
    "csv": Format(csv_record, {"format": "csv"}),
    "arrow": Format(arrow_record, {"format": "arrow"}),
    "avro": Format(avro_record, {"format": "avro"}),
    "json-schema": Format(json_schema_record, {"format": "json-schema"}),
    "protobuf": Format(protobuf_record, {"format": "protobuf"}),
    "text": Format(text_record, {"format": "text"}, {"s": "string"}),
    "debezium": Format(change_record, {"format": "json", **_DEBEZIUM}, passes_null=True),
    "debezium-json-schema": Format(framed_change, {"format": "json-schema", **_DEBEZIUM}, passes_null=True),
}


def source_of(name: str, pool: Pool) -> dict[str, Any]:
    """What the job file says of the source of one part."""
    delimiter, quote, null_words = pool.form
    form = {"delimiter": delimiter, "quote": quote, "null_words": list(null_words)}
    return FORMATS[name].source | ({"csv": form} if name == "csv" else {})


def registry(name: str, pool: Pool) -> Schemas:
    """The registry that knows the schemas of the records."""
    if name == "protobuf":
        return pool.messages
    return Known(pool.schemas) if name == "avro" else Known(LETTERED, kind="JSON")
