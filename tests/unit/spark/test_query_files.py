"""The checkpoint of a query on two machines whose drivers share no folder: its files go through Kafka."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.schemas.commits import Commit
from holdfast.schemas.decided import Id
from holdfast.schemas.query_files import PIECE_BYTES, Piece, decode
from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.decisions.commits import CommitLog
from holdfast.services.kernel.errors import Retriable, StateCorrupted
from holdfast.services.log.memory import MemoryLog
from holdfast.services.spark import query
from holdfast.services.spark.checkpoint import Checkpoints, marks
from holdfast.services.spark.core.taking_over import Takeover
from holdfast.services.spark.engine import Answer, BatchAsked, Committed, Output, Run, Write
from holdfast.services.spark.process import executors_write
from holdfast.services.spark.query_files import QueryFiles
from holdfast.services.spark.settings import SparkSettings

TOPIC = Partition("holdfast.j.1-abcdef.query-files.h", 0)


class Machine:
    """A driver with a disk of its own."""

    def __init__(self, log: MemoryLog, folder: Path) -> None:
        self.log, self.folder = log, folder
        self.checkpoints = Checkpoints(folder / "j" / "h")
        self.files = QueryFiles(log, TOPIC, self.checkpoints, folder / "scratch")
        self.directory, self.epoch = folder, 0
        self.commits = CommitLog({"in": {0: 0}})

    def lead(self, epoch: int, commits: CommitLog) -> None:
        self.commits = commits
        self.directory = self.files.prepare(Run(epoch, commits), lambda: True)
        self.epoch = epoch

    def write(self, path: str, content: str | bytes) -> None:
        file = self.directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_name(f".{file.name}.tmp")
        new.write_bytes(content if isinstance(content, bytes) else content.encode())
        new.rename(file)

    def batch(self, *, commits: bool = True) -> None:
        """Runs a micro-batch as Spark does, and commits it."""
        k = self.commits.k + 1
        self.write(f"offsets/{k - 1}", f"offsets {self.epoch} {k}")
        self.write(f"state/0/0/{k}.changelog", f"state {self.epoch} {k}")
        self.files.save(Write(k, 1, self.commits))
        if commits:
            commit(self.commits, self.epoch)
            self.write(f"commits/{k - 1}", "done")

    def contents(self) -> dict[str, bytes]:
        return {path: (self.directory / path).read_bytes() for path in marks(self.directory)}


def commit(log: CommitLog, epoch: int) -> None:
    k, at = log.k + 1, {"in": {0: log.k + 1}}
    assert log.read(log.upto, Commit(epoch, k, 1, log.stop, at, (), 0, Id("d", k), log.prev))


@pytest.fixture
def log() -> MemoryLog:
    made = MemoryLog(lambda: 0)
    made.create([TopicSpec(TOPIC.topic, 1)])
    return made


@pytest.fixture
def one(log: MemoryLog, tmp_path: Path) -> Iterator[Machine]:
    made = Machine(log, tmp_path / "one")
    yield made
    made.files.close()


@pytest.fixture
def two(log: MemoryLog, tmp_path: Path) -> Iterator[Machine]:
    made = Machine(log, tmp_path / "two")
    yield made
    made.files.close()


def sent(log: MemoryLog, since: int = 0) -> list[str]:
    values = [message.value() for message in log.scan(TOPIC) if message.offset() >= since]
    records = [decode(value) for value in values if value is not None]
    return [record.path for record in records if isinstance(record, Piece)]


def end(log: MemoryLog) -> int:
    return log.offsets([TOPIC], "end")[TOPIC]


def test_a_driver_that_sees_no_folder_of_the_former_one_has_its_checkpoint(
    log: MemoryLog, one: Machine, two: Machine
) -> None:
    two.files.follow()
    one.lead(1, one.commits)
    one.write("metadata", "id")
    one.write("state/0/0/SSTs/000001-ab.sst", bytes(range(256)) * (PIECE_BYTES // 100))
    one.write("state/0/0/1.changelog.empty", "")
    for _ in range(3):
        one.batch()
    expected = one.contents()
    del expected["commits/2"]  # Spark's note came after the last record
    shutil.rmtree(one.folder)
    two.lead(2, one.commits)
    assert two.contents() == expected
    assert two.directory.is_relative_to(two.folder)
    before = end(log)
    two.batch()
    assert sent(log, before) == ["offsets/3", "state/0/0/4.changelog"], "nothing is sent twice"


def test_a_large_file_goes_in_pieces_and_small_ones_in_one(log: MemoryLog, one: Machine) -> None:
    one.lead(1, one.commits)
    one.write("state/0/0/SSTs/1.sst", bytes(2 * PIECE_BYTES + 1))
    one.batch()
    assert sorted(sent(log)) == ["offsets/0", "state/0/0/1.changelog", *["state/0/0/SSTs/1.sst"] * 3]
    largest = max(len(message.value() or b"") for message in log.scan(TOPIC))
    assert largest < PIECE_BYTES + 200


def test_files_of_a_micro_batch_without_a_valid_commit_are_not_taken_over(
    log: MemoryLog, one: Machine, two: Machine
) -> None:
    one.lead(1, one.commits)
    one.batch()
    one.batch(commits=False)
    two.lead(2, one.commits)
    assert set(two.contents()) == {"offsets/0", "state/0/0/1.changelog", "commits/0"}
    one.batch(commits=False)
    two.batch()
    assert two.contents()["state/0/0/2.changelog"] == b"state 2 2"


def test_a_micro_batch_that_spark_has_noted_as_done_does_not_run_again(
    log: MemoryLog, one: Machine, two: Machine
) -> None:
    one.lead(1, one.commits)
    one.batch()
    one.files.complete()
    before = end(log)
    one.files.complete()
    assert end(log) == before, "once is enough"
    two.lead(2, one.commits)
    assert two.checkpoints.done(2) == [0]


def test_files_that_spark_deletes_go_from_kafka_when_a_commit_is_valid_without_them(
    log: MemoryLog, one: Machine, two: Machine
) -> None:
    one.lead(1, one.commits)
    for _ in range(4):
        one.batch()
        (one.directory / f"state/0/0/{one.commits.k - 1}.changelog").unlink(missing_ok=True)
    newest = {message.key(): message.value() for message in log.scan(TOPIC)}
    records = [decode(value) for value in newest.values() if value is not None]
    states = [one.path for one in records if isinstance(one, Piece) and one.path.startswith("state")]
    assert states == ["state/0/0/2.changelog", "state/0/0/3.changelog", "state/0/0/4.changelog"]
    two.lead(2, one.commits)
    assert "state/0/0/4.changelog" in two.contents()


def test_full_paths_in_sparks_notes_are_those_of_the_new_machine(log: MemoryLog, one: Machine, two: Machine) -> None:
    one.lead(1, one.commits)
    one.write("state/0/_metadata/v2/0", f'{{"schema": "file:{one.directory}/state/0/_stateSchema/a"}}')
    one.batch()
    two.lead(2, one.commits)
    assert two.contents()["state/0/_metadata/v2/0"].decode() == (
        f'{{"schema": "file:{two.directory}/state/0/_stateSchema/a"}}'
    )
    before = end(log)
    two.batch()
    assert "state/0/_metadata/v2/0" in sent(log, before)


def test_a_second_run_of_an_epoch_continues_in_its_directory(log: MemoryLog, one: Machine) -> None:
    one.lead(1, one.commits)
    one.batch()
    before, directory = end(log), one.directory
    one.lead(1, one.commits)
    one.batch()
    assert one.directory == directory
    assert sent(log, before) == ["commits/0", "offsets/1", "state/0/0/2.changelog"]


def test_a_driver_that_stood_by_again_takes_over_again(log: MemoryLog, one: Machine, two: Machine) -> None:
    one.lead(1, one.commits)
    one.batch()
    two.lead(2, one.commits)
    one.files.follow()
    two.batch()
    one.lead(3, two.commits)
    assert set(one.contents()) == {"offsets/0", "offsets/1", "state/0/0/1.changelog", "state/0/0/2.changelog"}
    assert one.contents()["state/0/0/2.changelog"] == b"state 2 2"


def test_state_that_executors_write_elsewhere_is_missed_in_time(log: MemoryLog, one: Machine) -> None:
    one.lead(1, one.commits)
    one.write("state/0/_metadata/metadata", "of the driver")
    one.write("offsets/0", "offsets")
    with pytest.raises(StateCorrupted, match="its executors need one file system"):
        one.files.save(Write(1, 1, one.commits))
    assert end(log) == 0


def test_the_folder_of_a_driver_that_sent_nothing_is_taken_if_it_is_here(log: MemoryLog, one: Machine) -> None:
    former = one.checkpoints.prepare(1, Takeover())
    one.directory, one.epoch = former, 1
    for path in ("offsets/0", "state/0/0/1.changelog", "commits/0"):
        one.write(path, path)
    commit(one.commits, 1)
    one.lead(2, one.commits)
    assert set(one.contents()) == {"offsets/0", "state/0/0/1.changelog", "commits/0"}
    one.batch()
    assert sorted(sent(log)) == ["commits/0", "offsets/0", "offsets/1", *[f"state/0/0/{k}.changelog" for k in (1, 2)]]


def test_a_checkpoint_that_is_nowhere_is_told(log: MemoryLog, one: Machine, two: Machine) -> None:
    commit(one.commits, 1)
    with pytest.raises(StateCorrupted, match=r"micro-batch 1 of epoch 1 has no note .* does not have them"):
        two.lead(2, one.commits)
    log.delete([TOPIC.topic])
    with pytest.raises(StateCorrupted, match="Submit it again"):
        two.lead(2, one.commits)


def test_without_an_answer_of_kafka_no_directory_is_made(log: MemoryLog, one: Machine, two: Machine) -> None:
    one.lead(1, one.commits)
    one.batch()
    log.away.add(TOPIC)
    with pytest.raises(Retriable):
        two.lead(2, one.commits)
    assert not two.folder.exists() or not list(two.folder.glob("j/h/*"))


def test_files_are_saved_between_the_frames_of_a_micro_batch_and_its_commit(
    one: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    written = Output(1, 1, {}, (), 0)

    def ask(question: BatchAsked | Output) -> Answer:
        said.append(type(question).__name__)
        return Write(1, 1, one.commits) if isinstance(question, BatchAsked) else Committed()

    def write(*_: object) -> Output:
        said.append("frames")
        return written

    monkeypatch.setattr(query, "planned", lambda *_: None)
    monkeypatch.setattr(query.Query, "_written", write)
    stub: Any = None
    of = query.Query(stub, stub, "1-abcdef", "", "", 1, one.folder, None, ask, stub, lambda _: said.append("files"))
    of._decide(stub, 0)
    assert said == ["BatchAsked", "frames", "files", "Output"]


def test_folders_are_shared_unless_a_person_says_otherwise_and_executors_are_warned_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("HOLDFAST_SPARK_CHECKPOINTS", raising=False)
    assert SparkSettings().spark_checkpoints == "shared"
    monkeypatch.setenv("HOLDFAST_SPARK_CHECKPOINTS", "kafka")
    assert SparkSettings().spark_checkpoints == "kafka"
    masters = ("", "local[4]", "spark://host:7077")
    assert [executors_write(SparkSettings(spark_master=one)) for one in masters] == [False, False, True]
