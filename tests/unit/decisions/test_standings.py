"""A snapshot of `assignments` stands for the records below it, and none that says something else is believed."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas import assignments
from holdfast.schemas.assignments import (
    PRIMARY,
    RUN,
    STOP,
    Assignment,
    Change,
    CheckpointPolicy,
    Copy,
    Flags,
    GlobalCheckpoint,
    Goal,
    GoalStanding,
    Snapshot,
    Standing,
)
from holdfast.schemas.incidents import Incident
from holdfast.schemas.retired import Retired
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.decisions.past import REMEMBERED
from holdfast.services.decisions.snapshots import base_of
from holdfast.services.decisions.standings import Standings, plausible
from holdfast.services.log.late.assignments import ASSIGNMENTS, FIRST_STRETCH, read_standings
from holdfast.services.log.late.start import LAST_STRETCH, begun
from holdfast.services.log.memory import MemoryLog

WHERE = Partition(ClusterTopics().assignments, 0)
SUSPENDED = Flags(state="synced", process=False, send=False, commit=False, checkpoint_target=True)
COPIES = [(), (Copy("w1", "1", PRIMARY),), (Copy("w2", "1", PRIMARY), Copy("w1", "1", SUSPENDED))]
BAD = [(Copy("w1", "1", SUSPENDED),), (Copy("w1", "1", PRIMARY), Copy("w1", "2", SUSPENDED))]
UNITS = ["j@0-a/s-0", "j@0-a/t-0", "k@1-b/s-0", "j@0-aaaaaa/s-0", "j@0-aaaaaa/t-0"]

changes = st.builds(
    Change, st.sampled_from(UNITS), st.integers(0, 6), st.sampled_from([*COPIES, *BAD]),
    line=st.sampled_from([0, 0, 0, 1, 2]), back=st.sampled_from([0, 0, 10]),
)  # fmt: skip
"""Many are invalid: epochs that do not follow, copies that nobody could carry out, lines that begin nowhere."""
goals = st.builds(
    Goal, st.sampled_from("jk"), st.sampled_from(["0-aaaaaa", "1-bbbbbb"]), st.sampled_from([RUN, STOP]),
    asked=st.integers(-1, 4),
)  # fmt: skip
"""Some stops name no command that could have asked for them."""
retirements = st.builds(
    Retired, st.integers(0, 3), st.lists(st.sampled_from(["0-a", "1-b", "0-aaaaaa"]), unique=True).map(tuple)
)
policies = st.builds(
    CheckpointPolicy, st.sampled_from("jk"), st.sampled_from(["0-aaaaaa", "1-bbbbbb"]), st.integers(0, 9),
    st.sampled_from(["sweep", "aligned"]), st.just(500), st.just(100), st.just(900), st.integers(1, 3),
    st.integers(0, 3),
)  # fmt: skip
"""Some answer a command that was answered before."""
checkpoints = st.builds(
    GlobalCheckpoint, st.sampled_from("jk"), st.sampled_from(["0-aaaaaa", "1-bbbbbb"]), st.sampled_from([10, 20]),
    st.integers(0, 3), st.sampled_from([0, 0, 1]),
)  # fmt: skip
"""Some are of another policy, or of another line."""
incidents = st.builds(
    Incident, st.sampled_from("jk"), st.sampled_from(["0-aaaaaa", "1-bbbbbb"]), st.integers(1, 4),
    over=st.booleans(),
)  # fmt: skip
"""Some were said before, or are older than the last."""
entries = st.one_of(changes, changes, goals, retirements, policies, checkpoints, incidents)
Entry = Change | Goal | Retired | CheckpointPolicy | GlobalCheckpoint | Incident
histories = st.lists(st.lists(entries, min_size=1, max_size=3), max_size=40)


def fold(records: Sequence[Assignment], standings: Standings | None = None) -> Standings:
    standings = standings or Standings()
    for offset, record in enumerate(records):
        standings.read(offset, record)
    return standings


def recorded(history: Sequence[Sequence[Entry]]) -> list[Assignment]:
    return [
        Assignment(
            "a",
            0,
            tuple(one for one in each if isinstance(one, Change)),
            goals=tuple(one for one in each if isinstance(one, Goal)),
            retired=next((one for one in each if isinstance(one, Retired)), None),
            policies=tuple(one for one in each if isinstance(one, CheckpointPolicy)),
            checkpoints=tuple(one for one in each if isinstance(one, GlobalCheckpoint)),
            incidents=tuple(one for one in each if isinstance(one, Incident)),
        )
        for each in history
    ]


def placed(epoch: int, unit: str = UNITS[0]) -> Assignment:
    return Assignment("a", 0, (Change(unit, epoch, COPIES[1]),))


def stated(snapshot: Snapshot) -> Assignment:
    return Assignment("r", 0, (), snapshot)


def logged(*records: Assignment | bytes) -> MemoryLog:
    log = MemoryLog(lambda: 0)
    log.create(ClusterTopics().specs())
    for record in records:
        log.put(WHERE, record if isinstance(record, bytes) else assignments.encode(record), None, None)
    return log


def test_a_record_that_is_repeated_counts_where_it_was_said_first() -> None:
    """Also when a reader gives the same object for the same bytes."""
    policy = CheckpointPolicy("j", "0-aaaaaa", 1, "aligned", 500, 100, 900, 1, 1)
    record = Assignment("a", 0, (), policies=(policy,), incidents=(Incident("j", "0-aaaaaa", 1),))
    snapshot = fold([record, placed(1), record]).snapshot()
    assert [one.offset for one in snapshot.policies] == [0]
    assert [one.offset for one in snapshot.incidents] == [0]


@given(histories, st.data())
def test_folded_from_a_snapshot_units_stand_as_folded_from_the_start(
    history: list[list[Entry]], data: st.DataObject
) -> None:
    records = recorded(history)
    upto = data.draw(st.integers(0, len(records)))
    snapshot = fold(records[:upto]).snapshot()
    assert fold(records, Standings.of(snapshot)).snapshot() == fold(records).snapshot()


@given(histories, st.data())
def test_a_true_snapshot_of_any_moment_agrees_and_a_changed_one_differs(
    history: list[list[Entry]], data: st.DataObject
) -> None:
    records = recorded(history)
    upto = data.draw(st.integers(0, len(records)))
    snapshot, standings = fold(records[:upto]).snapshot(), fold(records)
    assert standings.check(len(records), snapshot) is True
    for number, one in enumerate(snapshot.units):
        later = msgspec.structs.replace(one.change, epoch=one.change.epoch + 1)
        units = (*snapshot.units[:number], Standing(one.offset, later), *snapshot.units[number + 1 :])
        assert standings.check(len(records), Snapshot(upto, units, snapshot.goals)) is False
        fewer = snapshot.units[:number] + snapshot.units[number + 1 :]
        assert standings.check(len(records), Snapshot(upto, fewer, snapshot.goals)) is False
    for number in range(len(snapshot.goals)):
        none = snapshot.goals[:number] + snapshot.goals[number + 1 :]
        assert standings.check(len(records), Snapshot(upto, snapshot.units, none)) is False
    for number in range(len(snapshot.policies)):
        none_of = snapshot.policies[:number] + snapshot.policies[number + 1 :]
        assert standings.check(len(records), msgspec.structs.replace(snapshot, policies=none_of)) is False
    if snapshot.checkpoints:
        assert standings.check(len(records), msgspec.structs.replace(snapshot, checkpoints=())) is False


def test_records_below_the_snapshot_change_nothing() -> None:
    records = recorded([[Change(UNITS[0], 1, COPIES[1])], [Change(UNITS[0], 2, COPIES[2])]])
    standings = fold(records, Standings.of(fold(records).snapshot()))
    assert standings.snapshot() == fold(records).snapshot()
    assert standings.next == 2


def test_a_snapshot_of_before_what_is_known_is_neither_right_nor_wrong() -> None:
    records = [placed(epoch) for epoch in range(1, REMEMBERED + 50)]
    early, late = fold(records[:10]).snapshot(), fold(records[:100]).snapshot()
    assert fold(records).check(len(records), early) is None
    assert fold(records).check(len(records), late) is True
    assert fold(records, Standings.of(late)).check(len(records), early) is None


def test_a_snapshot_that_cannot_be_true_is_no_beginning() -> None:
    one = Standing(3, Change(UNITS[0], 1, COPIES[1]))
    assert plausible(Snapshot(4, (one,)), 4)
    assert not plausible(Snapshot(5, (one,)), 4), "it speaks of what comes behind it"
    assert not plausible(Snapshot(3, (one,)), 9), "a change lies behind it"
    assert not plausible(Snapshot(4, (one, one)), 9)
    assert not plausible(Snapshot(4, (Standing(3, Change(UNITS[0], 0, COPIES[1])),)), 9)
    assert not plausible(Snapshot(4, (Standing(3, Change(UNITS[0], 1, BAD[0])),)), 9)
    assert not plausible(Snapshot(-1, ()), 9)


def test_the_last_snapshot_but_one_is_begun_with_and_the_last_compared() -> None:
    first, second = Snapshot(2, ()), Snapshot(5, ())
    assert base_of([(3, first), (6, second)], 0, plausible) == first
    assert base_of([(3, first), (6, second)], 3, plausible) == second
    assert base_of([(3, first), (6, second), (7, Snapshot(70, ()))], 0, plausible) == first
    assert base_of([], 0, plausible) is None
    unreadable = [b""] * 6
    assert begun(list(logged(*unreadable, stated(second)).scan(WHERE)), first, ASSIGNMENTS) is not None
    forged = Snapshot(5, (Standing(1, Change(UNITS[0], 9)),))
    assert begun(list(logged(*unreadable, stated(forged)).scan(WHERE)), first, ASSIGNMENTS) is None


def test_the_first_goal_counts_until_the_first_stop_which_is_final() -> None:
    run, other = (Goal("j", "0-aaaaaa", RUN, reason) for reason in ("", "again"))
    stop, late = (Goal("j", "0-aaaaaa", STOP, reason, asked=3) for reason in ("cancelled", "drained"))
    standings = Standings()
    seen = []
    for offset, goal in enumerate((run, other, stop, late, run)):
        standings.read(offset, Assignment("c", 0, (), goals=(goal,)))
        seen.append(standings.goal(goal.job_key))
    first, last = GoalStanding(0, run), GoalStanding(2, stop)
    assert seen == [first, first, last, last, last]


def test_a_stop_without_a_command_behind_its_job_is_none() -> None:
    standings = Standings()
    for offset, asked in enumerate((-1, 3, 7)):
        standings.read(offset, Assignment("c", 0, (), goals=(Goal("j", "7-aaaaaa", STOP, asked=asked),)))
    assert standings.goal("j@7-aaaaaa") is None


def test_a_snapshot_with_a_goal_that_cannot_be_is_no_beginning() -> None:
    run, stop = Goal("j", "0-aaaaaa", RUN), Goal("j", "0-aaaaaa", STOP)
    assert plausible(Snapshot(4, (), (GoalStanding(3, run),)), 4)
    assert not plausible(Snapshot(3, (), (GoalStanding(3, run),)), 4)
    assert not plausible(Snapshot(4, (), (GoalStanding(3, stop),)), 4)
    assert not plausible(Snapshot(4, (), (GoalStanding(3, run), GoalStanding(2, run))), 4)


def test_a_snapshot_of_before_there_were_goals_is_read() -> None:
    former = b'{"author":"r","time_ms":0,"changes":[],"snapshot":{"upto":9,"units":[]}}'
    assert assignments.decode(former).snapshot == Snapshot(9, ())
    assert b"goals" not in assignments.encode(stated(Snapshot(9, ())))


@pytest.mark.parametrize("wrong", ["", "j@1", "j/1", "j k"])
def test_a_goal_of_no_job_that_can_be_is_malformed(wrong: str) -> None:
    record = assignments.encode(Assignment("c", 0, (), goals=(Goal(wrong, "0-aaaaaa", RUN),)))
    with pytest.raises(msgspec.DecodeError):
        assignments.decode(record)


# -- in a log ---------------------------------------------------------------------------------------------------------


def history_with_snapshots(count: int, every: int) -> list[Assignment]:
    """One unit that changes all the time; every so many records a snapshot, which is true."""
    standings, records = Standings(), list[Assignment]()
    epoch = 0
    while len(records) < count:
        if len(records) % every == every - 1:
            record = stated(standings.snapshot())
        else:
            epoch += 1
            record = placed(epoch)
        standings.read(len(records), record)
        records.append(record)
    return records


def test_a_late_reader_reads_only_the_end_of_a_long_log() -> None:
    records = history_with_snapshots(20_000, 1_000)
    log = logged(*records)
    log.trim({WHERE: 15_000})  # what nobody reads may be gone
    standings = read_standings(log, WHERE)
    assert standings.snapshot() == fold(records).snapshot()
    assert standings.since > len(records) - FIRST_STRETCH


def test_a_stretch_without_a_snapshot_is_made_larger() -> None:
    records = history_with_snapshots(30_000, 12_000)
    standings = read_standings(logged(*records), WHERE)
    assert standings.snapshot() == fold(records).snapshot()
    assert 0 < standings.since < len(records) - FIRST_STRETCH


@pytest.mark.slow
def test_a_log_without_a_snapshot_is_read_from_its_start() -> None:
    records = [placed(epoch) for epoch in range(1, LAST_STRETCH + FIRST_STRETCH)]
    assert read_standings(logged(*records), WHERE).snapshot() == fold(records).snapshot()
    assert read_standings(logged(), WHERE).next == 0


def test_a_forged_snapshot_is_found_out_and_nothing_of_it_believed() -> None:
    records = history_with_snapshots(2_000, 300)
    unit = Standing(5, Change(UNITS[0], 10**9, COPIES[2]))
    forged = stated(Snapshot(len(records), (unit,)))
    for hostile in ([forged], [forged, placed(10**9 + 1)], [stated(Snapshot(0, ())), forged]):
        standings = read_standings(logged(*records, *hostile), WHERE)
        assert standings.of_unit(UNITS[0]) == fold(records).of_unit(UNITS[0])


def test_a_snapshot_that_cannot_be_read_is_passed_over() -> None:
    records = history_with_snapshots(1_000, 300)
    newer = b'{"author":"r","time_ms":0,"changes":[],"snapshot":{"upto":900,"format":2,"units":"packed"}}'
    standings = read_standings(logged(*records, newer, b"\xff", b'"snapshot":{'), WHERE)
    assert standings.snapshot() == fold(records).snapshot()
    assert standings.since > 0


def test_a_reader_that_knows_no_snapshots_finds_no_changes_in_one() -> None:
    class Former(msgspec.Struct):
        author: str
        time_ms: int
        changes: tuple[Change, ...]

    record = assignments.encode(stated(fold([placed(1)]).snapshot()))
    assert msgspec.json.decode(record, type=Former).changes == ()
    assert b"snapshot" not in assignments.encode(placed(1))
