"""What a checkpoint log holds for global checkpoints, and what a rollback to one does (PROTOCOL 6, MECHANISMS R1)."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas.checkpoints import Anchor, CheckpointRecord, Marker, Part, Rollback, pack, unpack
from holdfast.schemas.decided import Id
from holdfast.services.decisions.checkpoint_log import CheckpointLog, Run, restore
from holdfast.services.decisions.decided import Author
from holdfast.services.kernel.errors import StateCorrupted
from holdfast.services.kernel.state.image import MemoryImage
from tests.support.examples import examples


def marker(
    number: int, prev: int, b: int, *, held: int | None = -1, aligned: bool = True, line: int = 0, a: int = 0
) -> Marker:
    """Of a run without parts that sweeps everything: each begins a base."""
    before = Id("a", prev) if prev else None
    return Marker(
        Id("a", number), before, 0, a, b, b"", None, ["t"], {}, [], line=line, aligned=aligned, held=held
    )  # fmt: skip


def folded(*records: CheckpointRecord) -> CheckpointLog:
    log = CheckpointLog()
    for offset, record in enumerate(records):
        log.read(offset, record)
    return log


def acked(log: CheckpointLog) -> int | None:
    return None if log.acked is None else log.acked.b


def freed(log: CheckpointLog) -> int:
    """Up to where the log may be trimmed."""
    anchor = log.anchor()
    return 0 if anchor is None else anchor.upto


FOUR = [marker(1, 0, 10), marker(2, 1, 20), marker(3, 2, 30, held=10), marker(4, 3, 40, held=10)]


# -- what is held -----------------------------------------------------------------------------------------------------


def test_without_global_checkpoints_the_newest_marker_is_acked_and_nothing_else_is_held() -> None:
    log = folded(marker(1, 0, 10, held=None, aligned=False), marker(2, 1, 20, held=None, aligned=False))
    assert (acked(log), log.marks, freed(log)) == (20, {}, 1)


def test_the_newest_complete_one_is_acked_and_the_runs_that_a_restore_there_needs_are_held() -> None:
    log = folded(*FOUR)
    assert (acked(log), sorted(log.marks)) == (10, [10, 20, 30, 40])
    assert freed(log) == 0, "the run of batch 10 begins the log"
    log = folded(*FOUR, marker(5, 4, 50, held=30))
    assert (acked(log), sorted(log.marks), log.anchor()) == (30, [30, 40, 50], Anchor(2, Id("a", 2), 20))


@pytest.mark.parametrize("held", [-1, 0])
def test_before_one_is_complete_nothing_is_acked_and_nothing_trimmed(held: int) -> None:
    log = folded(marker(1, 0, 10, held=held), marker(2, 1, 20, held=held))
    assert (acked(log), sorted(log.marks), freed(log)) == (None, [10, 20], 0)


def test_from_another_policy_on_nothing_is_held() -> None:
    log = folded(*FOUR, marker(5, 4, 45, held=None, aligned=False))
    assert (acked(log), log.marks, freed(log)) == (45, {}, 4)


def test_earlier_acks_hold_until_the_first_global_checkpoint_is_complete() -> None:
    log = folded(marker(1, 0, 7, held=None, aligned=False), marker(2, 1, 10), marker(3, 2, 20))
    assert (acked(log), sorted(log.marks), freed(log)) == (7, [10, 20], 1)


def test_the_end_of_a_unit_frees_nothing_that_is_held() -> None:
    """Whether it can go back is known to its copies: docs/decisions/0112."""
    end = marker(5, 4, 43, held=10, aligned=False)
    end = Marker(**{name: getattr(end, name) for name in end.__struct_fields__} | {"ended": True})
    assert acked(folded(*FOUR, end)) == 10


def test_an_anchor_that_would_free_what_is_held_counts_for_nobody() -> None:
    """A leader that has not heard of the policy, or of its end, proposes a trim to its own base."""
    for upto in (1, 2, 3):
        assert folded(*FOUR, Anchor(upto, Id("a", upto), 10 * upto)).anchored == -1
    fifth = marker(5, 4, 50, held=30)
    assert folded(*FOUR, fifth, Anchor(2, Id("a", 2), 20)).anchored == 2
    assert folded(*FOUR, fifth, Anchor(3, Id("a", 3), 30)).anchored == -1


# -- rollbacks --------------------------------------------------------------------------------------------------------


def test_a_rollback_voids_what_came_behind_its_mark_and_the_log_continues_there() -> None:
    log = folded(*FOUR, Rollback(1, Id("a", 1), 10))
    assert (log.line, log.last_b, sorted(log.marks), acked(log)) == (1, 10, [10], 10)
    stale, runs = marker(9, 4, 45, held=10), [marker(5, 1, 20, held=10, line=1), marker(6, 5, 30, held=10, line=1)]
    log = folded(*FOUR, Rollback(1, Id("a", 1), 10), stale, *runs)
    assert (log.last_id, sorted(log.marks)) == (Id("a", 6), [10, 20, 30])


@pytest.mark.parametrize(
    "wrong",
    [Rollback(0, Id("a", 3), 30), Rollback(1, Id("a", 2), 30), Rollback(1, Id("a", 1), 10), Rollback(1, None, 0)],
    ids=["an old line", "another marker", "no mark", "the start, which is trimmed"],
)
def test_a_rollback_that_is_none_changes_nothing(wrong: Rollback) -> None:
    known: list[CheckpointRecord] = [*FOUR, marker(5, 4, 50, held=30), Anchor(2, Id("a", 2), 20)]
    log = folded(*known, wrong)
    assert (log.line, log.last_b) == (0, 50)


def test_the_first_of_two_rollbacks_to_one_line_counts() -> None:
    log = folded(*FOUR, Rollback(1, Id("a", 1), 10), marker(5, 1, 20, held=10, line=1), Rollback(1, Id("a", 1), 10))
    assert (log.line, log.last_b) == (1, 20)


def test_the_start_can_be_gone_back_to_while_nothing_is_trimmed() -> None:
    log = folded(marker(1, 0, 10, held=0), Rollback(1, None, 0))
    assert (log.line, log.last, log.last_b, freed(log), log.marks) == (1, None, 0, 0, {})


def test_a_restore_goes_back_and_the_rollback_is_yet_to_be_recorded() -> None:
    log, runs = restore(enumerate(FOUR), line=1, at=10)
    assert (log.line, log.last_b, [run.marker.b for run in runs]) == (1, 10, [10])
    assert log.unrecorded == Rollback(1, Id("a", 1), 10)
    log.read(4, marker(9, 4, 45, held=10))  # a former leader's, which nobody on the line takes
    log.read(5, Rollback(1, Id("a", 1), 10))
    assert log.unrecorded is None
    assert log.last_b == 10


def test_a_log_that_is_on_the_line_already_is_restored_to_its_newest_marker() -> None:
    records: list[CheckpointRecord] = [*FOUR, Rollback(1, Id("a", 1), 10), marker(5, 1, 20, held=10, line=1)]
    log, runs = restore(enumerate(records), line=1, at=10)
    assert ([run.marker.id for run in runs], log.unrecorded) == ([Id("a", 5)], None)


def test_a_unit_continues_with_its_newest_marker_if_the_log_does_not_hold_the_mark() -> None:
    log, runs = restore(enumerate([*FOUR, marker(5, 4, 45, held=None, aligned=False)]), line=1, at=20)
    assert (log.line, log.unrecorded, [run.marker.b for run in runs]) == (0, None, [45])


def test_a_line_that_begins_elsewhere_than_this_copy_restored_makes_it_restore_again() -> None:
    log, _ = restore(enumerate(FOUR), line=1, at=10)
    with pytest.raises(StateCorrupted, match="line 1 begins at batch 20"):
        log.read(4, Rollback(1, Id("a", 2), 20))


# -- whatever happens -------------------------------------------------------------------------------------------------

KEYS = [b"a", b"b", b"c", b"d", b"e", b"f"]
EVERY = 3
changes = st.dictionaries(st.sampled_from(KEYS), st.none() | st.binary(max_size=2), max_size=4)
deeds = st.lists(
    st.tuples(changes, st.sampled_from(["", "", "complete", "trim", "back", "policy", "stale"]), st.integers(1, 6)),
    max_size=60,
)


@dataclass
class Unit:
    """A unit that is checkpointed after every third batch, or after every one; sometimes it goes back.

    states: what it held after each batch, which is a function of the batch: what is computed again is the same.
    """

    records: list[CheckpointRecord] = field(default_factory=list)
    fold: CheckpointLog = field(default_factory=CheckpointLog)
    author: Author = field(default_factory=lambda: Author("a"))
    made: dict[int, dict[bytes, bytes | None]] = field(default_factory=dict)
    states: dict[int, dict[bytes, bytes]] = field(default_factory=lambda: {0: {}})
    batch: int = 0
    complete: int = 0
    aligned: bool = True
    trimmed: int = 0

    def __post_init__(self) -> None:
        self.image, self.dirty = MemoryImage(), set[bytes]()

    def append(self, record: CheckpointRecord) -> Run | None:
        self.records.append(record)
        return self.fold.read(len(self.records) - 1, record)

    def process(self, change: dict[bytes, bytes | None], width: int) -> None:
        self.batch += 1
        change = self.made.setdefault(self.batch, change)
        state = dict(self.states[self.batch - 1])
        for key, value in change.items():
            self.dirty.add(key)
            state.pop(key, None)
            if value is not None:
                state[key] = value
        self.states[self.batch] = state
        if not self.aligned or self.batch % EVERY == 0:
            self.checkpoint(width)

    def checkpoint(self, width: int) -> None:
        run, state = self.author.next(), self.states[self.batch]
        delta = {key: state.get(key) for key in sorted(self.dirty)}
        slice_, stop = self.image.slice(self.fold.cursor, width)
        swept: list[tuple[bytes, bytes | None]] = [(k, v) for k, v in slice_ if k not in delta]
        self.append(Part(run, 0, False, pack(list(delta.items()))))
        self.append(Part(run, 1, True, pack(swept)))
        held = self.complete if self.aligned else None
        if self.append(
            Marker(
                run, self.fold.last_id, 2, self.fold.last_b, self.batch, self.fold.cursor, stop, ["t"], {}, [],
                line=self.fold.line, aligned=self.aligned, held=held,
            )
        ):  # fmt: skip
            self.image.apply(list(delta.items()))
            self.dirty = set()

    def restored(self, line: int, at: int) -> tuple[CheckpointLog, dict[bytes, bytes]]:
        there = ((offset, record) for offset, record in enumerate(self.records) if offset >= self.trimmed)
        log, runs = restore(there, line, at)
        image = MemoryImage()
        for run in runs:
            for piece in run.parts:
                image.apply(unpack(piece.entries))
        return log, dict(image.scan(b""))

    def go_back(self) -> None:
        log, state = self.restored(self.fold.line + 1, max(self.complete, 0))
        if log.line == self.fold.line:
            return
        assert log.unrecorded is not None
        self.image, self.dirty = MemoryImage(), set()
        self.image.apply(list(state.items()))
        self.batch = log.last_b
        self.append(log.unrecorded)

    def trim(self) -> None:
        if (anchor := self.fold.anchor()) is not None:
            self.append(anchor)
            assert self.fold.anchored == anchor.upto
            self.trimmed = anchor.upto


@examples(each_run=60, with_long=2_000)
@given(deeds)
def test_every_mark_that_is_held_can_be_restored_however_the_log_was_trimmed_and_rolled_back(
    history: list[tuple[dict[bytes, bytes | None], str, int]],
) -> None:
    unit = Unit()
    for change, deed, width in history:
        unit.process(change, width)
        if deed == "complete" and unit.aligned and unit.fold.marks:
            unit.complete = max(unit.fold.marks)
        elif deed == "policy":
            unit.aligned, unit.complete = not unit.aligned, -1
        elif deed == "trim":
            unit.trim()
        elif deed == "back" and unit.aligned:
            unit.go_back()
        elif deed == "stale":
            old = unit.fold.line - 1
            unit.append(Marker(Id("z", unit.batch), unit.fold.last_id, 0, 0, 99, b"", None, [], {}, [], line=old))
    for at, mark in unit.fold.marks.items():
        log, state = unit.restored(unit.fold.line + 1, at)
        assert (log.last_id, log.line, state) == (mark.id, unit.fold.line + 1, unit.states[at])
    log, state = unit.restored(unit.fold.line, 0)
    assert state == unit.states[log.last_b]
    whole, _ = restore(enumerate(unit.records))
    for one in (log, whole):
        assert (one.last_id, one.last_b, one.cursor, one.line) == (
            unit.fold.last_id, unit.fold.last_b, unit.fold.cursor, unit.fold.line,
        )  # fmt: skip
        assert (sorted(one.marks), one.anchored) == (sorted(unit.fold.marks), unit.fold.anchored)
        assert one.anchor() == unit.fold.anchor()
