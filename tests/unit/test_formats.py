"""Decision 0078: one format back is read, and written until every process that lives reads the newer one."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.schemas import formats
from holdfast.schemas.assignments import Assignment, Snapshot, encode
from holdfast.schemas.frames import FLAG_CLOCK, Header, unpack
from holdfast.schemas.heartbeats import Exit, Heartbeat
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.decisions.standings import Standings
from holdfast.services.hosting.decisions import Decisions
from holdfast.services.hosting.identity import Identity
from holdfast.services.kernel.errors import OtherFormat, WorkerUnfit
from holdfast.services.log.late.assignments import read_standings
from holdfast.services.log.memory import MemoryLog
from holdfast.services.recovery.core.formats import LIVE_US, Readers


@pytest.fixture
def second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "NEWEST", 2)


def frame(version: int) -> bytes:
    return Header(version, 0, 0, 1, 1, 0, 1, 0, 1, 0, 0).pack()


@pytest.mark.parametrize(("newest", "reads"), [(1, [1]), (2, [1, 2]), (5, [4, 5])])
def test_the_newest_format_and_the_one_before_are_read(
    newest: int, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "NEWEST", newest)
    assert [format for format in range(8) if formats.reads(format)] == reads
    for version in range(1, 8):
        if version in reads:
            assert unpack(frame(version)).version == version
        else:
            with pytest.raises(ValueError, match=f"a frame of format {version}"):
                unpack(frame(version))


@pytest.mark.parametrize(("newest", "cluster", "written"), [(1, 1, 1), (2, 1, 1), (2, 2, 2), (5, 1, 4), (5, 5, 5)])
def test_records_are_written_in_the_format_that_the_cluster_has_come_to(
    newest: int, cluster: int, written: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "NEWEST", newest)
    assert formats.written(cluster) == written


def test_a_frame_holds_the_time_of_its_cut_where_it_is_flagged_and_eight_bytes_more() -> None:
    plain, timed = frame(formats.FIRST), Header(1, FLAG_CLOCK, 0, 1, 1, 0, 1, 0, 1, 0, 0, 1_700).pack()
    assert (unpack(plain).clock_us, unpack(plain).size) == (0, len(plain))
    assert (unpack(timed).clock_us, unpack(timed).size, len(timed)) == (1_700, len(timed), len(plain) + 8)
    with pytest.raises(ValueError, match="shorter than its header with a time"):
        unpack(timed[:-1])


def test_the_format_never_falls_and_is_part_of_a_snapshot() -> None:
    assigned, standings = Assigned(), Standings()
    for offset, format in enumerate((0, 2, 1, 3, 0)):
        assigned.read(Assignment("r", 0, (), format=format))
        standings.read(offset, Assignment("r", 0, (), format=format))
    assert assigned.format == standings.assigned.format == 3
    snapshot = standings.snapshot()
    assert snapshot == Snapshot(5, (), format=3)
    assert Standings.of(snapshot).assigned.format == 3
    assert standings.check(5, snapshot)
    assert not standings.check(5, Snapshot(5, (), format=2))
    assert standings.check(6, Snapshot(2, (), format=2)), "as it was then"


# -- when it rises ----------------------------------------------------------------------------------------------------


def beat(name: str, reads: int) -> Heartbeat:
    return Heartbeat(name, "1", 0, reads=reads)


def readers(**reads: int) -> Readers:
    """Heard at the end of LIVE_US after a replica began."""
    made = Readers(0)
    for name, newest in reads.items():
        made.read(beat(name, newest), LIVE_US)
    return made


@pytest.mark.usefixtures("second")
def test_the_format_rises_once_every_process_that_lives_reads_it() -> None:
    found = readers(w1=2, w2=1)
    assert found.due(1, LIVE_US) == 0
    found.read(beat("w2", 2), LIVE_US)
    assert found.due(1, LIVE_US) == 2
    assert found.due(2, LIVE_US) == 0, "it has risen"


@pytest.mark.usefixtures("second")
def test_processes_that_ended_or_are_silent_for_long_count_no_more() -> None:
    found = readers(w1=2, w2=1)
    found.read(Exit("w2", "1", 0), LIVE_US)
    assert found.due(1, LIVE_US) == 2
    found = readers(w1=2, w2=1)
    found.read(beat("w1", 2), 2 * LIVE_US - 1)
    assert found.due(1, 2 * LIVE_US - 1) == 0
    assert found.due(1, 2 * LIVE_US) == 2


@pytest.mark.usefixtures("second")
def test_a_replica_that_has_just_begun_or_hears_nobody_says_nothing() -> None:
    assert readers().due(1, LIVE_US) == 0
    assert readers(w1=2).due(1, LIVE_US - 1) == 0
    assert Readers().due(1, 5 * LIVE_US) == 0


def test_a_release_that_knows_no_newer_one_says_nothing() -> None:
    assert readers(w1=7).due(formats.NEWEST, LIVE_US) == 0


# -- who is too old ---------------------------------------------------------------------------------------------------


def log_of(*records: Assignment) -> tuple[MemoryLog, ClusterTopics]:

    topics = ClusterTopics("t")
    log = MemoryLog(lambda: 0)
    log.create(topics.specs())
    appender = log.appender("test")
    for record in records:
        appender.append(Partition(topics.assignments, 0), encode(record))
    return log, topics


def test_a_process_of_an_older_release_does_not_start_and_is_told_why() -> None:
    log, topics = log_of(Assignment("r", 0, (), format=3))
    with pytest.raises(OtherFormat, match="format 3, and this process reads 2 at most: start a newer release"):
        read_standings(log, Partition(topics.assignments, 0))


def test_a_process_that_reads_a_newer_format_ends() -> None:
    log, topics = log_of()
    decisions = Decisions(Identity("w1", "1"), log, topics, lambda *_: None)

    log.appender("r").append(Partition(topics.assignments, 0), encode(Assignment("r", 0, (), format=3)))
    reader = log.reader("test")
    reader.assign(decisions.positions)
    (chunk,) = [chunk for chunk in reader.poll(0) if chunk.messages]
    with pytest.raises(WorkerUnfit, match="start a newer release"):
        decisions.read(chunk)


def test_tests_may_pretend_a_newer_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(formats.PRETENDED, f"@{tmp_path / 'format'}")
    assert formats._newest() == formats.PLANS
    (tmp_path / "format").write_text("3\n")
    assert formats._newest() == 3
    monkeypatch.setenv(formats.PRETENDED, "4")
    assert formats._newest() == 4
