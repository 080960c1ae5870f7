"""Every deliberate bug of the protocol is caught: a checker that no bug can trip is not a checker."""

from __future__ import annotations

import pytest

from tests.simulation.catching import catching
from tests.simulation.history import simulate
from tests.simulation.mutants import DIRECTED, EQUIVALENT, MUTANTS, RUN_MS, Bug
from tests.simulation.scenario import draw


@pytest.mark.parametrize(("bug", "seed"), MUTANTS, ids=[bug.__name__ for bug, _ in MUTANTS])
def test_the_simulation_catches(bug: Bug, seed: int) -> None:
    assert catching(bug, seed) is not None


@pytest.mark.parametrize(("bug", "seed", "profile"), DIRECTED, ids=[bug.__name__ for bug, _, _ in DIRECTED])
def test_a_directed_history_catches(bug: Bug, seed: int, profile: str) -> None:
    assert catching(bug, seed, profile) is not None


@pytest.mark.parametrize(("seed", "profile"), sorted({(seed, profile) for _, seed, profile in DIRECTED}))
def test_and_nothing_is_wrong_there_without_it(seed: int, profile: str) -> None:
    assert not simulate(draw(seed, RUN_MS, profile)).wrong


def test_every_bug_has_one_place() -> None:
    listed = [*(bug for bug, _ in MUTANTS), *(bug for bug, _, _ in DIRECTED), *EQUIVALENT]
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize("seed", sorted({seed for _, seed in MUTANTS}))
def test_and_nothing_is_wrong_without_it(seed: int) -> None:
    assert not simulate(draw(seed, RUN_MS)).wrong
