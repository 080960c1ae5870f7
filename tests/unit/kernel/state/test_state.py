"""PROTOCOL 6: tables over an image, captures that later batches cannot change."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast.schemas.checkpoints import Entry
from holdfast.services.kernel.state.image import MemoryImage
from holdfast.services.kernel.state.store import Capture, StateStore
from holdfast.services.kernel.state.values import decode_value, encode_value
from holdfast.services.worker.checkpoint.unit_image import UnitImage
from tests.support.examples import most

keys = st.sampled_from([bytes([p, k]) for p in range(3) for k in range(4)])
values = st.tuples(st.integers(-(2**63), 2**63 - 1), st.none() | st.text(max_size=3))


def drain(capture: Capture, count: int = 2) -> list[Entry]:
    entries: list[Entry] = []
    while piece := capture.piece(count):
        entries += piece
    return entries


def moved(unit: UnitImage, state: dict[bytes, Any]) -> None:
    """A run of another copy has made the image that state."""
    held = {key[2:] for key, _ in unit.store.image.scan(b"")}
    unit.apply([(b"\x00\x00" + key, None) for key in held - state.keys()])
    unit.apply([(b"\x00\x00" + key, encode_value(value)) for key, value in state.items()])


class TableIsADictionary(RuleBasedStateMachine):
    """Whatever is put, captured, settled, thawed and evicted, and whatever runs of another copy bring: a table reads
    like a dictionary, and an image is the state that was captured.
    """

    def __init__(self) -> None:
        super().__init__()
        self.image = MemoryImage()
        self.store = StateStore(self.image)
        self.unit = UnitImage(self.store, 0)
        self.table = self.store.table("t", prefix_bytes=1)
        self.model: dict[bytes, Any] = {}
        self.history: list[dict[bytes, Any]] = [{}]
        """By batch; each change is one."""
        self.captured = 0
        self.capture: Capture | None = None
        self.settling = self.blind = False

    @initialize(blind=st.booleans())
    def look(self, blind: bool) -> None:
        """blind: nothing is read before it is written, unless a rule says so."""
        self.blind = blind

    @rule(some=st.dictionaries(keys, values, min_size=1))
    def put(self, some: dict[bytes, Any]) -> None:
        self.table.put_many(list(some), list(some.values()))
        self.model |= some
        self.history.append(dict(self.model))

    @rule(some=st.sets(keys, min_size=1))
    def delete(self, some: set[bytes]) -> None:
        self.table.delete_many(list(some))
        self.model = {k: v for k, v in self.model.items() if k not in some}
        self.history.append(dict(self.model))

    @precondition(lambda self: self.capture is None)
    @rule(data=st.data())
    def another_copy(self, data: st.DataObject) -> None:
        """A run of another copy moves the image to a state that this copy has left behind."""
        batch = len(self.history) - 1
        at = data.draw(st.integers(self.unit.batch, batch))
        moved(self.unit, self.history[at])
        for _ in self.unit.settle_up_to(at):
            pass
        self.unit.batch = at
        self.unit.freeze(batch)

    @precondition(lambda self: self.capture is None)
    @rule()
    def freeze(self) -> None:
        self.capture = self.unit.capture()
        self.captured = len(self.history) - 1

    @precondition(lambda self: self.capture is not None and not self.settling)
    @rule()
    def write(self) -> None:
        assert self.capture is not None
        self.image.apply(drain(self.capture))
        self.settling, self.unit.batch = True, self.captured
        stored = {k[2:]: decode_value(v) for k, v in self.image.scan(b"")}
        assert stored == self.history[self.captured], "an image restored at b equals the state as of b"

    @precondition(lambda self: self.settling)
    @rule(count=st.integers(1, 5))
    def settle(self, count: int) -> None:
        if not self.store.settle_piece(count):
            self.capture, self.settling = None, False

    @precondition(lambda self: self.capture is not None and not self.settling)
    @rule()
    def thaw(self) -> None:
        self.store.thaw()
        self.capture = None

    @rule()
    def evict(self) -> None:
        self.table._evict()

    @rule(some=st.lists(keys))
    def read(self, some: list[bytes]) -> None:
        assert self.table.get_many(some) == [self.model.get(k) for k in some]

    @rule(prefix=st.sampled_from([b"", b"\x00", b"\x01", b"\x02"]))
    def scan(self, prefix: bytes) -> None:
        expected = sorted((k, v) for k, v in self.model.items() if k.startswith(prefix))
        assert list(self.table.scan(prefix)) == expected

    @invariant()
    def counts_its_keys(self) -> None:
        assert self.store.keys == len(self.model)

    @precondition(lambda self: not self.blind)
    @invariant()
    def reads_all(self) -> None:
        every = [bytes([p, k]) for p in range(3) for k in range(4)]
        assert self.table.get_many(every) == [self.model.get(k) for k in every]


TestTableIsADictionary = TableIsADictionary.TestCase
TestTableIsADictionary.settings = settings(max_examples=most(each_run=60, with_long=750), stateful_step_count=30)


def test_a_capture_does_not_see_later_values() -> None:
    store = StateStore(MemoryImage())
    table = store.table("t")
    table.put_many([b"a", b"b"], [(1,), (2,)])
    capture = store.capture()
    table.put_many([b"a", b"c"], [(10,), (3,)])
    assert drain(capture) == [(b"\x00\x00a", encode_value((1,))), (b"\x00\x00b", encode_value((2,)))]
    assert sorted(capture) == [b"\x00\x00a", b"\x00\x00b"]
    assert len(capture) == 2
    assert b"\x00\x00a" in capture
    assert b"\x00\x00c" not in capture
    assert store.changed == 2


def image_of(store: StateStore) -> dict[bytes, Any]:
    """After a run of the store's own."""
    store.image.apply(drain(store.capture()))
    store.settle()
    return {key[2:]: decode_value(value) for key, value in store.image.scan(b"")}


def test_keys_that_came_and_went_between_two_captures_are_in_none() -> None:
    """C10: one dirty bit says that a group was touched, another one that it was created since."""
    store = StateStore(MemoryImage())
    table = store.table("t", prefix_bytes=1)
    table.put_many([b"a1", b"a2", b"b1"], [(1,), (2,), (3,)])
    assert set(image_of(store)) == {b"a1", b"a2", b"b1"}
    table.put_many([b"c1", b"c2", b"a1"], [(4,), (5,), (6,)])
    table.delete_many([b"c1", b"a1"])
    assert sorted(drain(store.capture())) == [(b"\x00\x00a1", None), (b"\x00\x00c2", encode_value((5,)))]
    store.settle()
    assert table._values.keys() == {b"a2", b"b1", b"c2"}
    assert table._groups == {b"a": {b"a2"}, b"b": {b"b1"}, b"c": {b"c2"}}
    table.put_many([b"c1"], [(7,)])
    table.delete_many([b"c1"])
    table.put_many([b"c1"], [(8,)])
    assert drain(store.capture()) == [(b"\x00\x00c1", encode_value((8,)))]


def test_keys_of_the_image_are_deleted_from_it_however_often_they_came_and_went_since() -> None:
    store = StateStore(MemoryImage())
    table = store.table("t", prefix_bytes=1)
    table.put_many([b"a1"], [(1,)])
    assert image_of(store) == {b"a1": (1,)}
    table.delete_many([b"a1"])
    table.put_many([b"a1"], [(2,)])
    table.delete_many([b"a1"])
    assert image_of(store) == {}


def test_keys_that_another_copy_captured_before_they_went_are_deleted_from_the_image() -> None:
    store = StateStore(MemoryImage())
    table, unit = store.table("t", prefix_bytes=1), UnitImage(store, 0)
    table.put_many([b"a1"], [(1,)])
    table.delete_many([b"a1"])
    table._evict()
    moved(unit, {b"a1": (1,)})
    unit.freeze(2)
    assert table.get_many([b"a1"]) == [None]
    assert drain(unit.capture()) == [(b"\x00\x00a1", None)]


def test_keys_that_went_after_a_capture_are_deleted_if_another_copys_capture_counts() -> None:
    store = StateStore(MemoryImage())
    table, unit = store.table("t", prefix_bytes=1), UnitImage(store, 0)
    table.put_many([b"a1", b"b1"], [(1,), (1,)])
    table.delete_many([b"b1"])
    unit.capture()
    table.put_many([b"a2"], [(2,)])
    table.delete_many([b"a2"])
    store.thaw()
    assert sorted(drain(unit.capture())) == [
        (b"\x00\x00a1", encode_value((1,))), (b"\x00\x00a2", None), (b"\x00\x00b1", None)
    ]  # fmt: skip


def test_a_key_that_went_twice_is_read_as_absent_whatever_another_copy_brings() -> None:
    store = StateStore(MemoryImage())
    table, unit = store.table("t", prefix_bytes=1), UnitImage(store, 0)
    table.put_many([b"a1"], [(1,)])
    image_of(store)
    table._evict()
    table.delete_many([b"a1"])
    store.image.apply(drain(store.capture()))
    table.put_many([b"a1"], [(2,)])
    table.delete_many([b"a1"])
    store.settle()
    moved(unit, {b"a1": (2,)})
    unit.freeze(4)
    assert table.get_many([b"a1"]) == [None]
    assert drain(unit.capture()) == [(b"\x00\x00a1", None)]


def test_keys_are_counted_from_what_a_restored_image_holds() -> None:
    image = MemoryImage()
    image.apply([(b"\x00\x00" + key, encode_value((1,))) for key in (b"a", b"b", b"c")])
    store = StateStore(image, ["t"], keys=3)
    table = store.table("t")
    table.put_many([b"a", b"d", b"d"], [(2,), (2,), (3,)])  # nobody has read them
    table.delete_many([b"b", b"x"])
    assert store.keys == 3
    table.put_many([b"b"], [(4,)])
    assert store.keys == 4
    store.forget(keys=3)
    assert store.keys == 3


def test_a_store_that_is_released_holds_nothing() -> None:
    store = StateStore(MemoryImage())
    table = store.table("t", prefix_bytes=1)
    table.put_many([b"a1", b"b1"], [(1,), (2,)])
    store.capture()
    table.put_many([b"a1"], [(3,)])
    store.release()
    assert not any((table._values, table._groups, table._fresh, table._frozen, table._absent))


def test_tables_keep_their_numbers_after_a_restore() -> None:
    first = StateStore(MemoryImage())
    for name in ("x", "y"):
        first.table(name)
    again = StateStore(MemoryImage(), first.names)
    assert again.table("y").physical(b"") == first.table("y").physical(b"")


def test_values_come_back_immutable() -> None:
    value = (1, 2.5, None, "é", b"\x00", (True, (2**62, 2**80, -(2**64))))
    assert decode_value(encode_value(value)) == value
