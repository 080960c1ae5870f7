"""Every deliberate bug of the protocol is caught: a checker that no bug can trip is not a checker."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from tests.simulation import catching as catching_module
from tests.simulation.catching import ANY, EACH_RUN, WITH_LONG, Budget, catching, found_by_tests, promising
from tests.simulation.mutants.catalogue import EQUIVALENT, MUTANTS, Mutant
from tests.simulation.report.history import simulate
from tests.simulation.scenario import draw
from tests.support.examples import all_examples

SHORTEST_OF = {mutant.checker: mutant for mutant in sorted(MUTANTS, key=lambda one: one.run_ms, reverse=True)}
"""By checker, the bug that proves it in each run: one whose history is short. The others do so with --long."""


@pytest.mark.drawn
@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(one, id=one.name, marks=() if SHORTEST_OF[one.checker] == one else pytest.mark.long)
        for one in MUTANTS
    ],
)
def test_the_checker_that_a_bug_names_is_the_first_to_catch_it(mutant: Mutant, pytestconfig: pytest.Config) -> None:
    """In one of several histories: a change of the product changes what follows from a seed, and the coincidence that
    a bug needs may be gone from the recorded one. One history is proof that the checker sees the bug. Where the search
    of each run finds none, nothing is known of the checker, and the test is skipped: with --long it fails.
    """
    place, cache = f"mutants/{mutant.name}", getattr(pytestconfig, "cache", None)
    remembered = cache.get(place, None) if cache is not None else None
    last = None if remembered is None else (int(remembered[0]), int(remembered[1]))
    found = catching(mutant, last, WITH_LONG if all_examples() else EACH_RUN)
    if found is None and not all_examples():
        pytest.skip(
            f"its history has moved: `python -m tests.simulation.catching {mutant.name} --record` looks further"
        )
    assert found is not None, f"`python -m tests.simulation.catching {mutant.name} --checker any` tells what else does"
    if (found.seed, found.run_ms) != (mutant.seed, mutant.run_ms):
        warnings.warn(f"searched for: `python -m tests.simulation.catching {mutant.name} --record`", stacklevel=1)
        if cache is not None:
            cache.set(place, [found.seed, found.run_ms])


@pytest.mark.parametrize("budget", [EACH_RUN, WITH_LONG])
def test_a_search_has_a_budget_begins_where_it_ended_last_and_ends_with_many_other_seeds(budget: Budget) -> None:
    for mutant in MUTANTS:
        tried = list(promising(mutant, (7, 1_234), budget))
        assert [(one.seed, one.run_ms) for one in tried[:2]] == [(7, 1_234), (mutant.seed, mutant.run_ms)]
        assert budget.wider_ms < sum(one.run_ms for one in tried) <= sum(budget)
        assert len({(one.seed, one.run_ms) for one in tried}) == len(tried) >= budget.wider_ms // mutant.run_ms
        assert {(one.bug, one.checker, one.profile) for one in tried} == {(mutant.bug, mutant.checker, mutant.profile)}


SHOWN = sorted({(mutant.profile, mutant.run_ms, mutant.seed) for mutant in MUTANTS})
SHORTEST = {profile: (profile, run_ms, seed) for profile, run_ms, seed in reversed(SHOWN)}


@pytest.mark.parametrize(
    ("profile", "run_ms", "seed"),
    [pytest.param(*one, marks=() if SHORTEST[one[0]] == one else pytest.mark.long) for one in SHOWN],
)
def test_nothing_is_wrong_without_the_mutant(profile: str, run_ms: int, seed: int) -> None:
    assert not simulate(draw(seed, run_ms, profile)).wrong


def test_every_bug_has_one_place() -> None:
    listed = [*(mutant.bug for mutant in MUTANTS), *EQUIVALENT]
    assert len(listed) == len(set(listed))
    assert not [mutant.name for mutant in MUTANTS if mutant.checker == ANY]


def test_histories_that_tests_have_found_are_recorded_without_a_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = MUTANTS[:2]
    (tmp_path / first.name).write_text(f"[{first.seed + 1}, {first.run_ms}]")
    (tmp_path / second.name).write_text(f"[{second.seed}, {second.run_ms}]")
    monkeypatch.setattr(catching_module, "CACHE", tmp_path)
    assert list(found_by_tests()) == [first._replace(seed=first.seed + 1)]
