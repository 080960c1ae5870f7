"""PROTOCOL 4: batches out of frames; duplicates dropped, gaps found, divergence caught."""

from __future__ import annotations

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas.cuts import END_WATERMARK
from holdfast.schemas.frames import FLAG_END, Header
from holdfast.services.kernel.dataflow import input_partition
from holdfast.services.kernel.dataflow.input_partition import InputPartition
from holdfast.services.kernel.errors import Divergence, FramesMissing, StateCorrupted
from tests.support.examples import examples

GENERATION = 7


def frame(
    writer: int, batch: int, payload: bytes = b"", part: int = 0, parts: int = 1, flags: int = 0, wm: int = 0
) -> bytes:
    content = payload or f"{writer}/{batch}/{part}".encode()
    header = Header(1, flags, writer, GENERATION, batch, part, parts, wm, 0, 0, xxhash.xxh3_64_intdigest(content))
    return header.pack() + content


def sent_under(epoch: int, batch: int) -> bytes:
    header = Header(1, 0, 0, GENERATION, batch, 0, 1, 0, epoch, 0, xxhash.xxh3_64_intdigest(b"rows"))
    return header.pack() + b"rows"


def opened(writers: tuple[int, ...] = (0, 1), batch: int = 0) -> InputPartition:
    return InputPartition("data[0]", writers, GENERATION, batch, 0)


def listened(writers: tuple[int, ...] = (0, 1)) -> tuple[InputPartition, dict[int, str]]:
    """With what it refuses, by offset."""
    told: dict[int, str] = {}
    return InputPartition("data[0]", writers, GENERATION, 0, 0, refuse=told.__setitem__), told


def content(partition: InputPartition, batch: int) -> list[bytes]:
    return [bytes(payload) for payload in partition.take(batch).payloads]


def test_a_batch_is_ready_when_every_writer_has_sent_it() -> None:
    partition = opened()
    partition.offer(0, frame(1, 1, wm=40))
    assert not partition.ready(1)
    partition.offer(1, frame(0, 1, wm=30))
    assert partition.ready(1)
    merged = partition.take(1)
    assert [bytes(p) for p in merged.payloads] == [b"0/1/0", b"1/1/0"]
    assert merged.watermark == 30


def test_a_batch_in_parts_is_ready_when_all_parts_are_there() -> None:
    partition = opened((0,))
    partition.offer(0, frame(0, 1, part=0, parts=2))
    assert not partition.ready(1)
    partition.offer(1, frame(0, 1, part=1, parts=2))
    assert content(partition, 1) == [b"0/1/0", b"0/1/1"]


def test_parts_of_two_copies_mixed_make_one_batch() -> None:
    partition = opened((0,))
    taken = [partition.offer(o, frame(0, 1, part=p, parts=3)) for o, p in enumerate([0, 0, 1, 1, 2, 2])]
    assert taken == [True, False, True, False, True, False]
    assert content(partition, 1) == [b"0/1/0", b"0/1/1", b"0/1/2"]


def test_a_duplicate_with_other_rows_is_a_divergence() -> None:
    partition = opened((0,))
    partition.offer(0, frame(0, 1))
    with pytest.raises(Divergence, match="writer 0 sent batch 1 part 0 twice"):
        partition.offer(1, frame(0, 1, payload=b"other"))


def test_a_duplicate_below_the_last_marker_is_dropped_unseen() -> None:
    partition = opened((0,))
    partition.offer(0, frame(0, 1))
    partition.take(1)
    partition.forget_hashes(1)
    assert not partition.offer(1, frame(0, 1, payload=b"other"))


@pytest.mark.parametrize(("batch", "part"), [(3, 0), (2, 1)])
def test_a_missing_batch_or_part_is_a_gap_once_two_frames_behind_it_are_there(batch: int, part: int) -> None:
    partition, told = listened((0,))
    partition.offer(0, frame(0, 1))
    assert not partition.offer(1, frame(0, batch, part=part, parts=2))
    assert "expected batch 2 part 0" in told[1]
    after = (batch, part + 1) if part == 0 else (batch + 1, 0)
    with pytest.raises(StateCorrupted, match="expected batch 2 part 0"):
        partition.offer(2, frame(0, after[0], part=after[1], parts=2))


def test_frames_that_kafka_has_lost_are_waited_for_behind_those_that_follow_them() -> None:
    """The writer goes back to its marker and sends all again. A copy that read from its own marker found the same gap
    there as before, and began again for ever (three brokers, the first frame of a partition lost).
    """
    log = [frame(0, 2), frame(1, 1), frame(0, 3), frame(0, 1), frame(1, 2), frame(0, 2), frame(0, 3), frame(1, 3)]
    first, _ = listened((0, 1))
    for offset, one in enumerate(log[:2]):
        first.offer(offset, one)
    with pytest.raises(FramesMissing, match="expected batch 1 part 0") as found:
        first.offer(2, log[2])
    again = InputPartition("data[0]", (0, 1), GENERATION, 0, 0, gap=found.value.offset)
    again.offer(0, log[0])
    assert again.missing == "data[0]: batch 1 part 0 of writer 0"
    assert [again.offer(offset, one) for offset, one in enumerate(log[1:], 1)] == [
        True,
        False,
        True,
        True,
        True,
        True,
        True,
    ]
    assert again.newest == 3
    assert not again.missing


def test_frames_that_a_writer_sent_before_it_went_back_are_waited_for() -> None:
    """What is ahead, and of before the writer's line, comes again. What it sends on its line has no gaps."""
    partition = InputPartition("data[0]", (0,), GENERATION, 20, 0, void=lambda writer, epoch: epoch < 5)
    log = [(4, 27), (4, 28), (5, 21), (4, 29), (5, 22), (6, 23), (4, 24), (4, 26), (6, 25)]
    taken = [partition.offer(offset, sent_under(*one)) for offset, one in enumerate(log)]
    assert taken == [False, False, True, False, True, True, True, False, True]
    assert partition.newest == 25
    assert partition.seen() == {0: 6}
    partition.offer(20, sent_under(6, 27))
    with pytest.raises(FramesMissing, match="expected batch 26"):
        partition.offer(21, sent_under(6, 28))


def test_another_gap_behind_a_known_one_is_a_gap() -> None:
    partition = InputPartition("data[0]", (0,), GENERATION, 0, 0, gap=1)
    for offset, batch in enumerate([2, 3, 1, 2]):
        partition.offer(offset, frame(0, batch))
    partition.offer(4, frame(0, 5))
    with pytest.raises(FramesMissing, match="expected batch 3 part 0"):
        partition.offer(5, frame(0, 6))


def test_a_frame_from_ahead_hides_no_frame_of_its_writer() -> None:
    partition, told = listened((0,))
    for offset, batch in enumerate([1, 9, 2, 3, 9, 4, 9, 5]):
        assert partition.offer(offset, frame(0, batch)) is (batch != 9)
    assert sorted(told) == [1, 4, 6]
    assert partition.newest == 5


def test_bytes_that_are_no_frame_are_refused() -> None:
    partition, told = listened()
    whole = frame(0, 1)
    bad = (b"short", whole[:-1], whole + b"x", b"\xff" * 99)
    assert not any(partition.offer(at, one) for at, one in enumerate(bad))
    assert "shorter than its header" in told[0]
    assert partition.offer(4, whole)
    assert list(told) == [0, 1, 2, 3]


def test_a_duplicate_that_is_not_what_its_header_says_is_no_divergence() -> None:
    partition, told = listened((0,))
    whole = frame(0, 1)
    partition.offer(0, whole)
    assert not partition.offer(1, frame(0, 1, b"another")[:-1])
    assert list(told) == [1]
    with pytest.raises(Divergence):
        partition.offer(2, frame(0, 1, b"another"))


def test_a_payload_that_are_no_rows_takes_no_batchs_place() -> None:
    def fits(header: Header, payload: memoryview) -> None:
        if bytes(payload) == b"odd":
            raise ValueError("odd")

    told: dict[int, str] = {}
    partition = InputPartition("data[0]", (0,), GENERATION, 0, 0, refuse=told.__setitem__, fits=fits)
    assert not partition.offer(0, frame(0, 1, b"odd"))
    assert partition.offer(1, frame(0, 1))
    assert not partition.offer(2, frame(0, 1, b"odd")), "nor is it a divergence"
    assert told == {0: "odd", 2: "odd"}


@pytest.mark.parametrize(("part", "parts"), [(0, 0), (3, 3), (7, 2)])
def test_a_part_behind_the_last_is_refused(part: int, parts: int) -> None:
    partition, told = listened((0,))
    assert not partition.offer(0, frame(0, 1, part=part, parts=parts))
    assert told == {0: f"part {part} of {parts}"}


def test_frames_of_another_generation_or_unknown_writer_are_dropped() -> None:
    partition = opened((0,))
    stranger = Header(1, 0, 0, GENERATION + 1, 1, 0, 1, 0, 0, 0, 0).pack()
    assert not partition.offer(0, stranger)
    assert not partition.offer(1, frame(5, 1))
    assert not partition.ready(1)


def test_an_end_stands_for_all_later_batches() -> None:
    partition = opened()
    partition.offer(0, frame(0, 1, flags=FLAG_END, wm=END_WATERMARK))
    for batch in (1, 2):
        partition.offer(batch, frame(1, batch, wm=batch))
    assert content(partition, 1) == [b"0/1/0", b"1/1/0"]
    merged = partition.take(2)
    assert [bytes(p) for p in merged.payloads] == [b"1/2/0"]
    assert merged.watermark == 2
    assert partition.ended == (0,), "it has to be remembered: its last frame lies before the position"
    partition.offer(3, frame(1, 3, flags=FLAG_END, wm=END_WATERMARK))
    assert partition.newest >= 99
    partition.take(3)
    assert partition.ready(10**6)


def test_after_a_restart_nothing_is_awaited_of_a_writer_that_has_ended() -> None:
    """The end of writer 0 lies below the position from which a restored copy reads."""
    before = opened()
    before.offer(0, frame(0, 1, flags=FLAG_END, wm=END_WATERMARK))
    before.offer(1, frame(1, 1))
    before.take(1)
    for later in (
        InputPartition("data[0]", (0, 1), GENERATION, 1, before.position(), before.ended),
        opened(),
    ):
        later.skip(1, before.position(), before.ended)
        later.offer(2, frame(1, 2, wm=7))
        assert later.ready(2)
        assert later.take(2).watermark == 7


def test_a_unit_that_skips_continues_with_the_frames_it_holds() -> None:
    partition = opened()
    for offset, (batch, writer) in enumerate([(1, 0), (2, 0), (1, 1), (2, 1), (3, 0)]):
        partition.offer(offset, frame(writer, batch))
    partition.skip(1, 1, ())
    assert partition.position() == 1
    assert content(partition, 2) == [b"0/2/0", b"1/2/0"]
    assert partition.bytes == len(b"0/3/0")
    partition.skip(5, 9, ())
    assert (partition.bytes, partition.position()) == (0, 9)
    partition.offer(9, frame(1, 6))
    partition.offer(10, frame(0, 6))
    assert content(partition, 6) == [b"0/6/0", b"1/6/0"]


def test_the_position_is_that_of_the_first_frame_of_a_later_batch() -> None:
    partition = opened()
    frames = [(10, 0, 1), (11, 0, 2), (12, 1, 1), (13, 0, 3), (14, 1, 2)]
    for offset, writer, batch in frames:
        partition.offer(offset, frame(writer, batch))
    partition.take(1)
    assert partition.position() == 11
    partition.take(2)
    assert partition.position() == 13


@examples(each_run=60, with_long=1_000)
@given(st.data())
def test_any_interleaving_of_duplicate_copies_gives_the_same_batches(data: st.DataObject) -> None:
    """Two copies of each of two writers send the same frames; the log holds any interleaving of the four."""
    batches = data.draw(st.integers(1, 4))
    parts = [data.draw(st.integers(1, 3)) for _ in range(batches)]

    def stream(writer: int) -> list[bytes]:
        return [frame(writer, b + 1, part=p, parts=parts[b]) for b in range(batches) for p in range(parts[b])]

    queues = [stream(0), stream(0), stream(1), stream(1)]
    partition = opened()
    offset = 0
    while any(queues):
        queue = data.draw(st.sampled_from([q for q in queues if q]))
        partition.offer(offset, queue.pop(0))
        offset += 1
    for b in range(batches):
        expected = [f"{w}/{b + 1}/{p}".encode() for w in (0, 1) for p in range(parts[b])]
        assert content(partition, b + 1) == expected
    assert partition.bytes == 0
    assert partition.position() == offset


@given(st.integers(0, 5), st.data())
def test_reading_again_from_the_position_finds_all_later_batches(done: int, data: st.DataObject) -> None:
    queues = [[frame(w, b) for b in range(1, 7)] for w in (0, 1)]
    log: list[bytes] = []
    while any(queues):
        log.append(data.draw(st.sampled_from([q for q in queues if q])).pop(0))
    first = opened()
    for offset, one in enumerate(log):
        first.offer(offset, one)
    for batch in range(1, done + 1):
        first.take(batch)
    again = opened(batch=done)
    for offset in range(first.position(), len(log)):
        again.offer(offset, log[offset])
    assert [content(again, b) for b in range(done + 1, 7)] == [content(first, b) for b in range(done + 1, 7)]


# -- room -------------------------------------------------------------------------------------------------------------


class Log:
    """A partition, and a copy that reads it, with room for few batches."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, batches: int = 4, size: int = 1_000) -> None:
        monkeypatch.setattr(input_partition, "MAX_AHEAD_BATCHES", batches)
        monkeypatch.setattr(input_partition, "MAX_AHEAD_BYTES", size)
        self.frames: list[bytes] = []
        self.next = self.reread = 0
        self.partition = opened()

    def put(self, writer: int, *batches: int, **more: int) -> None:
        self.frames += [frame(writer, batch, **more) for batch in batches]  # type: ignore[arg-type]

    def read(self) -> None:
        while self.next < len(self.frames):
            self.partition.offer(self.next, self.frames[self.next])
            self.next += 1
        if (offset := self.partition.rewind()) is not None:
            self.reread += 1
            self.next = offset

    def process(self) -> list[tuple[int, list[bytes]]]:
        """All that can be, as batch and payloads."""
        done, batch = [], self.partition._done
        for _ in range(1_000):
            self.read()
            if self.partition.ready(batch + 1):
                batch += 1
                done.append((batch, content(self.partition, batch)))
        return done


def test_while_a_writer_is_away_the_others_frames_take_bounded_room_and_come_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = Log(monkeypatch)
    log.put(0, *range(1, 101))
    log.process()
    held = log.partition._writers[0].batches
    assert len(held) == 4
    assert log.reread == 0, "there is no room yet"
    log.put(1, *range(1, 101))
    done = log.process()
    assert [batch for batch, _ in done] == list(range(1, 101))
    assert all(payloads == [f"0/{b}/0".encode(), f"1/{b}/0".encode()] for b, payloads in done)
    assert log.reread > 10
    assert log.partition.bytes == 0


def test_room_is_counted_in_bytes_too_but_the_next_batch_always_has_some(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(monkeypatch, batches=1_000, size=20)
    log.put(0, *range(1, 50))
    log.process()
    assert len(log.partition._writers[0].batches) == 2
    assert log.partition.bytes == 10
    log.put(1, *range(1, 50))
    assert [batch for batch, _ in log.process()] == list(range(1, 50))


def test_a_marker_leaves_out_nothing_that_was_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a copy reads that begins at the position is all that the batches behind it need."""
    log = Log(monkeypatch)
    log.put(0, *range(1, 21))
    log.put(1, *range(1, 3))
    log.process()
    position = log.partition.position()
    assert position == 2, "of batch 3, the first that is not done"
    fresh = InputPartition("data[0]", (0, 1), GENERATION, 2, position)
    log.put(1, *range(3, 21))
    for offset in range(position, len(log.frames)):
        fresh.offer(offset, log.frames[offset])
    log.partition = fresh
    log.next = len(log.frames)
    assert [batch for batch, _ in log.process()] == list(range(3, 21))
