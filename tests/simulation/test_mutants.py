"""Every deliberate bug of the protocol is caught: a checker that no bug can trip is not a checker."""

from __future__ import annotations

import pytest

from tests.simulation.catching import RICH, catching
from tests.simulation.history import simulate
from tests.simulation.mutants import MUTANTS, RUN_MS, Bug
from tests.simulation.scenario import draw


@pytest.mark.parametrize(("bug", "seed"), MUTANTS, ids=[bug.__name__ for bug, _ in MUTANTS])
def test_the_simulation_catches(bug: Bug, seed: int) -> None:
    assert catching(bug, (seed, *RICH)) is not None


@pytest.mark.parametrize("seed", sorted({seed for _, seed in MUTANTS}))
def test_and_nothing_is_wrong_without_it(seed: int) -> None:
    assert not simulate(draw(seed, RUN_MS)).wrong
