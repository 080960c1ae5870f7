"""The life of one copy of a Spark unit: every row of its table, told as stories."""

from __future__ import annotations

import pytest

from holdfast.schemas.assignments import PRIMARY, Flags
from holdfast.services.spark.core import lifecycle as life
from holdfast.services.spark.core.lifecycle import (
    LEADING,
    REPORTED,
    STANDING_BY,
    TRANSITIONS,
    Action,
    Goal,
    Lifecycle,
    State,
)

A = Action
STANDBY = Flags(state="virgin", receive=False, process=False, send=False, commit=False)
LED = (life.Placed(1, PRIMARY), life.Deployed(), life.FenceRead(), life.Started())
STOOD_BY = (life.Placed(1, STANDBY), life.Deployed(), life.Rehearsed())
REPORTS = {"deploying", "synced", "opening", "running", "ended", "fenced", "failed", "closed"}


def after(*events: life.Event) -> Lifecycle:
    core = Lifecycle("u")
    for event in events:
        core.at(event, 0.0)
    return core


def does(core: Lifecycle, event: life.Event, now_ms: float = 0.0) -> tuple[tuple[Action, ...], State]:
    return core.at(event, now_ms), core.state


def test_a_leader_starts_its_query_once_its_fence_is_read_back() -> None:
    core = Lifecycle("u")
    assert does(core, life.Placed(3, PRIMARY)) == ((A.DEPLOY,), State.DEPLOYING)
    assert does(core, life.Deployed()) == ((A.FENCE,), State.FENCING)
    assert core.leading == 3
    assert does(core, life.FenceRead()) == ((A.START,), State.STARTING)
    assert does(core, life.Started()) == ((A.TAKEN_OVER,), State.RUNNING)
    assert core.story[-1] == "u: opening --Started--> running: taken_over"


def test_a_standby_rehearses_before_it_is_synced_and_again_after_a_while() -> None:
    core = after(*STOOD_BY[:2])
    assert core.reported == "deploying"
    core.at(life.Rehearsed(), 5.0)
    assert core.reported == "synced"
    assert core.next_deadline == 5.0 + life.AGAIN_MS
    assert does(core, life.Due()) == ((A.REHEARSE,), State.REFRESHING)
    assert core.reported == "synced"


def test_a_standby_without_records_rehearses_with_the_first_ones() -> None:
    core = after(*STOOD_BY[:2], life.NothingRehearsed())
    assert core.reported == "synced"
    assert does(core, life.BatchRead()) == ((A.REHEARSE,), State.REFRESHING)


def test_a_standby_that_is_promoted_gives_up_its_rehearsal_and_fences() -> None:
    core = after(*STOOD_BY)
    assert does(core, life.Placed(2, PRIMARY)) == ((A.STOP, A.FENCE), State.FENCING)


def test_a_leader_stays_one_over_later_assignments_and_keeps_the_epoch_of_its_fence() -> None:
    core = after(*LED)
    assert does(core, life.Placed(2, PRIMARY)) == ((), State.RUNNING)
    assert (core.epoch, core.leading) == (2, 1)


def test_a_leader_that_another_has_fenced_stops_and_fences_again_only_when_it_is_placed_again() -> None:
    core = after(*LED)
    assert does(core, life.Superseded("epoch 2 has begun")) == ((A.STOP,), State.FENCED)
    assert (core.reported, core.error) == ("fenced", "epoch 2 has begun")
    assert does(core, life.Placed(3, PRIMARY)) == ((A.DEPLOY,), State.DEPLOYING)
    assert core.error == ""


def test_a_former_leader_stands_by_without_a_rehearsal_if_its_query_ran() -> None:
    core = after(*LED)
    assert does(core, life.Placed(2, STANDBY)) == ((A.STOP,), State.SUSPENDED)
    core = after(*LED[:3])
    assert does(core, life.Placed(2, STANDBY)) == ((A.REHEARSE,), State.REHEARSING)


def test_a_pause_stops_the_query_and_a_resume_starts_it_under_the_same_fence() -> None:
    core = after(*LED)
    assert does(core, life.Controlled(Goal.PAUSE)) == ((A.STOP,), State.PAUSED)
    assert core.reported == "running"
    assert does(core, life.Controlled(Goal.RUN)) == ((A.START,), State.STARTING)


def test_a_drain_processes_what_has_arrived_brings_out_what_is_held_and_ends_with_the_last_commit() -> None:
    core = after(*LED)
    assert does(core, life.Controlled(Goal.DRAIN)) == ((A.STOP,), State.ARRIVING)
    assert does(core, life.InputEnded()) == ((A.FINISH,), State.FINISHING)
    assert does(core, life.Started()) == ((), State.FINISHING)
    assert does(core, life.RowsHeld()) == ((A.CLOSE_WINDOWS,), State.CLOSING)
    assert does(core, life.EndRead()) == ((A.STOP, A.PUBLISH_END), State.ENDED)
    core = after(*LED, life.Controlled(Goal.DRAIN), life.InputEnded())
    assert does(core, life.RunDone()) == ((A.COMMIT_LAST,), State.CLOSING)


def test_requests_made_before_the_fence_was_read_back_count_then() -> None:
    core = after(*LED[:2], life.Controlled(Goal.DRAIN))
    assert core.state is State.FENCING
    assert does(core, life.FenceRead()) == ((), State.ARRIVING)


def test_a_job_that_has_ended_is_not_computed_again() -> None:
    core = after(*LED[:2])
    assert does(core, life.EndRead()) == ((A.PUBLISH_END,), State.ENDED)


def test_a_query_that_fails_runs_again_ever_later_and_breaks_the_copy_after_three_failures_without_a_commit() -> None:
    core = after(*LED)
    assert does(core, life.RunFailed("a task failed", (4,)), 100.0) == ((A.STOP,), State.RETRYING)
    assert core.next_deadline == 100.0 + life.RETRY_MS
    assert does(core, life.Due()) == ((A.START,), State.STARTING)
    core.at(life.RunFailed("a task failed", (4,)), 200.0)
    assert core.next_deadline == 200.0 + 2 * life.RETRY_MS
    core.at(life.Due(), 0.0)
    assert does(core, life.RunFailed("a task failed", (4,))) == ((A.STOP,), State.FAILED)
    assert core.error == "a task failed"


def test_failures_with_a_commit_between_them_are_not_counted_together() -> None:
    core = after(*LED)
    for k in range(10):
        core.at(life.RunFailed("a task failed", (k,)), 0.0)
        core.at(life.Due(), 0.0)
    assert core.state is State.STARTING


def test_records_that_a_person_skips_make_the_copy_read_its_log_again() -> None:
    core = after(*LED, life.Broke("a commit that does not fit"))
    assert core.reported == "failed"
    assert does(core, life.Repaired()) == ((A.STOP, A.DEPLOY), State.DEPLOYING)
    assert core.error == ""


def test_heartbeats_say_nothing_that_recovery_does_not_know() -> None:
    assert {REPORTED[state] for state in State} == REPORTS


EVENTS = life.Event.__args__
ENGINES = {
    life.Deployed, life.Rehearsed, life.NothingRehearsed, life.Started, life.RunFailed, life.RunDone, life.RowsHeld,
}  # fmt: skip
READ = {life.FenceRead, life.EndRead, life.Superseded, life.NotAppended, life.Controlled, life.InputEnded}
OVER = {*ENGINES, *READ, life.Due}
CANNOT_COME: dict[State, set[type]] = {
    State.NEW: {*EVENTS} - {life.Placed},
    State.DEPLOYING: OVER - {life.Deployed},
    State.REHEARSING: OVER - {life.Rehearsed, life.NothingRehearsed},
    State.SUSPENDED: OVER - {life.Due},
    State.IDLE: OVER - {life.Due},
    State.REFRESHING: OVER - {life.Rehearsed, life.NothingRehearsed},
    State.FENCING: OVER - {life.FenceRead, life.EndRead, life.Superseded, life.NotAppended, life.Controlled},
    State.STARTING: OVER - {life.Started, life.RunFailed, life.Superseded, life.Controlled},
    State.RUNNING: OVER - {life.RunFailed, life.RunDone, life.RowsHeld, life.Superseded, life.Controlled},
    State.PAUSED: OVER - {life.Superseded, life.Controlled},
    State.RETRYING: OVER - {life.Due, life.Superseded, life.Controlled},
    State.ARRIVING: OVER - {life.InputEnded, life.Superseded, life.Controlled},
    State.FINISHING: OVER
    - {life.Started, life.RunFailed, life.RunDone, life.RowsHeld, life.Superseded, life.Controlled},
    State.CLOSING: OVER
    - (ENGINES - {life.Deployed, life.Rehearsed, life.NothingRehearsed})
    - {life.EndRead, life.NotAppended, life.Superseded, life.Controlled},
    State.ENDED: OVER,
    State.FENCED: OVER,
    State.FAILED: OVER,
    State.CLOSED: {*EVENTS},
}
"""The engine speaks of the task that was begun last alone; the logs are read for a fence by those that lead."""


def test_every_event_in_every_state_has_a_row_or_a_reason_to_be_ignored_or_cannot_come() -> None:
    goals = (None, *Goal)
    for state in State:
        for event in EVENTS:
            rows = [goal for goal in goals if (state, event, goal) in TRANSITIONS]
            whole = None in rows or set(rows) == set(Goal)
            ways = [whole, (state, event) in life.IGNORED, event in CANNOT_COME[state]]
            assert sum(ways) == 1, f"{state.value}, {event.__name__}: {rows}"


@pytest.mark.parametrize("state", State)
def test_an_impossible_event_raises_and_changes_nothing(state: State) -> None:
    flags = PRIMARY if state in LEADING else STANDBY
    for event in CANNOT_COME[state] & {life.Deployed, life.Due, life.FenceRead}:
        core = Lifecycle("u", state, epoch=1, flags=flags, error="?", leading=1, story=["u: what was before"])
        with pytest.raises(life.Unlisted, match="what was before"):
            core.handle(event())
        assert (core.state, core.epoch, core.flags) == (state, 1, flags)


def test_nobody_leads_without_commit_and_nobody_stands_by_with_it() -> None:
    assert not set(LEADING) & set(STANDING_BY)
    for (state, event, goal), (then, _) in TRANSITIONS.items():
        if goal is Goal.STAND_BY:
            assert then not in LEADING, (state, event)
