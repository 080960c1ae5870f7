"""PROTOCOL 6: which runs count, where a restore begins, what a copy does with a run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas.checkpoints import Anchor, CheckpointRecord, Marker, Part, Rollback, decode, encode, pack, unpack
from holdfast.schemas.decided import Id
from holdfast.services.decisions.checkpoint_log import CheckpointLog, restore
from holdfast.services.decisions.decided import Author
from holdfast.services.kernel.errors import StateCorrupted
from holdfast.services.kernel.state.image import MemoryImage
from tests.support.examples import examples

EVERYTHING = (b"", None)


def part(run: Id, index: int, entries: dict[bytes, bytes | None] | None = None, sweep: bool = False) -> Part:
    return Part(run, index, sweep, pack(list((entries or {}).items())))


def marker(
    id: Id, prev: Id | None, b: int, parts: int, a: int = 0, sweep: tuple[bytes, bytes | None] = EVERYTHING
) -> Marker:
    return Marker(id, prev, parts, a, b, sweep[0], sweep[1], ["t"], {}, [])


A1, A2, B1, B2 = Id("a", 1), Id("a", 2), Id("b", 1), Id("b", 2)


def valid(log: CheckpointLog, records: list[CheckpointRecord]) -> list[int]:
    runs = [log.read(offset, record) for offset, record in enumerate(records)]
    return [run.marker.b for run in runs if run is not None]


def test_a_complete_run_after_the_last_marker_is_valid() -> None:
    log = CheckpointLog()
    assert valid(log, [part(A1, 0), marker(A1, None, 5, 1), part(A2, 0), part(A2, 1), marker(A2, A1, 9, 2, a=5)]) == [
        5,
        9,
    ]
    assert (log.last_id, log.last_b) == (A2, 9)


def test_a_run_with_a_missing_part_is_invalid() -> None:
    assert valid(CheckpointLog(), [part(A1, 0), marker(A1, None, 5, 2)]) == []


def test_the_first_marker_of_two_runs_at_once_counts_and_the_other_run_is_void() -> None:
    records: list[CheckpointRecord] = [part(A1, 0), part(B1, 0), marker(B1, None, 4, 1), marker(A1, None, 5, 1)]
    log = CheckpointLog()
    assert valid(log, records) == [4]
    assert log.last_id == B1


def test_parts_before_the_last_valid_marker_do_not_count() -> None:
    """The author chose prev after its parts were written: the image under them is another's."""
    records: list[CheckpointRecord] = [part(A1, 0), part(B1, 0), marker(B1, None, 4, 1), marker(A1, B1, 5, 1, a=0)]
    assert valid(CheckpointLog(), records) == [4]


def test_a_run_of_an_earlier_batch_is_invalid() -> None:
    assert valid(CheckpointLog(), [marker(A1, None, 5, 0), marker(B1, A1, 5, 0), marker(B2, A1, 4, 0)]) == [5]


def test_the_base_is_where_the_last_complete_sweep_began() -> None:
    log = CheckpointLog()
    records: list[CheckpointRecord] = [
        marker(A1, None, 1, 0, sweep=(b"", b"m")),
        part(A2, 0),
        marker(A2, A1, 2, 1, sweep=(b"m", None)),
    ]
    valid(log, records[:1])
    assert log.base is None
    valid(log := CheckpointLog(), records)
    assert log.base == 0
    assert log.cursor == b""


def test_a_sweep_with_a_hole_does_not_count() -> None:
    log = CheckpointLog()
    valid(log, [marker(A1, None, 1, 0, sweep=(b"", b"m")), marker(A2, A1, 2, 0, sweep=(b"p", None))])
    assert log.base is None


def test_records_survive_encoding() -> None:
    records: list[CheckpointRecord] = [
        part(A1, 0, {b"k": b"v", b"d": None}), marker(A1, None, 1, 1), Anchor(7, A1, 1), Rollback(2, A1, 1),
    ]  # fmt: skip
    assert [decode(encode(record)) for record in records] == records
    assert unpack(pack([(b"k", None)])) == [(b"k", None)]


HISTORY: list[CheckpointRecord] = [
    marker(A1, None, 1, 0),
    marker(A2, A1, 2, 0, a=1),
    Anchor(1, A1, 1),
    marker(B1, A2, 3, 0, a=2),
]
"""Each run sweeps everything, so each begins a base; the anchor names the second."""


@pytest.mark.parametrize(
    "forged", [Anchor(2**53, None, 0), Anchor(3, A1, 2), Anchor(1, B2, 1), Anchor(1, A1, 9), Anchor(0, A1, 1)], ids=str
)
@pytest.mark.parametrize("trimmed", [0, 1])
def test_an_anchor_that_names_no_base_of_the_log_counts_for_nobody(forged: Anchor, trimmed: int) -> None:
    """One beyond the end left every later copy without its state; a trim to it would have taken the state away."""
    for place in (3, 4):
        records = [*HISTORY[:place], forged, *HISTORY[place:]]
        log, runs = restore([*enumerate(records)][trimmed:])
        assert (log.last_b, log.anchored) == (3, 1)
        assert [run.marker.b for run in runs] == [3]


def test_a_trimmed_log_without_a_valid_anchor_is_no_empty_state() -> None:
    with pytest.raises(StateCorrupted, match="none of its anchors is valid"):
        restore([(7, marker(A2, A1, 2, 0, a=1)), (8, Anchor(3, A1, 1))])


class Unit:
    """A unit in a few lines: changes keys, checkpoints with sweeps of `width` keys, sometimes loses a race."""

    def __init__(self, name: str, log: list[CheckpointRecord]) -> None:
        self.author, self.log = Author(name), log
        self.state: dict[bytes, bytes] = {}
        self.dirty: set[bytes] = set()
        self.image = MemoryImage()
        self.image_b = 0
        self.batch = 0

    def change(self, changes: dict[bytes, bytes | None]) -> None:
        self.batch += 1
        for key, value in changes.items():
            self.dirty.add(key)
            if value is None:
                self.state.pop(key, None)
            else:
                self.state[key] = value

    def checkpoint(self, fold: CheckpointLog, width: int, lose: bool) -> None:
        run = self.author.next()
        delta = {key: self.state.get(key) for key in sorted(self.dirty)}
        slice_, stop = self.image.slice(fold.cursor, width)
        sweep: dict[bytes, bytes | None] = {k: v for k, v in slice_ if k not in delta}
        records: list[CheckpointRecord] = [part(run, 0, delta), part(run, 1, sweep, sweep=True)]
        records = records[1:] if lose else records
        records.append(Marker(run, fold.last_id, 2, self.image_b, self.batch, fold.cursor, stop, ["t"], {}, []))
        for record in records:
            if fold.read(len(self.log), record) is not None:
                self.image.apply(list(delta.items()))
                self.image_b, self.dirty = self.batch, set()
            self.log.append(record)


changes = st.dictionaries(
    st.sampled_from([b"a", b"b", b"c", b"d", b"e", b"f"]), st.none() | st.binary(max_size=2), max_size=4
)
steps = st.lists(st.tuples(changes, st.booleans(), st.integers(1, 6), st.booleans(), st.booleans()), max_size=30)


@examples(each_run=60, with_long=1_500)
@given(steps)
def test_restoring_equals_recomputing_however_the_log_was_trimmed(
    history: list[tuple[dict[bytes, bytes | None], bool, int, bool, bool]],
) -> None:
    records: list[CheckpointRecord] = []
    fold, unit, trimmed = CheckpointLog(), Unit("a", records), 0
    states: dict[int, dict[bytes, bytes]] = {0: {}}
    for change, checkpoint, width, lose, trim in history:
        unit.change(change)
        states[unit.batch] = dict(unit.state)
        if checkpoint:
            unit.checkpoint(fold, width, lose)
        if trim and (anchor := fold.anchor()) is not None:
            fold.read(len(records), anchor)
            records.append(anchor)
            trimmed = anchor.upto
    log, runs = restore((offset, record) for offset, record in enumerate(records) if offset >= trimmed)
    image = MemoryImage()
    for run in runs:
        for piece in run.parts:
            image.apply(unpack(piece.entries))
    assert dict(image.scan(b"")) == states[log.last_b]
    assert (log.last_id, log.last_b, log.cursor) == (fold.last_id, fold.last_b, fold.cursor)
