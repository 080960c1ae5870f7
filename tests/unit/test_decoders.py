"""Whatever bytes lie on a topic, a decoder gives a record or its declared error: no other, no crash, and soon."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import polars as pl
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas import (
    analysis,
    assignments,
    checkpoints,
    commands,
    commits,
    cuts,
    dead_letters,
    delivered,
    events,
    heartbeats,
    plans,
    progress,
)
from holdfast.schemas.commits import DEAD, Commit, Fence, Named
from holdfast.schemas.costs import Costs
from holdfast.schemas.decided import Id
from holdfast.schemas.frames import HEADER_BYTES, unpack
from holdfast.schemas.plans import SparkPlan
from holdfast.services.client.writer import key_reader
from holdfast.services.controller.core.submission import parse
from holdfast.services.decisions.recut import Recut
from holdfast.services.kernel.codecs.decoder import Decoder
from holdfast.services.kernel.codecs.deletions import Deletions
from holdfast.services.kernel.codecs.frames import FrameCodec, Sender
from holdfast.services.kernel.codecs.marked import AT, RowDecoder, RowReader
from holdfast.services.kernel.dataflow.input_partition import InputPartition
from holdfast.services.kernel.dataflow.micro_batches import MicroBatch
from holdfast.services.kernel.errors import JobRejected, StateCorrupted
from holdfast.services.planning.loader import load

HEARTBEAT = heartbeats.encode(
    heartbeats.Heartbeat(
        "w",
        "1",
        5,
        versions={"polars": "1"},
        copies=(heartbeats.CopyState("j/1/u", 1, "running"),),
        costs=(Costs("j/1/u", {"a": (1, 2)}, {"b": 3}, cpu_ms=1.5, deploy_ms=2.0),),
    )
)
ENTRIES = checkpoints.pack([(b"\x00\x01k", b"v"), (b"\x00\x01l", None)])
PART = checkpoints.encode(checkpoints.Part(Id("a", 1), 0, False, ENTRIES))
MARKER = checkpoints.encode(
    checkpoints.Marker(Id("a", 2), None, 1, 0, 5, b"", None, ["t"], {"u": 7}, [checkpoints.Position("x", 0, 9)])
)
LETTER = dead_letters.encode(dead_letters.DeadLetter("o", "r", 1, raw=b"x"))
FIRST = {"in": {0: 0}}
COMMIT = commits.encode(Commit(1, 1, 1, FIRST, {"in": {0: 1}}, (Named(0, 2),), 5, Id("d", 2), dead=(1,)))
JSON = b'{"job":"j","name":"n","command":"cancel","kind":"k","time_ms":1,"unit":"u","batch":3,"epoch":1}'

DECODERS: dict[str, tuple[Callable[[bytes], Any], bytes]] = {
    "assignments": (assignments.decode, JSON),
    "checkpoints": (checkpoints.decode, PART),
    "markers": (checkpoints.decode, MARKER),
    "entries": (checkpoints.unpack, ENTRIES),
    "analysis questions": (analysis.decode_question, JSON),
    "analysis answers": (analysis.decode_answer, JSON),
    "commands": (commands.decode, JSON),
    "commits": (commits.decode, COMMIT),
    "fences": (commits.decode, commits.encode(Fence(1, Id("d", 1)))),
    "cuts": (cuts.decode, JSON),
    "dead letters": (dead_letters.decode, LETTER),
    "replayed": (dead_letters.decode_replayed, dead_letters.encode(dead_letters.Replayed(1, 2))),
    "delivered": (delivered.decode, delivered.encode(delivered.Delivered("u", 1, 2))),
    "events": (events.decode, JSON),
    "heartbeats": (heartbeats.decode, HEARTBEAT),
    "plans": (plans.decode, JSON),
    "progress": (progress.decode, JSON),
    "status": (plans.decode_status, JSON),
}
DEEP = [b"[" * 100_000, b'{"a":' * 100_000, b"\x91" * 100_000]


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """Some bytes replaced, put in or taken out, mostly by such as are no text."""
    piece = st.binary(max_size=4) | st.sampled_from(
        [b"\xff", b"\xed\xa0\x80", b'"', b"{", b"[", b"\x00", b"9" * 400, b"1e999", b"-", b"\\ud800"]
    )
    changes = draw(st.lists(st.tuples(st.integers(0, len(whole)), piece, st.integers(0, 4)), max_size=3))
    for at, put, cut in changes:
        whole = whole[:at] + put + whole[at + cut :]
    return whole


@pytest.mark.parametrize("name", DECODERS)
@given(data=st.data())
def test_a_record_or_its_declared_error(name: str, data: st.DataObject) -> None:
    decode, whole = DECODERS[name]
    value = data.draw(damaged(whole) | st.binary(max_size=64))
    with suppress(msgspec.DecodeError):
        decode(value)


@pytest.mark.parametrize("name", DECODERS)
def test_no_depth_is_too_deep(name: str) -> None:
    decode, _ = DECODERS[name]
    for value in DEEP:
        with pytest.raises(msgspec.DecodeError):
            decode(value)


def test_a_text_that_is_not_utf8_is_a_declared_error() -> None:
    for value in (HEARTBEAT.replace(b'"w"', b'"\xff"'), HEARTBEAT.replace(b"polars", b"\xff")):
        with pytest.raises(msgspec.DecodeError):
            heartbeats.decode(value)


@given(damaged(JSON) | st.sampled_from(DEEP))
def test_every_submission_is_answered(value: bytes) -> None:
    parse(value)


@given(damaged(b"name: a\nsources: {s: {topic: t, fields: {a: int}}}\nqueries: {q: {input: s}}\n"))
def test_a_job_file_is_a_job_or_problems(value: bytes) -> None:
    for name in ("job.yaml", "job.json"):
        with suppress(JobRejected):
            load(value.decode("utf-8", "replace"), name)


def test_a_job_file_may_be_nested_as_it_likes() -> None:
    for text in ("[" * 1_000, "- " * 100_000, '{"a":' * 100_000):
        with pytest.raises(JobRejected, match="nested too deeply"):
            load(text, "job.yaml")


@given(damaged(JSON))
def test_a_key_is_read_or_there_is_none(value: bytes) -> None:
    assert isinstance(key_reader("name")(value), bytes | None)


DELETIONS = [
    Deletions({"name": "string", "n": "int?", "at": "timestamp"}, key, "ms")
    for key in (["name"], ["n"], ["name", "at"])
]


@given(damaged(b'{"name":"a","n":1,"at":1}') | damaged(b'["a",1]') | st.binary(max_size=8) | st.sampled_from(DEEP))
def test_a_deletions_key_is_read_or_refused(key: bytes) -> None:
    for deletions in DELETIONS:
        decoded = deletions.decode([key], [1])
        assert decoded.rows.height + len(decoded.refused) == 1


CODEC = FrameCodec(pl.Schema({"a": pl.Int64(), "s": pl.String(), "_time": pl.Int64()}))
(FRAME,) = CODEC.encode(pl.DataFrame({"a": [1, None], "s": ["x", "y"], "_time": [1, 2]}), Sender(0, 7, 1), 1, 5)


@given(damaged(FRAME))
def test_a_frame_is_what_was_sent_or_it_is_not_taken(value: bytes) -> None:
    partition = InputPartition("t[0]", [0], 7, 0, 0, fits=CODEC.check)
    if partition.offer(0, value) and partition.ready(1):
        CODEC.decode(partition.take(1).payloads)


def test_a_damaged_payload_is_noticed_before_rows_are_made_of_it() -> None:
    for place in range(HEADER_BYTES, len(FRAME)):
        value = FRAME[:place] + bytes([FRAME[place] ^ 0xFF]) + FRAME[place + 1 :]
        told: dict[int, str] = {}
        assert not InputPartition("t[0]", [0], 7, 0, 0, refuse=told.__setitem__).offer(0, value)
        assert told == {0: "the payload is not that of its header"}


@given(damaged(FRAME[HEADER_BYTES:]))
def test_a_payload_under_its_own_hash_are_rows_or_it_is_not_taken(payload: bytes) -> None:
    """Whoever damaged it before it was sent: a bug, or a stranger who knows what a header looks like."""
    header = unpack(FRAME)._replace(payload_hash=xxhash.xxh3_64_intdigest(payload))
    partition = InputPartition("t[0]", [0], 7, 0, 0, fits=CODEC.check)
    if partition.offer(0, header.pack() + payload):
        partition.take(1)


SEQUEL = commits.encode(Commit(1, 2, 1, {"in": {0: 1}}, {"in": {0: 2}}, (Named(3, 2),), 5, Id("d", 3), Id("d", 2)))


def recut(*values: bytes) -> list[MicroBatch]:
    reader = Recut(0, FIRST)
    found = [reader.read(offset, value) for offset, value in enumerate(values)]
    return [one for one in found if one is not None]


def test_commits_that_are_whole_are_taken() -> None:
    assert [len(one.dead) for one in recut(FRAME, DEAD + LETTER, COMMIT, FRAME, SEQUEL)] == [1, 0]


@given(damaged(FRAME), damaged(DEAD + LETTER), damaged(COMMIT))
def test_batches_that_a_commit_names_are_as_written_or_the_log_is_corrupt(
    frame: bytes, dead: bytes, last: bytes
) -> None:
    sent = CODEC.decode([memoryview(FRAME)[HEADER_BYTES:]]).rows()
    with suppress(StateCorrupted):
        for one in recut(frame, dead, last, FRAME, SEQUEL):
            assert not one.payloads or CODEC.decode(one.payloads).rows() == sent


ROW = b'{"_origin":4,"_reached":7,"_beat":false,"_stamp":5,"_time":9,"c0":1,"c1":"a","c2":"-1.5","c3":"aGk="}'
LETTER_ROW = b'{"_origin":5,"_raw":"bm9wZQ==","_stamp":5000}'
OUTPUT = {"x": "int", "s": "string?", "d": "decimal(10,2)?", "raw": "bytes?"}
ROWS = RowDecoder(SparkPlan("h", "u", "in", {"x": "int"}, {0: 0}, OUTPUT, source="s"))


@given(damaged(ROW), damaged(LETTER_ROW), st.sampled_from([0, 1]))
def test_rows_of_spark_are_read_or_the_log_is_corrupt(value: bytes, letter: bytes, start: int) -> None:
    try:
        found = RowReader(OUTPUT, start).read([0, 1, 2], [value, letter, ROW.replace(b":4", b":6")])
        rows, dead = ROWS.rows([found]), ROWS.dead(1, found, 1)
    except StateCorrupted:
        return
    assert rows.height + len(dead) <= found.height <= 3


@pytest.mark.parametrize(
    "value",
    [None, b"null", b"{}", ROW + b"," + ROW, b'{"c1":"\xff"}', ROW.replace(b"-1.5", b"x"), ROW.replace(b"aGk=", b"?"),
     ROW.replace(b":4", b":-4"), ROW.replace(b":4", b":9007199254740993"), LETTER_ROW.replace(b"bm9wZQ==", b"?"),
     *DEEP],
)  # fmt: skip
def test_a_record_that_is_no_row_of_spark_takes_no_rows_place_and_is_told(value: bytes | None) -> None:
    told: dict[int, str] = {}
    reader = RowReader(OUTPUT, 0, told.__setitem__)
    found = reader.read([0, 1, 2, 3], [LETTER_ROW.replace(b":5,", b":3,"), value, ROW, LETTER_ROW])
    assert found.get_column(AT).to_list() == [0, 2, 3]
    assert set(told) == {1}
    assert ROWS.rows([found]).height == 1


FIELDS = {"n": "int", "s": "string?", "f": "float?", "t": "timestamp?", "l": "list<int>?", "b": "bytes?"}
LINES = {
    "json": b'{"n":1,"s":"a","f":1.5,"t":5,"l":[1,2],"b":"aGk="}',
    "csv": b'1,"a, b",1.5,5,"[1,2]",aGk=',
}
READERS = {name: Decoder(FIELDS, name, unit="ms") for name in LINES}


@pytest.mark.parametrize("name", LINES)
@given(data=st.data())
def test_a_record_of_a_source_is_a_row_or_refused(name: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(damaged(LINES[name]) | st.sampled_from(DEEP) | st.none(), min_size=1, max_size=4))
    decoded = READERS[name].decode([*values, LINES[name]], [1] * (len(values) + 1))
    assert decoded.rows.height + len(decoded.refused) == len(values) + 1
    assert len(values) not in dict(decoded.refused), "the one that is whole is taken, whatever comes with it"


def test_fields_that_are_gone_may_still_stand_in_old_records() -> None:
    marker = checkpoints.Marker(Id("a", 2), None, 1, 0, 5, b"", None, ["t"], {"u": 7}, [])
    old = msgspec.msgpack.decode(checkpoints.encode(marker)) | {"delivered": 5}
    assert checkpoints.decode(msgspec.msgpack.encode(old)) == marker
    beat = heartbeats.Heartbeat("w1", "1", 0)
    before = msgspec.json.decode(heartbeats.encode(beat)) | {"loops": 9, "sequence": 3}
    assert heartbeats.decode(msgspec.json.encode(before)) == beat
