"""PROTOCOL 3 and 12: with which commit a reader of a trimmed commit log begins."""

from __future__ import annotations

import pytest

from holdfast.schemas import commits, cuts
from holdfast.schemas.commits import Commit
from holdfast.schemas.cuts import CutsSnapshot, Range, Snapshot, TaskCuts
from holdfast.schemas.decided import Id
from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.kernel.errors import StateCorrupted
from holdfast.services.log.late.cut_logs import commit_base
from holdfast.services.log.memory import MemoryLog

CUTS, COMMITS = Partition("cuts", 0), Partition("commits", 0)


def committed(k: int) -> Commit:
    return Commit(1, k, 1, {}, {}, (), 0, Id("d", k), None if k == 1 else Id("d", k - 1))


def named(upto: int, stop: int) -> bytes:
    """A snapshot of the cut log whose cuts end behind a commit."""
    task = TaskCuts(None, 1, (Range(0, 0, stop),), 0, False, False)
    return cuts.encode(Snapshot(CutsSnapshot(upto, {"heavy-0": task})))


@pytest.fixture
def log() -> MemoryLog:
    """Commits at the odd offsets, frames before them; snapshots that name those at 1 and at 5."""
    log = MemoryLog(lambda: 0)
    log.create([TopicSpec(CUTS.topic), TopicSpec(COMMITS.topic)])
    for k in range(1, 5):
        log.put(COMMITS, b"\x01 frame", None, None)
        log.put(COMMITS, commits.encode(committed(k)), None, None)
    log.put(CUTS, named(0, 2), None, None)
    log.put(CUTS, named(1, 6), None, None)
    return log


def test_a_log_that_is_not_trimmed_begins_with_its_first_commit(log: MemoryLog) -> None:
    assert commit_base(log, CUTS, "heavy", COMMITS) is None


@pytest.mark.parametrize(("trimmed", "at"), [(1, 1), (2, 5), (5, 5)])
def test_a_trimmed_one_with_the_first_that_a_snapshot_names_and_that_is_left(
    log: MemoryLog, trimmed: int, at: int
) -> None:
    log.trim({COMMITS: trimmed})
    assert commit_base(log, CUTS, "heavy", COMMITS) == (at, committed(at // 2 + 1))


def test_a_cut_without_such_a_commit_is_wrong(log: MemoryLog) -> None:
    log.trim({COMMITS: 6})
    with pytest.raises(StateCorrupted, match="no snapshot of cuts"):
        commit_base(log, CUTS, "heavy", COMMITS)


def test_a_frame_is_no_commit(log: MemoryLog) -> None:
    log.put(CUTS, named(2, 7), None, None)
    log.trim({COMMITS: 6, CUTS: 2})
    with pytest.raises(StateCorrupted, match="there is none"):
        commit_base(log, CUTS, "heavy", COMMITS)
