"""A job file that is made from a sample passes `check` and runs over the sample without a dead letter."""

from __future__ import annotations

import gzip
import json
import logging
import math
import os
import random
import string
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.services.client.feed import Feed
from holdfast.services.client.first_job import Draft, draft
from holdfast.services.client.local_run import Finished, LocalRun, complete
from holdfast.services.diagnostics.logger import drop_below
from holdfast.services.kernel.errors import CommandFailed
from holdfast.services.planning.loader import load
from tests.support.examples import examples

SHARED = Path(os.environ.get("HOLDFAST_SHARED_DATA", "/work/shared/data"))
STREAMS = {
    "road_sensors.csv": ("", "road_type"),
    "road_weather.csv": ("TIMESTAMP", "tempm"),
    "hashtags.jsonl.gz": ("event_time", ""),
    "packets.csv.gz": ("datetime", "proto"),
    "worldcup98_requests_per_minute.csv.gz": ("period", ""),
}


def drafted(records: list[dict[str, Any]]) -> Draft:
    return draft(records, "first", "first", {"topic": "first"})


def tried(found: Draft, values: list[bytes]) -> Finished:
    drop_below(logging.ERROR)
    return LocalRun(complete(load(found.text(), "first.yaml")), {found.source: iter([values])}, []).run()


def lines(records: list[dict[str, Any]]) -> list[bytes]:
    return [json.dumps(record).encode() for record in records]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1, "int"), (2**70, "float"), (1.5, "float"), (True, "bool"), ("x", "string"), (None, "string?"),
        ("2026-01-02", "date"), ("2026-01-02 03:04:05", "timestamp"), ("2026-01-02T03:04:05.678Z", "timestamp"),
        ("2026-13-02 03:04:05", "string"), ([1, 2], "list<int>"), ([], "list<string>"), ({"a": 1, "b": None},
        "struct<a: int, b: string?>"), ([{"a": "x"}], "list<struct<a: string>>"), ({}, "string"),
    ],
)  # fmt: skip
def test_the_type_of_a_value(value: Any, kind: str) -> None:
    assert drafted([{"v": value, "w": 1}]).fields["v"] == kind


def test_a_field_that_is_missing_or_null_somewhere_may_be_null_and_mixed_numbers_are_floats() -> None:
    found = drafted([{"a": 1, "b": 1, "c": "x"}, {"a": None, "b": 2.5}])
    assert found.fields == {"a": "int?", "b": "float", "c": "string?"}


@pytest.mark.parametrize(
    ("field", "value", "unit"),
    [
        ("ts", 1_700_000_000, "s"), ("sent_ms", 1_700_000_000_000, "ms"), ("at", 1_700_000_000_000_000, "us"),
        ("at", 1_700_000_000_000_000_000, "ns"), ("stamp", 1_700_000_000_000, "ms"),
    ],
)  # fmt: skip
def test_integers_that_may_be_times_are_event_times_in_their_unit(field: str, value: int, unit: str) -> None:
    records = [{"user": "ab"[n % 2], field: value + n} for n in range(10)]
    found = drafted(records)
    assert (found.event_time, found.unit, found.fields[field]) == (field, unit, "timestamp")
    assert not tried(found, lines(records)).dead


def test_numbers_with_a_fraction_that_may_be_times_are_event_times_and_stay_numbers() -> None:
    records = [{"user": "ab"[n % 2], "ts": 1_700_000_000.25 + n} for n in range(10)]
    found = drafted(records)
    assert (found.event_time, found.unit, found.fields["ts"]) == ("ts", "s", "float")
    assert not tried(found, lines(records)).dead


def test_unlike_values_have_the_type_of_most() -> None:
    records: list[dict[str, Any]] = [{"v": 1}, {"v": "2"}, {"v": 2.5}, {"v": True}, {"v": None}, {"v": [3]}]
    found = drafted(records)
    assert found.fields == {"v": "float?"}
    assert len(tried(found, lines(records)).dead) == 3


def test_names_are_written_as_they_are_read_by_people() -> None:
    found = drafted([{"Temp °C": 1, "line\u2028break": 2}])
    assert '"Temp °C": int' in found.text()
    assert load(found.text(), "first.yaml").sources[found.source].fields is not None
    assert set(found.fields) == {"Temp °C", "line\u2028break"}


def test_a_large_number_that_is_called_otherwise_is_no_time_in_seconds() -> None:
    assert drafted([{"population": 1_400_000_000}]).event_time == ""


def test_a_field_named_event_time_is_the_event_time_unless_it_may_be_null() -> None:
    at = "2026-01-02T03:04:05Z"
    assert drafted([{"updated": at, "event_time": at}]).event_time == "event_time"
    assert drafted([{"updated": at, "event_time": None}, {"updated": at, "event_time": at}]).event_time == "updated"


def test_records_out_of_order_are_not_late_in_the_run() -> None:
    records = [{"k": "ab"[n % 2], "at": f"2026-01-0{1 + n % 3}T00:00:00Z"} for n in range(12)]
    found = drafted(records)
    assert found.lateness_s == 2 * 24 * 3600
    assert (found.key, sum(one.late for one in tried(found, lines(records)).progress.values())) == ("k", 0)


def test_names_that_no_source_can_have_are_left_out_and_said() -> None:
    records = [{"_time": 3, "good": 1, "no": "x", "with space": 2, "@timestamp": "2026-01-02T03:04:05Z"}] * 3
    found = drafted(records)
    assert "_time" in found.left_out
    assert "good" in found.fields
    assert '# left out, since no source can have them: "_time"' in found.text()
    assert not tried(found, lines(records)).dead


def test_a_sample_without_records_makes_no_job() -> None:
    with pytest.raises(CommandFailed, match="the sample has no record"):
        drafted([])


VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False),
        st.text(string.printable, max_size=8), st.just("2026-01-02T03:04:05Z"), st.just("2026-01-02"),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(st.text(string.ascii_lowercase, min_size=1, max_size=3), inner, max_size=2),
    ),
    max_leaves=4,
)  # fmt: skip


@examples(each_run=40, with_long=200)
@given(
    st.lists(
        st.dictionaries(st.text("ab_ .:'\"#é", min_size=1, max_size=4), VALUES, min_size=1, max_size=4),
        min_size=1,
        max_size=4,
    )
)
def test_every_sample_gives_an_accepted_job_or_a_refusal_in_words(records: list[dict[str, Any]]) -> None:
    try:
        text = drafted(records).text()
    except CommandFailed as refused:
        text, said = "", refused.message
    if text:
        assert load(text, "first.yaml").name == "first"
    else:
        assert "no job file comes out of the sample" in said


def values(path: Path) -> Iterator[bytes]:
    return (record for block in Feed(path).blocks() for record in block)


@pytest.mark.slow
@pytest.mark.parametrize("name", STREAMS)
def test_first_records_of_real_streams_make_a_job_that_runs(name: str) -> None:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{path} is not here")
    taken = list(islice(values(path), 300))
    found = drafted([json.loads(one) for one in taken])
    finished = tried(found, taken)
    assert (found.event_time, found.key) == STREAMS[name]
    assert not finished.dead
    rows = [json.loads(row) for row in finished.rows["results"]]
    assert sum(row["records"] for row in rows[-1:]) > 0 if found.key else len(rows) == 300


@pytest.mark.parametrize("suffix", ["csv", "ndjson", "ndjson.gz"])
def test_a_made_stream_runs_from_every_kind_of_file(tmp_path: Path, suffix: str) -> None:
    chance = random.Random(3)
    records = [
        {"user": chance.choice("abc"), "amount": round(chance.gauss(5, 2), 2), "ok": chance.random() < 0.5,
         "at": f"2026-01-01T0{n // 20}:{n % 20:02}:00Z"} for n in range(100)
    ]  # fmt: skip
    path = tmp_path / f"made.{suffix}"
    if suffix == "csv":
        rows = [",".join(map(str, (r["user"], r["amount"], str(r["ok"]).lower(), r["at"]))) for r in records]
        path.write_text("\n".join(["user,amount,ok,at", *rows]) + "\n")
    else:
        content = b"\n".join(lines(records)) + b"\n"
        path.write_bytes(gzip.compress(content) if suffix.endswith("gz") else content)
    taken = list(values(path))
    found = drafted([json.loads(one) for one in taken])
    assert dict(found.fields) == {"user": "string", "amount": "float", "ok": "bool", "at": "timestamp"}
    counted = [json.loads(row) for row in tried(found, taken).rows["results"]]
    assert sum(row["records"] for row in counted) == 100
    assert math.isclose(len(counted), 15), "three users in five hours"
