"""What a driver takes over from the one before it, in the log and on disk."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from holdfast.schemas.commits import Commit, Fence
from holdfast.schemas.cuts import NO_WATERMARK
from holdfast.schemas.decided import Id
from holdfast.services.decisions.commits import CommitLog
from holdfast.services.kernel.errors import StateCorrupted
from holdfast.services.spark.checkpoint import FAR_WATERMARK_MS, Checkpoints, plan_last_batch, planned
from holdfast.services.spark.core.taking_over import Takeover, Verdict, takeover, verdict


def log_of(k: int, epoch: int = 1, final: bool = False) -> CommitLog:
    """A log with k commits of an epoch."""
    log = CommitLog({"in": {0: 0}})
    log.read(0, Fence(epoch, Id("d", 0)))
    for number in range(1, k + 1):
        start, stop = {"in": {0: number - 1}}, {"in": {0: number}}
        prev = Id("d", number - 1) if number > 1 else None
        last = final and number == k
        assert log.read(number, Commit(epoch, number, 1, start, stop, (), 0, Id("d", number), prev, final=last))
    return log


def test_without_a_commit_there_is_nothing_to_take_over() -> None:
    assert takeover(log_of(0), [0, 1]) == Takeover(None, -1, -1)


@pytest.mark.parametrize(
    ("done", "expected"),
    [
        ([0, 1, 2], Takeover(1, 2, 2)),
        ([0, 1], Takeover(1, 2, 1)),
        ([], Takeover(1, 2, -1)),
        ([0, 1, 2, 3, 4], Takeover(1, 2, 2)),
    ],
)
def test_the_copy_ends_with_the_last_valid_commit_whatever_the_query_had_noted(
    done: list[int], expected: Takeover
) -> None:
    assert takeover(log_of(3), done) == expected


def test_a_batch_that_counts_already_runs_for_its_state_alone() -> None:
    log = log_of(3)
    verdicts = [verdict(log, 1, batch) for batch in range(5)]
    assert verdicts == [Verdict.DISCARD, Verdict.DISCARD, Verdict.DISCARD, Verdict.COMMIT, Verdict.STOP]


def test_a_driver_that_was_overtaken_stops_and_one_behind_the_end_writes_nothing() -> None:
    assert verdict(log_of(3, epoch=2), 1, 3) == Verdict.STOP
    assert verdict(log_of(3, final=True), 1, 3) == Verdict.DISCARD


def note(batch: int, stop: int, watermark_ms: int = 0) -> str:
    head = {"batchWatermarkMs": watermark_ms, "batchTimestampMs": 1_000 + batch, "conf": {"a": "b"}}
    return "\n".join(["v1", json.dumps(head), json.dumps({"in": {"0": stop}})])


def checkpoint(root: Path, planned_batches: int, done: int) -> Path:
    """Laid out as Spark does."""
    for folder in ("offsets", "commits", "state/0/0", "sources/0"):
        (root / folder).mkdir(parents=True)
    for batch in range(planned_batches):
        (root / "offsets" / str(batch)).write_text(note(batch, batch + 1, batch * 10))
        (root / "offsets" / f".{batch}.crc").write_text("sum")
        (root / "state/0/0" / f"{batch + 1}.changelog").write_text(f"state {batch}")
    for batch in range(done):
        (root / "commits" / str(batch)).write_text("v1")
    (root / "metadata").write_text("id")
    (root / "sources/0/0").write_text("first")
    return root


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_epoch_gets_a_directory_of_its_own_that_ends_with_the_last_commit(tmp_path: Path) -> None:
    checkpoint(tmp_path / "1", 5, 4)
    made = Checkpoints(tmp_path).prepare(3, Takeover(1, planned=2, done=2))
    assert made == tmp_path / "3"
    assert names(made / "offsets") == [".0.crc", ".1.crc", ".2.crc", "0", "1", "2"]
    assert names(made / "commits") == ["0", "1", "2"]
    assert (made / "metadata").read_text() == "id"
    assert (made / "sources/0/0").read_text() == "first"
    assert (made / "state/0/0/1.changelog").read_text() == "state 0"


def test_state_of_micro_batches_that_do_not_count_is_not_taken_over(tmp_path: Path) -> None:
    """They run again with other records: Spark would build later versions on a snapshot of the former run."""
    state = checkpoint(tmp_path / "1", 5, 3) / "state/0/0"
    for name in ("3.zip", "4.zip", ".4.zip.crc", "4_abc.changelog", "5.delta", "5.snapshot"):
        (state / name).write_text("state")
    (state / "SSTs").mkdir()
    (state / "SSTs/000004-abc.sst").write_text("table")
    made = Checkpoints(tmp_path).prepare(3, Takeover(1, planned=2, done=2))
    assert names(made / "state/0/0") == ["1.changelog", "2.changelog", "3.changelog", "3.zip", "SSTs"]
    assert names(made / "state/0/0/SSTs") == ["000004-abc.sst"]


def test_files_of_a_zombie_do_not_reach_its_successor(tmp_path: Path) -> None:
    checkpoint(tmp_path / "1", 3, 3)
    made = Checkpoints(tmp_path).prepare(2, Takeover(1, planned=2, done=2))
    replaced = tmp_path / "1/state/0/0/new"
    replaced.write_text("zombie")
    os.replace(replaced, tmp_path / "1/state/0/0/3.changelog")
    (tmp_path / "1/commits/3").write_text("zombie")
    assert (made / "state/0/0/3.changelog").read_text() == "state 2"
    assert names(made / "commits") == ["0", "1", "2"]


def test_a_directory_that_is_there_is_used_as_it_is(tmp_path: Path) -> None:
    checkpoint(tmp_path / "4", 2, 1)
    made = Checkpoints(tmp_path).prepare(4, Takeover(1, planned=0, done=0))
    assert names(made / "commits") == ["0"]
    assert (made / "offsets/1").exists()


def test_a_checkpoint_that_lacks_what_is_committed_is_told(tmp_path: Path) -> None:
    checkpoint(tmp_path / "1", 2, 2)
    with pytest.raises(StateCorrupted, match="does not hold batch 5"):
        Checkpoints(tmp_path).prepare(2, Takeover(1, planned=5, done=1))
    assert not (tmp_path / "2").exists()


def test_directories_before_the_former_one_are_removed(tmp_path: Path) -> None:
    for epoch in (1, 2):
        checkpoint(tmp_path / str(epoch), 1, 1)
    Checkpoints(tmp_path).prepare(3, Takeover(2, planned=0, done=0))
    assert names(tmp_path) == ["2", "3"]


def test_sparks_notes_of_a_batch_are_read(tmp_path: Path) -> None:
    checkpoint(tmp_path, 2, 1)
    first, second = planned(tmp_path, 0), planned(tmp_path, 1)
    assert (first.stop, first.watermark_us, first.time_ms) == ({"in": {0: 1}}, NO_WATERMARK, 1_000)
    assert (second.stop, second.watermark_us) == ({"in": {0: 2}}, 10_000)
    with pytest.raises(StateCorrupted, match="has not noted batch 7"):
        planned(tmp_path, 7)


def test_the_last_batch_takes_in_nothing_and_is_behind_everything(tmp_path: Path) -> None:
    checkpoint(tmp_path, 2, 2)
    plan_last_batch(tmp_path, 2)
    last = planned(tmp_path, 2)
    assert (last.stop, last.watermark_us) == ({"in": {0: 2}}, FAR_WATERMARK_MS * 1000)
    assert json.loads((tmp_path / "offsets/2").read_text().splitlines()[1])["conf"] == {"a": "b"}
