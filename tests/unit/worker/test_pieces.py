"""PROTOCOL 6: however much has changed, checkpoint work is done a little at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

import pytest

from holdfast.schemas.checkpoints import Entry, Part, decode, unpack
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.checkpoint_log import CheckpointLog
from holdfast.services.decisions.decided import Author
from holdfast.services.kernel.state.image import MemoryImage
from holdfast.services.kernel.state.store import StateStore
from holdfast.services.kernel.state.values import bytes_of, decode_value
from holdfast.services.worker.checkpoint import parts, pieces, unit_image
from holdfast.services.worker.checkpoint.checkpointer import Checkpointer, RunListener
from holdfast.services.worker.checkpoint.policies.policy import Kind
from holdfast.services.worker.checkpoint.unit_image import UnitImage
from holdfast.services.worker.checkpoint.writer import Moment, WrittenLog
from holdfast.services.worker.core.spent import Spent

KEYS = 1_000
MOST_ENTRIES, MOST_BYTES, MOST_SETTLED = 50, 600, 100


class MeteredImage(MemoryImage):
    """Counts what is done to it since the last `restart`."""

    def __init__(self) -> None:
        super().__init__()
        self.restart()

    def restart(self) -> None:
        self.applied = self.read_bytes = 0

    def apply(self, entries: Sequence[Entry]) -> None:
        self.applied += len(entries)
        super().apply(entries)

    def slice(self, start: bytes, max_bytes: int) -> tuple[list[tuple[bytes, bytes]], bytes | None]:
        found, stop = super().slice(start, max_bytes)
        self.read_bytes += bytes_of(found)
        return found, stop


class Log:
    """What one unit appends, read back in order."""

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.read = 0

    def append(self, partition: Partition, value: bytes, done: object = None) -> None:
        self.records.append(value)


def nothing(*_: object) -> None:
    """Called with what the test does not look at."""


class Unit:
    """A checkpointer on so slow a machine that every look at the clock takes as long as a piece may."""

    def __init__(self, author: str = "a") -> None:
        self.image, self.log = MeteredImage(), Log()
        self.store = StateStore(self.image)
        self.table = self.store.table("t")
        ticks: Iterator[float] = (number * pieces.PIECE_MS for number in count())
        self.checkpointer = Checkpointer(
            WrittenLog(
                Partition("checkpoints", 0),
                CheckpointLog(),
                Author(author),
                self.log,  # type: ignore[arg-type]
                lambda: next(ticks),
            ),
            UnitImage(self.store, 0),
            RunListener(nothing, nothing, nothing, nothing),
            Spent(),
        )

    def checkpoint(self, batch: int) -> Iterator[None]:
        """Yields after every piece."""
        own = self.checkpointer
        own.writer.begin(Moment(batch, {}, [], None, {}, False), Kind.SWEEP)
        while not own.resting:
            own.writer.work()
            own.writer.flushed(batch)
            self.read()
            yield

    def catch_up(self, batch: int) -> None:
        """Applies what another copy has written; this one has done so many batches."""
        self.read()
        while self.checkpointer.applies(batch, suspended=False):
            self.checkpointer.apply(batch, suspended=False)

    def read(self) -> None:
        while self.log.read < len(self.log.records):
            self.checkpointer.read(self.log.read, self.log.records[self.log.read])
            self.log.read += 1

    def parts(self) -> list[Part]:
        return [record for record in map(decode, self.log.records) if isinstance(record, Part)]


@pytest.fixture
def unit(monkeypatch: pytest.MonkeyPatch) -> Unit:
    monkeypatch.setattr(parts, "PIECE_ENTRIES", MOST_ENTRIES)
    monkeypatch.setattr(parts, "PIECE_BYTES", MOST_BYTES)
    monkeypatch.setattr(unit_image, "SETTLED_ENTRIES", MOST_SETTLED)
    return Unit()


def keys(number: int) -> list[bytes]:
    return [b"key-%06d" % index for index in range(number)]


def test_no_piece_of_a_checkpoint_grows_with_the_state(unit: Unit) -> None:
    for batch in (1, 2):  # the second has an image to sweep
        unit.table.put_many(keys(KEYS), [(batch, index) for index in range(KEYS)])
        unit.image.restart()
        held = len(unit.checkpointer.writer._parts.pieces), KEYS
        for _ in unit.checkpoint(batch):
            now = len(unit.checkpointer.writer._parts.pieces), len(unit.table._frozen)
            assert abs(now[0] - held[0]) <= 1, "one piece is encoded or written at a time"
            assert held[1] - now[1] <= MOST_SETTLED, "settling forgets a few keys at a time"
            assert unit.image.applied <= MOST_ENTRIES
            assert unit.image.read_bytes < MOST_BYTES + 20, "up to the entry that reaches the limit"
            unit.image.restart()
            held = now
        assert {k[2:]: decode_value(v) for k, v in unit.image.scan(b"")} == {
            key: (batch, index) for index, key in enumerate(keys(KEYS))
        }


def test_a_batch_between_two_pieces_changes_what_the_next_checkpoint_takes_and_not_this_one(unit: Unit) -> None:
    unit.table.put_many(keys(KEYS), [(1,)] * KEYS)
    for number, _ in enumerate(unit.checkpoint(1)):
        unit.table.put_many(keys(KEYS)[number : number + 1], [(2,)])
        unit.table.delete_many(keys(KEYS)[-number - 1 :][:1])
        assert unit.table.get_many(keys(KEYS)[: number + 1]) == [(2,)] * (number + 1)
    assert [decode_value(value) for _, value in unit.image.scan(b"")] == [(1,)] * KEYS
    for _ in unit.checkpoint(2):
        pass
    found = {key[2:]: decode_value(value) for key, value in unit.image.scan(b"")}
    assert found == dict(unit.table.scan(b""))
    assert len(found) == KEYS - number - 1


def test_a_sweep_in_pieces_writes_every_key_that_the_delta_does_not_hold(unit: Unit) -> None:
    every = keys(KEYS)
    unit.table.put_many(every, [(1,)] * KEYS)
    for _ in unit.checkpoint(1):
        pass
    swept: set[bytes] = set()
    for batch, changed in enumerate(([every[3]], [every[7]], [every[700]]), start=2):
        unit.table.put_many(changed, [(batch,)])
        before = len(unit.parts())
        for _ in unit.checkpoint(batch):
            pass
        new = [entry for part in unit.parts()[before:] if part.sweep for entry in unpack(part.entries)]
        assert not {key[2:] for key, _ in new} & set(changed), "what changed is in the delta"
        swept |= {key[2:] for key, _ in new}
    last = unit.checkpointer.log.last
    assert last is not None
    assert last.sweep_to is None
    assert swept | {every[3], every[7], every[700]} == set(every)


def test_parts_of_large_values_stay_far_below_the_largest_record(unit: Unit) -> None:
    unit.table.put_many(keys(60), [(b"x" * 100_000,)] * 60)
    for batch in (1, 2):
        for _ in unit.checkpoint(batch):
            pass
        unit.table.put_many(keys(1), [(1,)])
    assert max(map(len, unit.log.records)) < 2 * parts.PART_BYTES
    assert sum(len(unpack(part.entries)) for part in unit.parts() if not part.sweep) == 61


def test_parts_of_a_refused_run_go_out_with_the_next(unit: Unit) -> None:
    unit.table.put_many(keys(KEYS), [(1,)] * KEYS)
    refused = unit.checkpoint(1)
    for _ in range(3):
        next(refused)
    unit.table.put_many(keys(2), [(2,)] * 2)
    unit.checkpointer.writer.abandon()
    unit.log.read = len(unit.log.records)
    for _ in unit.checkpoint(2):
        pass
    assert {k[2:]: decode_value(v) for k, v in unit.image.scan(b"")} == dict(unit.table.scan(b""))
    assert dict(unit.table.scan(b"")) == dict.fromkeys(keys(KEYS), (1,)) | dict.fromkeys(keys(2), (2,))


def test_a_key_that_passed_while_the_leaders_run_was_on_its_way_is_deleted_after_the_takeover() -> None:
    """A standby that processes is two batches ahead of the run that it applies; the run holds the key (C10)."""
    leader, standby = Unit(), Unit("b")
    standby.log.records = leader.log.records
    tables = [unit.store.table("panes", prefix_bytes=1) for unit in (leader, standby)]
    for table in tables:
        table.put_many([b"a-passing", b"b-staying"], [(1,), (1,)])
    for _ in leader.checkpoint(6):
        pass
    tables[1].delete_many([b"a-passing"])
    standby.catch_up(8)
    assert standby.checkpointer.image.batch == 6
    assert tables[1].get_many([b"a-passing"]) == [None]
    for _ in standby.checkpoint(8):
        pass
    assert [key[2:] for key, _ in standby.image.scan(b"")] == [b"b-staying"]
