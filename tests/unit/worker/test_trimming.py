"""How far a data topic may be trimmed."""

from __future__ import annotations

from holdfast.schemas.assignments import PRIMARY, Assignment, Change, Copy
from holdfast.schemas.checkpoints import Position
from holdfast.schemas.progress import Progress
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.worker.core.trim_limit import acknowledged, consumed, later
from holdfast.services.worker.host.job import JobView
from tests.unit.planning import jobs

DATA = Partition("data", 1)


def progress(unit: str, offset: int, acked: int = 1, processed: int = 1) -> Progress:
    return Progress(unit, processed, acked, (Position("data", 0, 999), Position("data", 1, offset)))


def test_a_partition_is_trimmed_to_the_slowest_readers_ack() -> None:
    known = {"a": progress("a", 40), "b": progress("b", 30)}
    assert acknowledged(DATA, ["a", "b"], known) == 30


def test_nothing_is_trimmed_while_a_reader_has_acknowledged_nothing() -> None:
    assert acknowledged(DATA, ["a", "c"], {"a": progress("a", 40)}) == 0
    assert acknowledged(DATA, ["a"], {"a": Progress("a", 5, 0)}) == 0


def test_the_maximum_of_two_readings_counts() -> None:
    old, new = progress("a", 40, acked=4, processed=9), progress("a", 30, acked=3, processed=12)
    merged = later(old, new)
    assert (merged.acked, merged.processed, merged.positions) == (4, 12, old.positions)
    assert later(new, old) == merged


def marked(unit: str, newest: int, line: int = 0, read: int = 7, at: int = 20) -> Progress:
    """It acknowledges offset 10, and its newest marker reads on at `newest`."""
    acked = (Position("data", 1, 10),)
    return Progress(unit, at, 5, acked, marked=at, newest=(Position("data", 1, newest),), line=line, read=read)


def test_a_partition_is_trimmed_to_the_newest_markers_if_only_sources_retain() -> None:
    known = {"a": marked("a", 40), "b": marked("b", 30)}
    assert consumed(DATA, {"a": 0, "b": 0}, known, 7) == 30
    assert acknowledged(DATA, ["a", "b"], known) == 10
    assert consumed(DATA, {"a": 0, "c": 0}, known, 7) == 0


def test_a_position_counts_only_for_those_who_have_read_as_much_as_its_author() -> None:
    """Else the trimmer may not know that a sender has gone back, and a frame that it sent again would be gone."""
    known = {"a": marked("a", 40)}
    assert [consumed(DATA, {"a": 0}, known, read) for read in (6, 7, 8)] == [10, 40, 40]


def test_a_position_of_another_line_or_of_a_batch_that_was_not_sent_does_not_count() -> None:
    known = {"a": marked("a", 40)}
    assert consumed(DATA, {"a": 1}, known, 7) == 10
    assert consumed(DATA, {"a": 0}, known, 7, batch=19) == 10


def test_the_newest_marker_of_two_readings_counts() -> None:
    first, second = marked("a", 30, at=20), marked("a", 40, at=25)
    assert later(first, second).newest == later(second, first).newest == second.newest
    rolled = Progress("a", 10, 5, (Position("data", 1, 10),), line=1)
    assert later(second, rolled).newest == ()


def test_nobody_trims_to_a_marker_behind_which_lie_frames_of_a_change_that_was_not_read() -> None:
    """Their sender may have gone back: whoever goes back with it needs them again."""
    assigned, made = Assigned(), jobs.plan(jobs.job(), {"in": 1, "out": 1})
    job, name = JobView.of(made, ClusterTopics(), assigned), made.units[0].name
    assigned.read(Assignment("r", 0, (Change(job.key(name), 1, (Copy("w1", "i", PRIMARY),)),)))
    assert job.knows({})
    assert [job.knows({name: epoch}) for epoch in (0, 1, 2)] == [True, True, False]
