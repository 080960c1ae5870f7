"""Cost of a Schema Registry: the same rows as JSON, Avro, Protobuf and JSON Schema, decoded by turns, then written.

In one thread, without a cluster or a registry: the CPU time of a batch in the decoder of a source and in the encoder of
a sink. Beside them the bare readers of Avro bytes: ours, fastavro, and pyruhvro where somebody has installed it.
"""

from __future__ import annotations

import base64
import importlib
import importlib.util
import io
import json
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import fastavro
import msgspec
import numpy as np
from google.protobuf import descriptor_pb2
from google.protobuf.message_factory import GetMessageClass

from bench.rig.cluster import BenchCluster
from bench.rig.figures import Figures
from bench.rig.scale import Scale
from holdfast.services.kernel.codecs.avro_bytes import Records
from holdfast.services.kernel.codecs.avro_records import RecordReader
from holdfast.services.kernel.codecs.avro_schemas import parse
from holdfast.services.kernel.codecs.decoder import Decoder
from holdfast.services.kernel.codecs.json_encoder import encode_json
from holdfast.services.kernel.codecs.protobuf_schemas import message
from holdfast.services.kernel.codecs.protobuf_schemas import parse as parse_protobuf
from holdfast.services.kernel.codecs.registered import HEADER, WriterSchema
from holdfast.services.kernel.codecs.registered_encoder import registered_values

FIELDS = {"id": "int", "user": "string", "price": "float", "ok": "bool", "at": "timestamp"}
SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "user", "type": "string"},
        {"name": "price", "type": "double"},
        {"name": "ok", "type": "boolean"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}
BATCHES = {10_000: 30, 1_000: 200}
"""Number of batches, by their records: the default limit of a batch, and the records of 10 ms at 100,000 a second."""
HEAD = b"\0" + (1).to_bytes(4, "big")
NOW_MS = 1_600_000_000_000


class _One:
    """A registry of one schema."""

    def __init__(self, kind: str, schema: Any) -> None:
        self._schema = WriterSchema(kind, schema if isinstance(schema, str) else json.dumps(schema))

    def find(self, id: int) -> WriterSchema | None:
        return self._schema


def registry(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Records a second by the median batch, and the median of the ratios of batches that are decoded by turns."""
    figures: Figures = {}
    for count, batches in BATCHES.items():
        took = _by_turns(_calls(count), batches)
        of_json = took["json"]
        for called, times in took.items():
            figures[f"{called}_{count}_records_per_s"] = round(count / statistics.median(times))
        for format in ("avro", "protobuf", "json-schema"):
            figures[f"{format}_{count}_over_json"] = _ratio(of_json, took[format])
            figures[f"write_{format}_{count}_over_json"] = _ratio(took["write_json"], took[f"write_{format}"])
    return figures


def _ratio(of_json: Sequence[float], of_format: Sequence[float]) -> float:
    return round(statistics.median([a / b for a, b in zip(of_json, of_format, strict=True)]), 3)


def _by_turns(calls: dict[str, Callable[[], object]], batches: int) -> dict[str, list[float]]:
    took: dict[str, list[float]] = {called: [] for called in calls}
    for batch in range(batches + batches // 5):
        for called, call in calls.items():
            began = time.process_time_ns()
            call()
            if batch >= batches // 5:
                took[called].append((time.process_time_ns() - began) / 1e9)
    return took


def _calls(count: int) -> dict[str, Callable[[], object]]:
    rows = _rows(count)
    plain = [msgspec.json.encode(row) for row in rows]
    bodies = [_avro(row) for row in rows]
    avro, schemed = [HEAD + body for body in bodies], [HEAD + value for value in plain]
    messages, compiled = _protobuf(rows)
    stamps = [NOW_MS] * count
    decoders = {
        "json": (Decoder(FIELDS, "json", "at", "us"), plain),
        "avro": (Decoder(FIELDS, "avro", "at", "us", schemas=_One("AVRO", SCHEMA)), avro),
        "protobuf": (Decoder(FIELDS, "protobuf", "at", "us", schemas=_One("PROTOBUF", compiled)), messages),
        "json-schema": (Decoder(FIELDS, "json-schema", "at", "us", schemas=_One("JSON", {})), schemed),
    }
    found: dict[str, Callable[[], object]] = {
        called: lambda decoder=decoder, values=values: decoder.decode(values, stamps)  # type: ignore[misc]
        for called, (decoder, values) in decoders.items()
    }
    table = decoders["json"][0].decode(plain, stamps).rows
    found["write_json"] = lambda: encode_json(table, FIELDS)
    for format in ("avro", "protobuf", "json-schema"):
        found[f"write_{format}"] = lambda format=format: registered_values(table, FIELDS, format, 1)  # type: ignore[misc]
    bare, every = RecordReader.of(parse(json.dumps(SCHEMA)), FIELDS, "us"), np.arange(count)
    theirs = fastavro.parse_schema(SCHEMA)
    found["bare_ours"] = lambda: bare.read(Records(avro, HEADER), every)
    found["bare_fastavro"] = lambda: [fastavro.schemaless_reader(io.BytesIO(body), theirs, None) for body in bodies]
    if importlib.util.find_spec("pyruhvro") is not None:
        found["bare_pyruhvro"] = _pyruhvro(bodies)
    return found


def _pyruhvro(bodies: Sequence[bytes]) -> Callable[[], object]:
    deserialize, schema = importlib.import_module("pyruhvro").deserialize_array, json.dumps(SCHEMA)
    return lambda: deserialize(bodies, schema)


def _rows(count: int) -> list[dict[str, Any]]:
    drawn = np.random.default_rng(1)
    numbers = drawn.integers(0, 1 << 40, count).tolist()
    users, cents = drawn.integers(0, 10_000, count).tolist(), drawn.integers(0, 100_000, count).tolist()
    return [
        {"id": id, "user": f"user-{user}", "price": cent / 100, "ok": bool(id & 1), "at": NOW_MS * 1_000 + place}
        for place, (id, user, cent) in enumerate(zip(numbers, users, cents, strict=True))
    ]


def _protobuf(rows: Sequence[dict[str, Any]]) -> tuple[list[bytes], str]:
    """The rows as messages behind the place of theirs in the schema, and the schema as a registry compiles it."""
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", syntax="proto3")
    order = file.message_type.add(name="Order")
    for number, (name, kind) in enumerate({"id": 3, "user": 9, "price": 1, "ok": 8, "at": 3}.items(), 1):
        order.field.add(name=name, number=number, type=kind, label=1)
    compiled = base64.standard_b64encode(file.SerializeToString()).decode()
    make = GetMessageClass(message(parse_protobuf(compiled), (0,)))
    return [HEAD + b"\0" + make(**row).SerializeToString() for row in rows], compiled


def _avro(row: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, SCHEMA, row)
    return out.getvalue()
