"""PROTOCOL 11: tentative batches are read beside the stable ones, and change nothing of what is stable."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas.frames import FLAG_END, FLAG_TENTATIVE
from holdfast.services.kernel.dataflow import input_partition
from holdfast.services.kernel.dataflow.input_partition import InputPartition
from holdfast.services.kernel.dataflow.line import MAX_EARLY
from tests.support.examples import examples
from tests.unit.kernel.dataflow.test_merging import content, frame, opened

OUT = frozenset({0})
NOBODY: frozenset[int] = frozenset()


def tentative(writer: int, batch: int, payload: bytes = b"", part: int = 0, parts: int = 1, wm: int = 0) -> bytes:
    return frame(writer, batch, payload, part, parts, FLAG_TENTATIVE, wm)


def seen(partition: InputPartition, batch: int, absent: frozenset[int] = NOBODY) -> list[bytes] | None:
    merged = partition.peek(batch, absent)
    return None if merged is None else [bytes(payload) for payload in merged.payloads]


def test_without_a_line_a_tentative_frame_changes_nothing() -> None:
    partition = opened()
    assert not partition.offer(0, tentative(0, 1))
    partition.offer(1, frame(1, 1))
    assert not partition.ready(1)
    partition.offer(2, frame(0, 1))
    assert content(partition, 1) == [b"0/1/0", b"1/1/0"]


def test_a_line_has_the_tentative_frames_that_came_before_it_began_and_few_of_them() -> None:
    """The sender may have read of the outage first."""
    partition = opened()
    partition.offer(0, tentative(0, 1, b"old"))
    partition.offer(1, tentative(0, 2, b"early"))
    partition.offer(2, tentative(0, 2, b"second"))
    for batch in (1, 2):
        partition.offer(2 + batch, frame(1, batch))
    partition.begin_line(1)
    assert seen(partition, 1, OUT) == [b"1/1/0"], "the stable batches have done it"
    assert seen(partition, 2) == [b"early", b"1/2/0"]
    partition.end_line()
    partition.begin_line(1)
    assert seen(partition, 2) is None, "each frame is handed over once"
    partition.end_line()
    for batch in range(2, 2 + MAX_EARLY + 1):
        partition.offer(10 + batch, tentative(0, batch))
    partition.begin_line(1)
    assert partition.following(1, NOBODY) == 3, "the oldest of too many has gone"


def test_a_line_leaves_out_a_writer_that_is_out_and_waits_for_the_others() -> None:
    partition = opened()
    partition.begin_line(0)
    assert seen(partition, 1, OUT) is None
    partition.offer(0, frame(1, 1, wm=70))
    assert seen(partition, 1) is None, "nobody is out"
    assert seen(partition, 1, OUT) == [b"1/1/0"]
    merged = partition.peek(1, OUT)
    assert merged is not None
    assert (merged.watermark, merged.writers) == (70, 1), "the writer that is out does not hold the watermark back"
    assert not partition.ready(1)


def test_a_stable_frame_is_preferred_and_of_two_tentative_ones_the_first_counts() -> None:
    partition = opened()
    partition.begin_line(0)
    partition.offer(0, frame(1, 1))
    assert partition.offer(1, tentative(0, 1, b"first"))
    assert not partition.offer(2, tentative(0, 1, b"second"))
    assert seen(partition, 1, OUT) == [b"first", b"1/1/0"]
    partition.offer(3, frame(0, 1))
    assert seen(partition, 1, OUT) == [b"0/1/0", b"1/1/0"] == content(partition, 1)


def test_parts_of_two_senders_are_not_mixed() -> None:
    partition = opened((0,))
    partition.begin_line(0)
    partition.offer(0, tentative(0, 1, b"a", part=0, parts=2))
    partition.offer(1, tentative(0, 1, b"b", part=1, parts=2))
    assert seen(partition, 1) == [b"a", b"b"]
    partition.offer(2, tentative(0, 2, b"c", part=1, parts=2))
    assert seen(partition, 2) is None


def test_an_ended_writer_brings_nothing_and_holds_nothing_back() -> None:
    partition = opened()
    partition.offer(0, frame(1, 1, flags=FLAG_END))
    partition.take(1) if partition.ready(1) else None
    partition.begin_line(1)
    partition.offer(1, tentative(0, 2, b"rows", wm=9))
    merged = partition.peek(2, OUT)
    assert merged is not None
    assert ([bytes(one) for one in merged.payloads], merged.watermark) == ([b"rows"], 9)


def test_frames_that_stable_has_no_room_for_reach_the_line_and_are_read_again_for_stable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(input_partition, "MAX_AHEAD_BATCHES", 2)
    partition = opened()
    partition.begin_line(0)
    log = [frame(1, batch) for batch in range(1, 6)]
    for offset, one in enumerate(log):
        partition.offer(offset, one)
    for batch in range(1, 6):
        assert seen(partition, batch, OUT) == [b"1/%d/0" % batch]
        partition.passed(batch)
    stable = []
    for offset, batch in enumerate(range(1, 6), 5):
        partition.offer(offset, frame(0, batch))
        while partition.ready(batch) is False and (again := partition.rewind()) is not None:
            for place in range(again, offset + 1):
                partition.offer(place, [*log, *(frame(0, one) for one in range(1, 6))][place])
        stable.append(content(partition, batch))
    assert stable == [[b"0/%d/0" % batch, b"1/%d/0" % batch] for batch in range(1, 6)]


@examples(each_run=60, with_long=300)
@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(1, 5)), max_size=12),
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 1), st.integers(1, 5), st.integers(1, 2)), max_size=8),
    st.integers(0, 4),
)
def test_stable_batches_are_the_same_whatever_tentative_frames_come(
    order: list[tuple[int, int]], others: list[tuple[int, int, int, int]], begun: int
) -> None:
    """Also their positions, epochs and what is held."""
    sent = {writer: 0 for writer in (0, 1)}
    log = [(writer, sent.__setitem__(writer, sent[writer] + 1) or sent[writer]) for writer, _ in order]  # type: ignore[func-returns-value]
    plain, mixed = opened(), opened()
    for place, (writer, batch) in enumerate(log):
        for at, w, b, parts in others:
            if at == place:
                mixed.offer(place, tentative(w, b, b"other", part=0, parts=parts))
        if place == begun:
            mixed.begin_line(0)
        assert plain.offer(place, frame(writer, batch)) == mixed.offer(place, frame(writer, batch))
    taken = []
    for partition in (plain, mixed):
        batch, found = 1, []
        while partition.ready(batch):
            found.append(content(partition, batch))
            batch += 1
        taken.append((found, partition.position(), partition.seen(), partition.bytes, partition.newest))
    assert taken[0] == taken[1]
