"""The life of one copy: every row of its table, told as stories."""

from __future__ import annotations

import pytest

from holdfast.schemas.assignments import PRIMARY, Flags
from holdfast.services.worker.core import lifecycle as life
from holdfast.services.worker.core.lifecycle import TRANSITIONS, Action, Lifecycle, State

A = Action
HOT = Flags(state="synced", process=False, send=False, commit=False, checkpoint_target=True)
STANDBY = Flags(send=False, commit=False)
EMPTY = Flags(state="virgin", receive=False, process=False, send=False, commit=False)
UP = (life.Placed(1, PRIMARY), life.Deployed(), life.Restored(7), life.Opened())


def after(*events: life.Event) -> Lifecycle:
    core = Lifecycle("job@1-abcdef/count-0")
    for event in events:
        core.handle(event)
    return core


def test_a_placed_copy_deploys_restores_reads_and_delivers_once_it_has_fenced() -> None:
    core = Lifecycle("u")
    assert core.handle(life.Placed(1, PRIMARY)) == (A.DEPLOY,)
    assert core.handle(life.Deployed()) == (A.RESTORE,)
    assert core.handle(life.Restored(7)) == (A.OPEN_INPUTS, A.OUTPUTS, A.REPORT)
    assert core.handle(life.Opened()) == (A.DELIVER,)


def test_a_copy_that_sleeps_is_deployed_and_restored_and_wakes_without_either() -> None:
    core = Lifecycle("u")
    core.handle(life.Placed(1, HOT))
    assert core.handle(life.Deployed()) == (A.RESTORE,)
    assert core.handle(life.Restored(7)) == (A.OPEN_INPUTS, A.OUTPUTS, A.REPORT)
    assert core.handle(life.Placed(2, PRIMARY)) == (A.FLAG, A.OUTPUTS, A.REPORT)
    assert core.handle(life.Placed(3, HOT)) == (A.FLAG, A.OUTPUTS, A.REPORT)
    assert core.state is State.SUSPENDED


def test_a_copy_without_state_has_its_operators_loaded_and_no_more() -> None:
    core = Lifecycle("u")
    core.handle(life.Placed(1, EMPTY))
    assert core.handle(life.Deployed()) == (A.REPORT,)
    assert core.state is State.DEPLOYED
    assert core.handle(life.Placed(2, PRIMARY)) == (A.RESTORE,)


def test_a_fenced_copy_reads_the_decisions_before_it_starts_again() -> None:
    core = after(*UP)
    assert core.handle(life.OutputFenced()) == (A.READ_DECISIONS, A.REPORT)
    assert core.state is State.FENCED
    assert core.handle(life.StillCommits()) == (A.CLOSE_INPUTS, A.CLOSE_OUTPUTS, A.DROP_IMAGE, A.RESTORE)


def test_a_fenced_copy_that_no_longer_commits_continues_with_what_it_has() -> None:
    core = after(*UP, life.OutputFenced(), life.Placed(2, STANDBY))
    assert core.handle(life.CommitsNoMore()) == (A.FLAG, A.OUTPUTS, A.REPORT)
    assert core.state is State.RUNNING


def test_a_fenced_copy_that_lost_its_place_never_starts_again() -> None:
    core = after(*UP, life.OutputFenced(), life.Unplaced())
    assert core.state is State.CLOSED
    assert core.handle(life.StillCommits()) == ()


@pytest.mark.parametrize("answer", [life.StillCommits(), life.CommitsNoMore()])
def test_a_leader_that_lost_track_of_its_inputs_reads_who_leads_before_it_rebuilds(answer: life.Event) -> None:
    core = after(*UP)
    lost = (A.CLOSE_INPUTS, A.CLOSE_OUTPUTS, A.DROP_IMAGE, A.READ_DECISIONS, A.REPORT)
    assert core.handle(life.InputBroken("a gap")) == lost
    assert core.handle(answer) == (A.RESTORE,)
    assert core.state is State.RESTORING


def test_a_standby_that_lost_track_of_its_inputs_rebuilds_from_the_log() -> None:
    core = after(*UP, life.Placed(2, HOT))
    assert core.handle(life.InputBroken("a gap")) == (A.CLOSE_INPUTS, A.CLOSE_OUTPUTS, A.DROP_IMAGE, A.RESTORE)
    assert core.state is State.RESTORING


@pytest.mark.parametrize("answer", [life.StillCommits(), life.CommitsNoMore()])
def test_a_fenced_copy_whose_inputs_are_gone_rebuilds_once_it_knows_whether_it_commits(answer: life.Event) -> None:
    """The reader says it once: a copy that passed over it followed no checkpoint any more, and never ended."""
    core = after(*UP, life.OutputFenced())
    assert core.handle(life.InputBroken("trimmed")) == (A.CLOSE_INPUTS, A.CLOSE_OUTPUTS, A.DROP_IMAGE)
    assert core.handle(life.InputBroken("another one")) == ()
    assert core.handle(answer) == (A.RESTORE,)
    assert core.state is State.RESTORING


def test_a_copy_whose_commit_was_not_answered_opens_its_outputs_again_and_continues() -> None:
    """Its state is right, whatever Kafka made of the rows; to rebuild it took seconds while leaders moved."""
    core = after(*UP)
    assert core.handle(life.OutputIndefinite()) == (A.KEEP_ROWS, A.CLOSE_OUTPUTS, A.OUTPUTS)
    assert core.handle(life.OutputIndefinite()) == (A.KEEP_ROWS, A.CLOSE_OUTPUTS, A.OUTPUTS)
    assert core.handle(life.Opened()) == (A.DELIVER,)
    assert core.state is State.RUNNING


@pytest.mark.parametrize("events", [UP[:n] for n in range(1, 5)])
def test_an_error_that_no_rebuild_mends_stops_the_copy_with_its_cause(events: tuple[life.Event, ...]) -> None:
    core = after(*events, life.Broke("division of a string"))
    assert core.state is State.FAILED
    assert core.error == "division of a string"
    assert core.handle(life.Deployed()) == ()


@pytest.mark.parametrize("events", [UP[:n] for n in range(1, 5)])
def test_an_unexpected_error_stops_the_copy_until_it_is_placed_once_more(events: tuple[life.Event, ...]) -> None:
    core = after(*events)
    assert core.handle(life.Faulted("KeyError: 7", 3)) == (A.CLOSE_INPUTS, A.CLOSE_OUTPUTS, A.DROP_IMAGE, A.REPORT)
    assert (core.state, core.error, core.reached) == (State.FAULTED, "KeyError: 7", 3)
    for late in (life.Deployed(), life.Restored(1), life.OutputFenced(), life.Broke("late"), life.Faulted("again", 4)):
        assert core.handle(late) == ()
    assert core.handle(life.Placed(2, PRIMARY)) == (A.DEPLOY,)
    assert core.state is State.DEPLOYING


def test_an_event_that_comes_too_late_changes_nothing() -> None:
    core = after(*UP, life.Finished())
    assert core.state is State.ENDED
    for event in (life.Restored(1), life.OutputFenced(), life.Broke("late"), life.Placed(2, PRIMARY)):
        assert core.handle(event) == ()
    assert core.epoch == 2
    assert core.handle(life.Unplaced())[0] is A.CLOSE_INPUTS


def test_every_transition_leads_to_a_state_that_reports_itself() -> None:
    for (state, event, _), (next_state, actions) in TRANSITIONS.items():
        assert isinstance(state, State)
        assert isinstance(next_state, State)
        assert all(isinstance(action, Action) for action in actions), (state, event)


EVENTS = life.Event.__args__
FINAL = (State.ENDED, State.FAULTED, State.FAILED, State.CLOSED)
OUTPUTS = (life.Opened, life.OutputFenced, life.OutputIndefinite)
ANSWERS = (life.StillCommits, life.CommitsNoMore)
CANNOT_COME = {
    State.NEW: {*EVENTS} - {life.Placed},
    State.DEPLOYING: {life.Restored, life.Finished, *OUTPUTS, *ANSWERS},
    State.DEPLOYED: {life.Deployed, life.Restored, life.Finished, *OUTPUTS, *ANSWERS},
    State.RESTORING: {life.Deployed, *OUTPUTS, *ANSWERS},
    State.SUSPENDED: {life.Deployed, life.Restored, *OUTPUTS, *ANSWERS},
    State.RUNNING: {life.Deployed, life.Restored, *ANSWERS},
    State.FENCED: {life.Deployed, life.Restored, life.Opened, life.Finished},
    State.FENCED_LOST: {life.Deployed, life.Restored, life.Finished, *OUTPUTS},
    State.ENDED: set(),
    State.FAULTED: set(),
    State.FAILED: set(),
    State.CLOSED: {life.Placed, life.Unplaced},
}
"""An answer comes once to whoever asked, and to nobody who has closed what it asked with."""

ONE_OF_EACH: dict[type, life.Event] = {
    type(event): event
    for event in (
        life.Placed(2, PRIMARY), life.Unplaced(), life.Deployed(), life.Restored(1), life.Opened(), life.Finished(),
        life.OutputFenced(), life.OutputIndefinite(), life.InputBroken("a gap"), life.StillCommits(),
        life.CommitsNoMore(), life.Broke("a cause"), life.Faulted("a cause", 3),
    )
}  # fmt: skip


def test_every_event_in_every_state_has_a_row_or_a_reason_to_be_ignored_or_cannot_come() -> None:
    goals = (None, *life.Goal)
    for state in State:
        for event in EVENTS:
            rows = [goal for goal in goals if (state, event, goal) in TRANSITIONS]
            whole = None in rows or set(rows) == set(life.Goal)
            ways = [whole, (state, event) in life.IGNORED, event in CANNOT_COME[state]]
            assert sum(ways) == 1, f"{state.value}, {event.__name__}: {rows}"


@pytest.mark.parametrize("state", State)
def test_an_impossible_event_raises_with_the_story_and_changes_nothing(state: State) -> None:
    for event in CANNOT_COME[state]:
        core = Lifecycle("u", state, epoch=1, flags=HOT, error="?", story=["u: what was before"])
        with pytest.raises(life.Unlisted, match="what was before"):
            core.handle(ONE_OF_EACH[event])
        assert (core.state, core.epoch, core.flags) == (state, 1, HOT)


def test_operators_that_could_not_be_loaded_for_now_are_loaded_again() -> None:
    core = after(life.Placed(1, PRIMARY))
    assert core.handle(life.InputBroken("Kafka was away")) == (A.DEPLOY,)
    assert core.state is State.DEPLOYING
