"""PROTOCOL 3: what a copy does about code that raises, from all that it knows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.schemas.cuts import Leading, Raised, RaisedRows, TaskRaised
from holdfast.schemas.decided import Id
from holdfast.services.worker.core.raise_steps import RaisingView, Step, next_step

OURS, THEIRS = Id("a", 1), Id("b", 2)
FOUND = {"checked-0": TaskRaised((RaisedRows(3, 4, 0),), ("no",))}
OTHERWISE = {"checked-0": TaskRaised((RaisedRows(5, 6, 0),), ("no",))}
LEADER = RaisingView(commits=True, announced=OURS, leading=Leading(1, OURS), opened=True)
HOLDS = replace(LEADER, held=9, found=FOUND)
STANDBY = RaisingView(commits=False, leading=Leading(1, THEIRS), held=9, found=FOUND)


def step(view: RaisingView) -> Step:
    return next_step(view)[0]


def test_a_new_leader_announces_itself_and_lets_nothing_out_before_it_reads_that() -> None:
    new = RaisingView(commits=True, holds=True, leading=Leading(0, THEIRS))
    assert step(new) is Step.ANNOUNCE
    asked = replace(new, announced=OURS)
    assert step(asked) is Step.WAIT
    read = replace(asked, leading=Leading(1, OURS))
    assert step(read) is Step.LET_OUT
    assert step(replace(read, holds=False)) is Step.WAIT


def test_a_copy_lets_nothing_out_behind_the_announcement_of_another() -> None:
    behind = replace(LEADER, leading=Leading(2, THEIRS))
    assert step(behind) is Step.HOLD
    assert step(replace(behind, holds=True)) is Step.WAIT
    assert step(replace(behind, holds=True, commits=False)) is Step.LET_OUT, "its flags say so now"


def test_a_copy_that_leads_again_announces_itself_again_though_it_heard_of_no_other() -> None:
    """It has read both assignments at once: its flags have not changed."""
    again = replace(LEADER, epoch=6, announced_epoch=4, leading=Leading(5, THEIRS))
    assert step(again) is Step.ANNOUNCE
    assert step(replace(again, epoch=5, holds=True)) is Step.WAIT, "that one leads"
    assert step(replace(again, announced_epoch=6, holds=True)) is Step.WAIT, "it has, and has not read it back"


def test_only_a_leader_that_has_read_its_announcement_and_has_its_outputs_proposes() -> None:
    assert step(HOLDS) is Step.PROPOSE
    assert step(replace(HOLDS, proposed=True)) is Step.WAIT
    assert step(replace(HOLDS, opened=False)) is Step.WAIT
    assert step(replace(HOLDS, holds=True, leading=None)) is Step.WAIT
    assert step(STANDBY) is Step.WAIT


@pytest.mark.parametrize("view", [HOLDS, STANDBY, replace(HOLDS, proposed=True)])
def test_the_outcome_of_a_batch_in_the_log_counts(view: RaisingView) -> None:
    assert step(replace(view, record=Raised("checked-0", 9, OURS, FOUND))) is Step.CONTINUE
    assert step(replace(view, record=Raised("checked-0", 9, THEIRS, OTHERWISE))) is Step.REBUILD


@pytest.mark.parametrize("view", [HOLDS, STANDBY])
def test_a_batch_that_the_unit_has_left_behind_is_done_from_its_checkpoint(view: RaisingView) -> None:
    assert step(replace(view, marker=8)) is not Step.REBUILD
    assert step(replace(view, marker=9)) is Step.REBUILD
    assert step(replace(view, processes=False)) is Step.REBUILD, "the state holds half of it"


def test_code_that_raises_where_another_copy_s_did_not_ends_the_copy() -> None:
    assert step(replace(HOLDS, leading=Leading(1, OURS, batch=10))) is Step.DIVERGE
    assert step(replace(HOLDS, out=9)) is Step.DIVERGE, "its rows are with the user, or in a reader's checkpoint"
    assert step(replace(HOLDS, out=8)) is Step.PROPOSE


def test_a_batch_that_was_done_too_early_is_done_again_unless_its_frames_have_left() -> None:
    late = RaisingView(commits=False, missed=9)
    assert step(replace(late, sent=8)) is Step.REBUILD
    assert step(replace(late, sent=9)) is Step.DIVERGE
    assert step(replace(late, sent=9, strict=False)) is Step.REBUILD, "on_divergence: continue: the first counts"


def test_a_checkpoint_that_the_cut_log_contradicts_ends_the_copy() -> None:
    assert next_step(replace(LEADER, wrong="the checkpoint at batch 9 ...")) == (
        Step.DIVERGE,
        "the checkpoint at batch 9 ...",
    )


def test_a_copy_of_which_nothing_is_asked_waits() -> None:
    assert step(RaisingView(commits=False)) is Step.WAIT
    assert step(LEADER) is Step.WAIT
