"""Which global checkpoint is the newest of a job, and which change rolls a unit back, whatever anybody appends."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.schemas.assignments import PRIMARY, Assignment, Change, CheckpointPolicy, Copy, GlobalCheckpoint, job_key
from holdfast.schemas.retired import Retired
from holdfast.services.decisions.assigned import Assigned

G = "4-abcdef"
JOB, U, V = job_key("job", G), f"job@{G}/u-0", f"job@{G}/v-0"
COPIES = (Copy("w1", "1", PRIMARY),)
ALIGNED = CheckpointPolicy("job", G, 7, "aligned", 500, 100, 10_000, 5, since=7)


def complete(batch: int, since: int = 4, line: int = 0) -> GlobalCheckpoint:
    return GlobalCheckpoint("job", G, batch, since, line)


def placed(epoch: int, line: int = 0, back: int = 0, unit: str = U) -> Change:
    return Change(unit, epoch, COPIES, line=line, back=back)


def folded(*records: Change | CheckpointPolicy | GlobalCheckpoint | Retired) -> Assigned:
    assigned = Assigned()
    for one in records:
        assigned.read(
            Assignment(
                "a", 0,
                (one,) if isinstance(one, Change) else (),
                policies=(one,) if isinstance(one, CheckpointPolicy) else (),
                checkpoints=(one,) if isinstance(one, GlobalCheckpoint) else (),
                retired=one if isinstance(one, Retired) else None,
            )
        )  # fmt: skip
    return assigned


def test_a_job_begins_with_its_start_and_goes_from_one_global_checkpoint_to_a_newer_one() -> None:
    assert folded().complete(JOB) == 0
    assert folded(complete(10), complete(30), complete(20)).complete(JOB) == 30


def test_another_policy_makes_what_was_complete_void_and_so_does_an_old_record_that_comes_again() -> None:
    assert folded(complete(10), ALIGNED).complete(JOB) == -1
    assert folded(complete(10), ALIGNED, complete(10)).complete(JOB) == -1
    assert folded(complete(10), ALIGNED, complete(15, since=7)).complete(JOB) == 15


def test_a_refused_command_leaves_what_is_complete() -> None:
    refused = replace(ALIGNED, asked=9, refusal="no")
    assert folded(ALIGNED, complete(15, since=7), refused, complete(20, since=7)).complete(JOB) == 20


def test_nothing_of_a_retired_generation_is_known() -> None:
    gone = folded(complete(10), placed(1), placed(2, 1, 10), replace(placed(3, 1, 10), copies=()), Retired(5))
    assert (gone.complete(JOB), gone.line(JOB)) == (0, 0)
    assert folded(Retired(5), complete(10)).complete(JOB) == 0


def test_a_unit_goes_back_to_the_newest_global_checkpoint_and_to_no_other_place() -> None:
    for back in (0, 9, 11, 20):
        assert folded(placed(1), complete(10), placed(2, 1, back)).line(JOB) == 0
    assert folded(placed(1), complete(10), placed(2, 1, 10)).line(JOB) == 1
    assert folded(placed(1), placed(2, 1, 0)).line(JOB) == 1
    assert folded(placed(1), ALIGNED, placed(2, 1, 0)).line(JOB) == 0


def test_a_unit_stays_on_its_line_until_it_goes_back_again() -> None:
    first = (placed(1), complete(10), placed(2, 1, 10))
    assert folded(*first, placed(3, 1, 10)).epoch(U) == 3
    for wrong in (placed(3), placed(3, 1, 0), placed(3, 1, 20), placed(3, 3, 10)):
        assert folded(*first, wrong).epoch(U) == 2
    assert folded(*first, placed(3, 2, 10)).line(JOB) == 2


@pytest.mark.parametrize(("line", "joins"), [(1, True), (2, True), (3, False)])
def test_units_that_go_back_together_are_on_one_line(line: int, joins: bool) -> None:
    assigned = folded(placed(1), placed(1, unit=V), complete(10), placed(2, 1, 10), placed(2, line, 10, unit=V))
    assert (assigned.epoch(V) == 2) is joins


def test_checkpoints_of_an_older_line_count_no_more_once_a_unit_has_gone_back() -> None:
    """Its author had looked at markers that the rollback has made void."""
    back = (placed(1), complete(10), placed(2, 1, 10))
    assert folded(*back, complete(20)).complete(JOB) == 10
    assert folded(*back, complete(20, line=1)).complete(JOB) == 20


def test_a_fold_that_begins_with_the_units_and_checkpoints_of_another_one_is_the_same() -> None:
    assigned = folded(placed(1), complete(10), placed(2, 1, 10))
    begun = Assigned(assigned.units().values(), checkpoints=[complete(10)])
    assert (begun.complete(JOB), begun.line(JOB)) == (10, 1)
