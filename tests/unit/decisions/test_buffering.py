"""When only the sources of a job retain what was sent (MECHANISMS R2): a function of what `assignments` says."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.schemas.assignments import PRIMARY, Assignment, Change, CheckpointPolicy, Copy, GlobalCheckpoint
from holdfast.schemas.incidents import Incident
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.decisions.buffering import only_sources_retain, rolls_back
from tests.unit.recovery.world import UNIT, G, plan


def change(line: int = 0, back: int = 0, epoch: int = 1) -> Assignment:
    return Assignment("r", 0, (Change(UNIT, epoch, (Copy("w1", "i", PRIMARY),), line=line, back=back),))


def complete(batch: int, line: int = 0) -> Assignment:
    return Assignment("c", 0, (), checkpoints=(GlobalCheckpoint("job", G, batch, 3, line),))


def incident(number: int = 1, complete: int = -1, over: bool = False) -> Assignment:
    return Assignment("r", 0, (), incidents=(Incident("job", G, number, ("w1",), complete=complete, over=over),))


def policy(name: str) -> Assignment:
    return Assignment("c", 0, (), policies=(CheckpointPolicy("job", G, 9, name, 500, 0, 1_000, 10, 9),))


@pytest.mark.parametrize(
    ("records", "holds"),
    [
        ([change()], True),
        ([change(), complete(10)], True),
        ([change(), complete(10), change(1, 10, 2)], False),
        ([change(), complete(10), change(1, 10, 2), complete(20, 1)], True),
        ([change(), complete(10), incident(1, 10)], False),
        ([change(), complete(10), incident(1, 10), complete(20)], False),
        ([change(), complete(10), incident(1, 10), incident(2, 10, over=True)], False),
        ([change(), complete(10), incident(1, 10), incident(2, 10, over=True), complete(20)], True),
        ([change(), complete(10), policy("sweep")], False),
        ([change(), complete(10), policy("aligned")], False),
    ],
)
def test_only_sources_retain_until_a_failure_that_the_newest_global_checkpoint_does_not_know(
    records: list[Assignment], holds: bool
) -> None:
    assigned = Assigned()
    for one in records:
        assigned.read(one)
    aligned: dict[str, Any] = {"checkpoint": {"policy": "aligned"}}
    for buffering in ("source", "adaptive"):
        assert only_sources_retain(plan({"u-0": "none"}, buffering=buffering, **aligned), assigned) == holds
        assert not only_sources_retain(plan({"u-0": "none"}, buffering=buffering), Assigned()), "under another policy"
    assert not only_sources_retain(plan({"u-0": "none"}, **aligned), assigned), "upstream units retain, too"


def test_a_unit_that_fails_goes_back_once_there_is_a_global_checkpoint() -> None:
    made = plan({"u-0": "none"}, buffering="source", checkpoint={"policy": "aligned"})
    assigned = Assigned()
    assert rolls_back(made, assigned), "the start of the job is one"
    assigned.read(policy("aligned"))
    assert not rolls_back(made, assigned), "and is none after another policy"


def test_the_beginning_of_a_line_is_known_by_the_epoch_also_behind_a_snapshot() -> None:
    assigned = Assigned()
    for one in (change(), complete(10), change(1, 10, 2), change(1, 10, 3)):
        assigned.read(one)
    assert assigned.begun(UNIT) == 2
    assert Assigned(assigned.units().values()).begun(UNIT) == 3, "or a later one"
