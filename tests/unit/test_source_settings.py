"""Settings of a source: names in the record, times ahead of the record, records without a value; in every format."""

from __future__ import annotations

import io
import json
from typing import Any

import polars as pl
import pytest

from schemas.jobs import JobSpec, Source
from schemas.plans import OperatorPlan
from services.kernel.codecs.decoding import Decoded
from services.kernel.dataflow.source_records import SourceDecoder
from services.kernel.errors import JobRejected
from services.planning import source_streams
from services.planning.checking import check
from services.planning.loading import interpret

NOW_MS = 1_700_000_000_000
FIELDS = {
    "id": {"type": "string", "from": "_id"},
    "at": {"type": "timestamp", "from": "@timestamp"},
    "moment": {"type": "int?", "from": "_time"},
    "v": "int",
}


def decoded(values: list[bytes | None], keys: dict[int, bytes] | None = None, **settings: Any) -> Decoded:
    source = Source.model_validate({"topic": "in", "fields": FIELDS, "event_time": "at", "unit": "ms", **settings})
    stream = source_streams.stream(source)
    plan = OperatorPlan("s", "source", 1, (), {}, stream.fields, stream.row_key)
    params = source.model_dump(mode="json")
    return SourceDecoder(plan, params).decode(values, [NOW_MS] * len(values), keys or {})


def record(id: str, at_ms: int = NOW_MS, moment: int | None = 7, v: int = 1) -> dict[str, Any]:
    return {"_id": id, "@timestamp": at_ms, "_time": moment, "v": v}


def as_json(*rows: dict[str, Any]) -> list[bytes | None]:
    return [json.dumps(row).encode() for row in rows]


def as_csv(*rows: dict[str, Any]) -> list[bytes | None]:
    return [",".join("" if one is None else str(one) for one in row.values()).encode() for row in rows]


def as_arrow(*rows: dict[str, Any]) -> list[bytes | None]:
    frame = pl.DataFrame(rows).with_columns(pl.from_epoch("@timestamp", "ms").dt.replace_time_zone("UTC"))
    made: list[bytes | None] = []
    for index in range(frame.height):
        out = io.BytesIO()
        frame[index].write_ipc_stream(out)
        made.append(out.getvalue())
    return made


FORMATS = {"json": as_json, "csv": as_csv, "arrow": as_arrow}


@pytest.mark.parametrize("format", FORMATS)
def test_a_field_is_read_by_its_name_in_the_record(format: str) -> None:
    found = decoded(FORMATS[format](record("a"), record("b", moment=8, v=2)), format=format)
    assert found.refused == []
    assert found.rows.columns[:4] == ["id", "at", "moment", "v"]
    assert found.rows["id"].to_list() == ["a", "b"]
    assert found.rows["moment"].to_list() == [7, 8]


def test_a_row_of_a_table_is_deleted_by_the_name_in_the_record() -> None:
    for key in (b'{"_id": "a"}', b'"a"', b"a", b'["a"]'):
        found = decoded([*as_json(record("a")), None], {1: key}, table=["id"])
        assert found.refused == [], key
        assert found.rows["id"].to_list() == ["a", "a"]
        assert found.rows["_deleted"].to_list() == [None, True]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("ahead_s", "setting", "taken"),
    [(3600, {}, True), (3601, {}, False), (90 * 86400, {"max_ahead_s": 91 * 86400}, True),
     (92 * 86400, {"max_ahead_s": 91 * 86400}, False), (10 * 366 * 86400, {"max_ahead_s": None}, True),
     (11, {"max_ahead_s": 10}, False)],
)  # fmt: skip
def test_max_ahead_s_says_which_times_are_taken(
    format: str, ahead_s: int, setting: dict[str, Any], taken: bool
) -> None:
    found = decoded(FORMATS[format](record("a", NOW_MS + ahead_s * 1000)), format=format, **setting)
    assert (found.rows.height, len(found.refused)) == ((1, 0) if taken else (0, 1))
    if not taken:
        assert "ahead of the record's timestamp" in found.refused[0][1]


def test_a_job_of_before_keeps_its_limit_and_its_dead_letters() -> None:
    """Its params on the log name neither setting."""
    plan = OperatorPlan("s", "source", 1, (), {}, {"at": "timestamp"}, ())
    decoder = SourceDecoder(plan, {"fields": {"at": "timestamp"}, "event_time": "at", "unit": "ms"})
    found = decoder.decode([b'{"at": %d}' % (NOW_MS + 3_601_000), None], [NOW_MS, NOW_MS], {})
    assert [index for index, _ in found.refused] == [0, 1]


@pytest.mark.parametrize("format", FORMATS)
def test_null_records_give_no_row_and_no_dead_letter(format: str) -> None:
    values = FORMATS[format](record("a"), record("b"))
    mixed = [None, values[0], None, values[1], b""]
    found = decoded(mixed, format=format, null_records="skip")
    assert found.rows["id"].to_list() == ["a", "b"]
    assert found.kept.tolist() == [1, 3]
    assert [index for index, _ in found.refused] == [4], "an empty value is a value"
    assert [index for index, _ in decoded(mixed, format=format).refused] == [0, 2, 4]
    assert decoded([None, None], format=format, null_records="skip").rows.height == 0


def job(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": "job",
        "sources": {"s": {"topic": "in", "fields": fields}},
        "queries": {"q": {"input": "s", "sink": {"topic": "out"}}},
    }


def rejected(fields: dict[str, Any]) -> list[tuple[str, str, str]]:
    try:
        found = check(interpret(job(fields)), []).problems
    except JobRejected as error:
        found = list(error.problems)
    return [(one.path, one.message, one.hint) for one in found]


def test_the_hint_for_a_name_with_an_underscore_is_accepted() -> None:
    ((path, _, hint),) = rejected({"_id": "string"})
    assert path == "sources.s.fields._id"
    assert hint.endswith("id: {type: string, from: _id}")
    assert rejected({"id": {"type": "string", "from": "_id"}}) == []


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"id": {"type": "strin", "from": "_id"}}, "sources.s.fields.id"),
        ({"id": {"type": "string"}}, "sources.s.fields.id.from"),
        ({"id": {"type": "string", "form": "_id"}}, "sources.s.fields.id.form"),
        ({"a": "int", "b": {"type": "int", "from": "a"}}, "sources.s.fields.b"),
        ({"a": 5}, "sources.s.fields.a"),
    ],
)
def test_what_is_wrong_with_a_field_is_said_at_the_field(fields: dict[str, Any], path: str) -> None:
    assert path in [found for found, _, _ in rejected(fields)]


def test_the_plain_form_of_a_job_is_a_job_again_and_the_schema_names_the_settings() -> None:
    spec = interpret(job(FIELDS))
    assert JobSpec.model_validate(spec.as_plain()) == spec
    assert spec.as_plain()["sources"]["s"]["fields"]["id"] == {"type": "string", "from": "_id"}
    schema = json.dumps(JobSpec.model_json_schema())
    assert all(f'"{name}"' in schema for name in ("from", "max_ahead_s", "null_records"))
