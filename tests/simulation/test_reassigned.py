"""Bugs of plans that histories seldom give the occasion for: a flooded worker needs many standbys of others."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import pytest

from holdfast.services.kernel.protection.reassigning import HALF, Backed
from tests.simulation.mutants.bug import Bug
from tests.simulation.mutants.standbys import all_of_a_difference_moves, flooded_worker_not_relieved
from tests.simulation.observers.reassigned import Planned

WORKERS = ("s1", "s2", "s3", "s4")
FLOODED = [
    Backed("a", "s2", "s1", 90.0, 1.0),
    *(Backed(f"b{number}", "s4", "s2", 4.0, 1.0) for number in range(4)),
    Backed("c", "s3", "s2", 4.0, 1.0),
    Backed("d", "s1", "s3", 2.0, 1.0),
]
"""s2 takes longest, and half of its only unit is none: s4 can move its standbys away from there."""


@pytest.mark.parametrize(
    ("bug", "wrong"), [(None, ""), (flooded_worker_not_relieved, "flooded"), (all_of_a_difference_moves, "amount")]
)
def test_a_plan_moves_half_of_the_difference_and_relieves_a_flooded_worker(bug: Bug | None, wrong: str) -> None:
    buggy: AbstractContextManager[object] = nullcontext() if bug is None else bug()
    planned = Planned(HALF, least_ms=0.0)
    with buggy:
        planned.look(2, 1, lambda upkeep: (FLOODED, WORKERS))
    assert [one.partition(":")[0] for one in planned.wrong] == ([wrong] if wrong else [])
