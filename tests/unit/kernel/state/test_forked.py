"""A fork is what the state was at its batch, with the fork's own writes, whatever happens to the state since."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.services.kernel.state.forked import ForkedStore
from holdfast.services.kernel.state.image import MemoryImage
from holdfast.services.kernel.state.store import Capture, StateStore
from holdfast.services.kernel.state.table import Table
from tests.support.examples import examples

KEYS = [bytes([group, key]) for group in range(2) for key in range(3)]
TABLES = {"t/flat": 0, "t/grouped": 1}
Change = tuple[str, bytes, int | None]
Steps = list[tuple[str, list[Change]]]
changes = st.lists(
    st.tuples(st.sampled_from(sorted(TABLES)), st.sampled_from(KEYS), st.none() | st.integers(0, 9)), max_size=8
)
steps = st.lists(st.tuples(st.sampled_from(("state", "fork", "capture", "settle", "evict")), changes), max_size=8)


def _apply(table: Table, key: bytes, value: int | None) -> None:
    if value is None:
        table.delete_many([key])
    else:
        table.put_many([key], [value])


def _open(names: tuple[str, ...] = ()) -> StateStore:
    store = StateStore(MemoryImage(), names)
    for name, prefix_bytes in TABLES.items():
        store.table(name, prefix_bytes)
    return store


class Checkpoints:
    """Of a store: at most one capture waits for its marker."""

    def __init__(self, store: StateStore) -> None:
        self._store, self._waits = store, list[Capture]()

    def step(self, kind: str) -> None:
        if kind == "capture" and not self._waits:
            self._waits.append(self._store.capture())
        elif kind == "settle" and self._waits:
            capture = self._waits.pop()
            while piece := capture.piece(2):
                self._store.image.apply(piece)
            self._store.settle()
        elif kind == "evict":
            for name in TABLES:
                self._store.table(name)._evict()


@examples(each_run=60, with_long=300)
@given(changes, steps)
def test_a_fork_equals_a_store_restored_at_its_batch_with_the_same_writes(before: list[Change], after: Steps) -> None:
    store = _open()
    expected: dict[str, dict[bytes, int | None]] = {name: {} for name in TABLES}
    state: dict[str, dict[bytes, int | None]] = {name: {} for name in TABLES}
    for name, key, value in before:
        _apply(store.table(name), key, value)
        expected[name][key] = state[name][key] = value
    checkpoints = Checkpoints(store)
    fork = ForkedStore(store)
    tables = fork.of_task("t")
    for kind, writes in after:
        checkpoints.step(kind)
        for name, key, value in writes if kind in ("state", "fork") else ():
            target = tables.table(name.partition("/")[2]) if kind == "fork" else store.table(name)
            _apply(target, key, value)
            (expected if kind == "fork" else state)[name][key] = value
        for held, kinds in ((expected, "fork"), (state, "state")):
            for name in TABLES:
                table: Table = tables.table(name.partition("/")[2]) if kinds == "fork" else store.table(name)
                assert table.get_many(KEYS) == [held[name].get(key) for key in KEYS]
                for prefix in (b"", b"\0", b"\1") if TABLES[name] else (b"",):
                    there = {key: value for key, value in held[name].items() if value is not None}
                    assert list(table.scan(prefix)) == sorted((k, v) for k, v in there.items() if k.startswith(prefix))


def test_a_fork_is_void_once_the_image_is_changed_from_outside() -> None:
    store = _open()
    store.table("t/flat").put_many([b"a"], [1])
    fork = ForkedStore(store)
    table = fork.of_task("t").table("flat")
    store.forget()
    assert fork.void
    with pytest.raises(AssertionError, match="void"):
        table.get_many([b"a"])


def test_a_fork_that_has_ended_keeps_nothing_and_numbers_no_table() -> None:
    store = _open()
    store.table("t/flat").put_many([b"a"], [1])
    fork = ForkedStore(store)
    fork.of_task("t").table("of the line").put_many([b"x"], [7])
    store.table("t/flat").put_many([b"a"], [2])
    assert (len(fork), store.names) == (2, list(TABLES))
    fork.end()
    store.table("t/flat").put_many([b"a"], [3])
    assert len(fork) == 0
    assert not any(store.table(name).forks for name in TABLES)


def test_a_table_of_the_checkpoint_log_that_was_not_opened_yet_is_part_of_the_fork() -> None:
    """User code opens its tables when it first needs them."""
    image = MemoryImage()
    store = StateStore(image)
    store.table("t/seen").put_many([b"a"], [1])
    image.apply(store.capture().piece(9))
    again = StateStore(image, store.names)
    fork = ForkedStore(again)
    again.table("t/seen").put_many([b"a"], [2])
    assert fork.of_task("t").table("seen").get_many([b"a"]) == [1]
