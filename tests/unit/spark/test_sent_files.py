"""The files of a checkpoint in Kafka: whatever fails, a driver that takes over has those of the last valid commit."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas.commits import Commit
from holdfast.schemas.decided import Id
from holdfast.schemas.query_files import FileId, Note, Piece, of_piece, piece_key
from holdfast.services.spark.core.query_files import Stored, sum_of, sum_with
from holdfast.services.spark.core.received_files import Arrived, FilesMissing, Gone, ReceivedFiles
from holdfast.services.spark.core.sent_files import Draft, Mark, SentFiles

Record = tuple[bytes, Piece | Note | None]


def commit_of(epoch: int, k: int, attempt: int = 1) -> Commit:
    return Commit(epoch, k, attempt, {}, {}, (), 0, Id("d", k))


class Driver:
    """A driver without Spark: `disk` has a content by path."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.disk: dict[str, bytes] = {}
        self.files = SentFiles(epoch, "/root", f"{epoch}-0")
        self.attempts = 0
        self.draft: Draft | None = None

    def marks(self) -> dict[str, Mark]:
        return {path: Mark(len(content), 0, hash(content)) for path, content in self.disk.items()}

    def take_over(self, topic: list[Record], last: Commit | None) -> None:
        received, contents = read(topic)
        if last is not None:
            found = received.as_of(last.epoch, last.k, last.attempt)
            self.disk = {path: whole(contents[one.id]) for path, one in found.items()}
        self.files.inherit(received, last, self.marks())

    def saving(self, k: int, last: Commit | None) -> Iterator[Record]:
        """The records of a micro-batch, the note last."""
        self.attempts += 1
        yield from ((key, None) for key in self.files.forgettable(last))
        marks = self.marks()
        self.draft = draft = self.files.draft(marks)
        for path in draft.send:
            yield from self._sending(draft, path, marks[path])
        yield self.files.note(draft, k, self.attempts)

    def completing(self, k: int) -> Iterator[Record]:
        path = f"commits/{k - 1}"
        self.disk[path] = b"done"
        self.draft = draft = Draft((path,))
        yield from self._sending(draft, path, self.marks()[path])

    def _sending(self, draft: Draft, path: str, mark: Mark) -> Iterator[Record]:
        content, sum = self.disk[path], 0
        pieces = [content[at : at + 3] for at in range(0, len(content), 3)] or [b""]
        id = self.files.begin(draft, len(pieces))
        for index, piece in enumerate(pieces):
            sum = sum_with(sum, index, sum_of(piece))
            yield piece_key(id, index), Piece(path, len(pieces), sum_of(piece), piece)
        self.files.add(draft, path, Stored(id, len(pieces), sum), mark)


def read(topic: list[Record]) -> tuple[ReceivedFiles, dict[FileId, dict[int, bytes]]]:
    received, contents = ReceivedFiles(), dict[FileId, dict[int, bytes]]()
    for key, record in topic:
        match received.read(key, record):
            case Arrived(id, at, content):
                contents.setdefault(id, {})[at] = content
            case Gone(id):
                contents.pop(id, None)
    return received, contents


def whole(pieces: dict[int, bytes]) -> bytes:
    return b"".join(pieces[at] for at in sorted(pieces))


def as_of(topic: list[Record], last: Commit) -> dict[str, bytes]:
    received, contents = read(topic)
    found = received.as_of(last.epoch, last.k, last.attempt)
    return {path: whole(contents[one.id]) for path, one in found.items()}


def saved(driver: Driver, topic: list[Record], k: int, last: Commit | None) -> Commit:
    topic.extend(driver.saving(k, last))
    driver.files.forget(last)
    return commit_of(driver.epoch, k, driver.attempts)


def live(topic: list[Record]) -> dict[bytes, Piece | Note]:
    return {key: record for key, record in dict(topic).items() if record is not None}


def test_only_new_and_changed_files_are_sent() -> None:
    driver, topic = Driver(1), list[Record]()
    driver.disk = {"offsets/0": b"abcdefg", "metadata": b"id", "empty": b""}
    first = saved(driver, topic, 1, None)
    assert sorted(one.path for _, one in topic if isinstance(one, Piece)) == ["empty", "metadata", *["offsets/0"] * 3]
    assert as_of(topic, first) == driver.disk
    sent = len(topic)
    driver.disk |= {"offsets/1": b"x", "metadata": b"di"}
    second = saved(driver, topic, 2, first)
    assert [one.path for _, one in topic[sent:] if isinstance(one, Piece)] == ["metadata", "offsets/1"]
    assert as_of(topic, second) == driver.disk
    assert as_of(topic, first)["metadata"] == b"id", "the commit may still be refused"


def test_a_file_is_deleted_once_a_commit_without_it_is_valid() -> None:
    driver, topic = Driver(1), list[Record]()
    driver.disk = {"state/0/0/1.changelog": b"old", "metadata": b"id"}
    first = saved(driver, topic, 1, None)
    driver.disk = {"state/0/0/2.changelog": b"new", "metadata": b"id"}
    second = saved(driver, topic, 2, first)
    assert "state/0/0/1.changelog" in as_of(topic, first)
    third = saved(driver, topic, 3, second)
    with pytest.raises(FilesMissing):
        as_of(topic, first)
    assert as_of(topic, third) == driver.disk
    assert len(live(topic)) == 4, "two files, the note of the second commit, which may be the last, and of the third"


def test_files_of_a_driver_that_was_overtaken_do_not_count_and_go() -> None:
    former, topic = Driver(1), list[Record]()
    former.disk = {"a": b"1", "b": b"1"}
    first = saved(former, topic, 1, None)
    former.disk |= {"a": b"2", "c": b"2"}
    saved(former, topic, 2, first)
    driver = Driver(2)
    driver.take_over(topic, first)
    assert driver.disk == {"a": b"1", "b": b"1"}
    late = list(former.saving(3, first))
    topic += late
    second = saved(driver, topic, 2, first)
    assert as_of(topic, second) == driver.disk
    saved(driver, topic, 3, second)
    left = {of_piece(key) for key in live(topic)} - {None, *(of_piece(key) for key, _ in late)}
    assert {one[0].writer for one in left if one} == {"1-0"}
    assert len(left) == 2


def test_sparks_note_that_the_last_micro_batch_is_done_follows_its_commit() -> None:
    driver, topic = Driver(1), list[Record]()
    driver.disk = {"offsets/0": b"0"}
    first = saved(driver, topic, 1, None)
    topic += driver.completing(1)
    assert driver.draft is not None
    driver.files.take(driver.draft)
    assert as_of(topic, first) == {"offsets/0": b"0", "commits/0": b"done"}
    driver.disk["offsets/1"] = b"1"
    second = saved(driver, topic, 2, first)
    assert as_of(topic, second) == driver.disk
    following = Driver(2)
    following.take_over(topic, first)
    assert following.disk == {"offsets/0": b"0", "commits/0": b"done"}


def test_a_draft_that_kafka_may_have_lost_is_sent_again_and_counts_for_nothing() -> None:
    driver, topic = Driver(1), list[Record]()
    driver.disk = {"a": b"1"}
    first = saved(driver, topic, 1, None)
    driver.disk["a"] = b"2"
    lost = list(driver.saving(2, first))
    assert driver.draft is not None
    driver.files.lose(driver.draft)
    second = saved(driver, topic, 2, first)
    topic += lost
    assert as_of(topic, second) == {"a": b"2"}
    third = saved(driver, topic, 3, second)
    assert as_of(topic, third) == {"a": b"2"}


def test_a_record_that_comes_again_changes_nothing() -> None:
    """A stranger may append a sealed record once more, also one of a file that was deleted since."""
    driver, topic = Driver(1), list[Record]()
    driver.disk = {"a": b"1", "b": b"1"}
    last = saved(driver, topic, 1, None)
    for k in range(2, 5):
        driver.disk = {"a": b"%d" % k}
        last = saved(driver, topic, k, last)
    for record in list(topic):
        assert as_of([*topic, record], last) == driver.disk
    following = Driver(2)
    following.take_over([*topic, *topic[:4]], last)
    assert following.disk == driver.disk


def test_a_piece_that_is_not_as_it_was_sent_is_refused() -> None:
    key = piece_key(FileId("1-1", 0), 0)
    for piece in (
        Piece("a", 1, 0, b"x"),
        Piece("../a", 1, sum_of(b"x"), b"x"),
        Piece("/a", 1, sum_of(b"x"), b"x"),
        Piece("", 1, sum_of(b"x"), b"x"),
        Piece("a", 0, sum_of(b"x"), b"x"),
    ):
        with pytest.raises(ValueError, match=r"piece|path"):
            ReceivedFiles().read(key, piece)
    with pytest.raises(ValueError, match="key"):
        ReceivedFiles().read(b"../1/0", Piece("a", 1, sum_of(b"x"), b"x"))


class History:
    """Drivers that save, commit, fail, are overtaken and come back late, in an order drawn from `random`."""

    def __init__(self, random: Random) -> None:
        self.random, self.topic, self.late = random, list[Record](), list[list[Record]]()
        self.last: Commit | None = None
        self.driver, self.zombie = Driver(1), Driver(1)
        self.known: Commit | None = None
        self.true = dict[tuple[int, int, int], dict[str, bytes]]()

    def run(self, steps: int) -> None:
        acts = [self.micro_batch] * 6 + [
            self.fails,
            self.zombie_saves,
            self.takes_over,
            self.comes_late,
            self.comes_again,
            self.compacts,
        ]
        for _ in range(steps):
            self.random.choice(acts)()
            self.check()

    def check(self) -> None:
        if self.last is not None:
            found = as_of(self.topic, self.last)
            done = f"commits/{self.last.k - 1}"
            true = self.true[self.last.epoch, self.last.k, self.last.attempt]
            assert {path: one for path, one in found.items() if path != done or done in true} == true

    def micro_batch(self) -> None:
        k = self._change()
        self.topic.extend(self.driver.saving(k, self.last))
        self.driver.files.forget(self.last)
        found = commit_of(self.driver.epoch, k, self.driver.attempts)
        self.true[found.epoch, found.k, found.attempt] = dict(self.driver.disk)
        if self.random.random() < 0.8:
            self.last = found
            if self.random.random() < 0.5:
                self.topic.extend(self.driver.completing(k))
                assert self.driver.draft is not None
                self.driver.files.take(self.driver.draft)

    def fails(self) -> None:
        """Some records of a micro-batch are there, others come late or never."""
        records = list(self.driver.saving(self._change(), self.last))
        at = self.random.randint(0, len(records))
        self.topic += records[:at]
        self.late.append([one for one in records[at:] if isinstance(one[1], Piece)])
        assert self.driver.draft is not None
        self.driver.files.lose(self.driver.draft)

    def zombie_saves(self) -> None:
        if self.zombie.epoch < self.driver.epoch:
            for path in self._paths():
                self.zombie.disk[path] = b"zombie"
            self.topic.extend(self.zombie.saving(99, self.known))

    def takes_over(self) -> None:
        self.zombie, self.driver, self.known = self.driver, Driver(self.driver.epoch + 1), self.last
        self.driver.take_over(self.topic, self.last)

    def comes_again(self) -> None:
        self.topic.append(self.random.choice(self.topic or [(b"x", None)]))

    def comes_late(self) -> None:
        if self.late:
            self.topic += self.late.pop()

    def compacts(self) -> None:
        """The older part of the topic keeps the newest record of each key; deletions go where all before them did."""
        at = self.random.randint(0, len(self.topic))
        newest = {key: place for place, (key, _) in enumerate(self.topic)}
        old = [one for place, one in enumerate(self.topic[:at]) if newest[one[0]] == place]
        forgets = self.random.random() < 0.5
        self.topic = [one for one in old if one[1] is not None or not forgets] + self.topic[at:]

    def _paths(self) -> list[str]:
        return self.random.sample([f"state/{n}" for n in range(6)], 2)

    def _change(self) -> int:
        """Changes the disk for the next micro-batch, and returns its number."""
        k = 1 if self.last is None else self.last.k + 1
        for path in self._paths():
            self.driver.disk[path] = self.random.randbytes(self.random.choice((0, 1, 8)))
        self.driver.disk.pop(self.random.choice(self._paths()), None)
        self.driver.disk[f"offsets/{k - 1}"] = b"%d %d" % (self.driver.epoch, k)
        return k


@given(seed=st.integers(0, 2**32))
def test_a_takeover_has_exactly_the_files_of_the_last_valid_commit(seed: int) -> None:
    History(Random(seed)).run(30)
