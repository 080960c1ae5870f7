"""Which commits of a Spark operator count, and what comes of those that do."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas import dead_letters
from holdfast.schemas.commits import DEAD, Commit, Fence, Named, encode
from holdfast.schemas.cuts import NO_WATERMARK
from holdfast.schemas.dead_letters import DeadLetter
from holdfast.schemas.decided import Id
from holdfast.schemas.frames import HEADER_BYTES
from holdfast.services.decisions.commits import CommitLog
from holdfast.services.decisions.recut import Recut
from holdfast.services.kernel.codecs.fields import TIME, stream_schema
from holdfast.services.kernel.codecs.frames import FrameCodec, Sender
from holdfast.services.kernel.dataflow.micro_batches import MicroBatch
from holdfast.services.kernel.errors import StateCorrupted

FIRST = {"in": {0: 5, 1: 0}}
FIELDS = {"x": "int"}
CODEC = FrameCodec(stream_schema(FIELDS))


def at(offset: int) -> dict[str, dict[int, int]]:
    return {"in": {0: offset, 1: 0}}


def commit(k: int, epoch: int = 1, **changes: Any) -> Commit:
    """The k-th commit of an undisturbed log whose frame lies just before it."""
    made: dict[str, Any] = {
        "epoch": epoch,
        "k": k,
        "attempt": k,
        "start": at(4 + k),
        "stop": at(5 + k),
        "frames": (),
        "watermark": k,
        "id": Id(f"d{epoch}", k),
        "prev": Id(f"d{epoch}", k - 1) if k > 1 else None,
    }
    return Commit(**made | changes)


def test_records_of_a_topic_are_those_that_spark_counted_else_its_offsets() -> None:
    start, stop = {"in": {0: 10}, "rows": {0: 0}}, {"in": {0: 30}, "rows": {0: 9}}
    counted = commit(1, start=start, stop=stop, records=23, taken={"in": 15, "rows": 8})
    assert [counted.taken_of(topics) for topics in (["in"], ["rows"], ["in", "rows"], [])] == [15, 8, 23, 0]
    of_before = commit(1, start=start, stop=stop, records=29)
    assert [of_before.taken_of(topics) for topics in (["in"], ["in", "rows"])] == [20, 29]


def frame(*values: int) -> bytes:
    rows = stream_schema(FIELDS).to_frame().clear()
    rows = rows.vstack(type(rows)({"x": list(values), TIME: list(values)}, schema=rows.schema))
    (made,) = CODEC.encode(rows, Sender(0, 1, 1), 1, NO_WATERMARK)
    return made


def fold(*records: Commit | Fence) -> tuple[CommitLog, list[bool]]:
    log = CommitLog(FIRST)
    return log, [log.read(offset, record) for offset, record in enumerate(records)]


def test_commits_follow_one_another_from_where_the_plan_begins() -> None:
    log, valid = fold(Fence(1, Id("d1", 0)), commit(1), commit(2))
    assert valid == [True, True, True]
    assert (log.k, log.stop, log.watermark, log.epoch) == (2, at(7), 2, 1)


@pytest.mark.parametrize(
    "changes",
    [
        {"prev": Id("other", 9)},
        {"k": 4},
        {"k": 2},
        {"start": at(6)},
        {"start": at(8)},
        {"stop": at(6)},
        {"stop": {"in": {0: 8}}},
        {"stop": {"in": {0: 8, 1: 0}, "other": {0: 1}}},
        {"watermark": 1},
        {"epoch": 0},
        {"frames": (Named(2, 1),)},
        {"frames": (Named(3, 1),)},
    ],
)
def test_a_commit_that_does_not_follow_changes_nothing(changes: dict[str, Any]) -> None:
    log, valid = fold(Fence(1, Id("d1", 0)), commit(1), commit(2), msgspec.structs.replace(commit(3), **changes))
    assert valid == [True, True, True, False]
    assert log.k == 2
    assert log.read(4, commit(3)), "the one that follows still counts"


def test_behind_a_fence_only_its_own_epoch_and_later_ones_commit() -> None:
    log, valid = fold(Fence(1, Id("d1", 0)), commit(1), Fence(2, Id("d2", 0)), commit(2))
    assert valid == [True, True, True, False]
    assert log.read(4, commit(2, epoch=2, prev=Id("d1", 1)))
    assert not log.read(5, Fence(2, Id("d9", 0))), "an epoch begins once"


def test_nothing_follows_the_last_commit() -> None:
    log, _ = fold(commit(1, final=True))
    assert log.ended
    assert not log.read(1, commit(2))


def test_a_topic_may_get_more_partitions() -> None:
    _, valid = fold(commit(1, stop={"in": {0: 6, 1: 0, 2: 3}}))
    assert valid == [True]


def through(recut: Recut, records: list[bytes], start: int = 0) -> list[MicroBatch]:
    found = [recut.read(offset, value) for offset, value in enumerate(records) if offset >= start]
    return [one for one in found if one is not None]


def values(batch: MicroBatch) -> list[int]:
    found: list[int] = CODEC.decode(batch.payloads)["x"].to_list()
    return found


LOG = [
    encode(Fence(1, Id("d1", 0))),
    frame(1, 2),  # of a task that was tried again
    frame(1, 2),
    frame(3),
    encode(commit(1, frames=(Named(2, 2), Named(3, 1)))),
    frame(4),  # of a driver that died before it committed
    encode(Fence(2, Id("d2", 0))),
    frame(99),  # of the same driver, which was a zombie
    frame(4),
    encode(commit(2, frames=(Named(7, 1),))),  # its commit, too late
    b"{not a record",
    encode(commit(2, epoch=2, prev=Id("d1", 1), frames=(Named(8, 1),))),
]


def test_rows_that_valid_commits_name_come_out_once_and_no_others() -> None:
    found = through(Recut(0, FIRST), LOG)
    assert [(one.offset, values(one), one.commit.watermark) for one in found] == [(4, [1, 2, 3], 1), (11, [4], 2)]


def test_a_reader_that_starts_behind_a_commit_finds_what_one_from_the_start_finds() -> None:
    recut = Recut(5, FIRST)
    assert recut.position == 4
    (second,) = through(recut, LOG, recut.position)
    assert (second.offset, values(second)) == (11, [4])


def test_dead_letters_come_out_with_the_batch_of_the_cut_that_takes_them() -> None:
    letter = DeadLetter(origin="s", reason="no JSON", batch=0, topic="in", partition=0, offset=5, raw=b"x")
    records = [DEAD + dead_letters.encode(letter), encode(commit(1, dead=(0,)))]
    (found,) = through(Recut(0, FIRST), records)
    assert found.dead_in(7) == [msgspec.structs.replace(letter, batch=7)]
    assert not CommitLog(FIRST).read(1, commit(1, dead=(1,))), "what a commit names lies before it"


def test_a_start_that_is_not_behind_a_commit_is_told() -> None:
    with pytest.raises(StateCorrupted, match="no commit lies just before"):
        through(Recut(9, FIRST), LOG, 8)


def test_a_commit_of_frames_that_the_log_has_lost_is_told() -> None:
    recut = Recut(0, FIRST)
    recut.read(0, encode(Fence(1, Id("d1", 0))))
    with pytest.raises(StateCorrupted, match=r"names records at \[1\], which the log has lost"):
        recut.read(2, encode(commit(1, frames=(Named(1, 1),))))


def forged(**changes: Any) -> Commit:
    return msgspec.structs.replace(commit(1, frames=(Named(1, 1),)), **changes)


FORGED = {
    "names itself": forged(frames=(Named(3, 1),)),
    "names what is to come": forged(frames=(Named(10**9, 1),)),
    "names a fence": forged(frames=(Named(0, 1),)),
    "names what is no frame": forged(frames=(Named(2, 1),)),
    "names a frame as a dead letter": forged(frames=(), dead=(1,)),
    "names a frame twice": forged(frames=(Named(1, 1), Named(1, 1))),
    "starts elsewhere": forged(start=at(6), stop=at(7)),
    "goes back": forged(stop=at(4)),
    "continues in another topic": forged(stop={"other": {0: 1}}),
    "is not the next": forged(k=2),
    "ends event time": forged(watermark=2**63 - 1),
    "is of an epoch far ahead": forged(epoch=2**50),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_commit_that_cannot_be_true_is_passed_over_and_told(name: str) -> None:
    told: dict[int, str] = {}
    recut = Recut(0, FIRST, CODEC.check, told.__setitem__)
    records = [encode(Fence(1, Id("d1", 0))), frame(1), b"\x01no frame", encode(FORGED[name]), encode(forged())]
    (found,) = through(recut, records)
    assert (found.offset, values(found)) == (4, [1])
    assert set(told) == {2, 3}


@pytest.mark.parametrize("value", [b"", b"{", b"{}", b"\x00{}", b"\xff" * 80, b'{"type":"fence","epoch":1e99}'])
def test_bytes_that_are_no_record_are_passed_over_and_told(value: bytes) -> None:
    told: dict[int, str] = {}
    (found,) = through(Recut(0, FIRST, CODEC.check, told.__setitem__), [value, frame(1), encode(forged())])
    assert (found.offset, set(told)) == (2, {0})


def test_a_fence_far_ahead_fences_nobody() -> None:
    _log, valid = fold(Fence(1, Id("d1", 0)), Fence(2**53, Id("stranger", 0)), commit(1), Fence(2, Id("d2", 0)))
    assert valid == [True, False, True, True]


def test_a_record_that_loses_a_race_against_a_fence_is_not_told() -> None:
    told: dict[int, str] = {}
    through(Recut(0, FIRST, CODEC.check, told.__setitem__), LOG)
    assert set(told) == {10}


@given(st.lists(st.sampled_from(["run", "commit", "zombie", "takeover"]), max_size=40))
def test_every_micro_batch_counts_once_and_in_order_whatever_drivers_do(deeds: list[str]) -> None:
    """Drivers write frames, commit, are overtaken and still continue; the fold is what the current one sees."""
    records: list[bytes] = []
    seen, zombies = CommitLog(FIRST), list[CommitLog]()
    epoch = 1

    def append(record: Commit | Fence) -> bool:
        records.append(encode(record))
        return seen.read(len(records) - 1, record)

    def attempt(known: CommitLog, epoch: int) -> bool:
        records.append(frame(known.k + 1))
        named = (Named(len(records) - 1, 1),)
        made = commit(known.k + 1, epoch, start=known.stop, stop=at(6 + known.k), prev=known.prev, frames=named)
        return append(made)

    append(Fence(epoch, Id("d1", 0)))
    for deed in deeds:
        if deed == "run":
            records.append(frame(seen.k + 1))
        elif deed == "commit":
            assert attempt(seen, epoch)
        elif deed == "takeover":
            zombie = CommitLog(FIRST, seen.at, seen.last)
            zombies.append(zombie)
            epoch += 1
            assert append(Fence(epoch, Id(f"d{epoch}", 0)))
        elif zombies:
            assert not attempt(zombies[-1], epoch - 1)
    found = through(Recut(0, FIRST), records)
    assert [values(one) for one in found] == [[k] for k in range(1, seen.k + 1)]
    for before, after in pairwise(found):
        assert after.commit.start == before.commit.stop


def test_frames_and_records_are_told_apart_by_their_first_byte() -> None:
    assert frame(1)[0] == 1
    assert len(frame(1)) > HEADER_BYTES
    assert encode(commit(1))[:1] == b"{"
