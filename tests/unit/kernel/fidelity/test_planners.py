"""Replication plans: golden values, the exact one against every plan there is, and how near the others come."""

from __future__ import annotations

from statistics import fmean
from time import process_time

import pytest

from bench.model.topologies import FULL, MIXED, STRUCTURED, Setting, chain, join, random_topology, sixteen, units
from holdfast.services.kernel.fidelity.planners.exact import exact
from holdfast.services.kernel.fidelity.planners.greedy import greedy
from holdfast.services.kernel.fidelity.planners.plan import Grown, value
from holdfast.services.kernel.fidelity.planners.structured import structure_aware
from holdfast.services.kernel.fidelity.topology import Feed, Node, Substream, Topology, topology
from holdfast.services.kernel.fidelity.trees import TooMany, mc_trees
from tests.support.printed_planner import Ranking, Seeding, printed
from tests.support.topologies import every_plan


def _exact(one: Topology, *budgets: int) -> list[float]:
    best = exact(one, max(budgets))
    return [best[budget].fidelity for budget in budgets]


def test_the_best_plans_of_the_paper() -> None:
    assert _exact(join(correlated=False), 3, 4, 5, 6, 7) == pytest.approx([0.3, 0.6, 0.8, 0.9, 1])
    assert _exact(join(correlated=True), 4, 5, 6, 7) == pytest.approx([0.1875, 0.375, 0.75, 1])
    assert _exact(chain(), 3, 4, 5, 6, 7) == pytest.approx([0.4, 0.7, 0.7, 0.9, 1])


def test_greedy_takes_what_is_no_tree() -> None:
    assert greedy(join(correlated=True), 4).fidelity == 0
    found = [greedy(sixteen(), budget).fidelity for budget in (5, 9, 15, 16, 20, 24, 31)]
    assert found == pytest.approx([0, 0, 0, 0.0625, 0.3125, 0.5625, 1])


def test_the_structure_aware_plan_of_sixteen_sources() -> None:
    trees = mc_trees(sixteen())
    assert (len(trees), {len(tree) for tree in trees}) == (16, {5})
    budgets = (5, 9, 15, 16, 20, 24, 31)
    expected = pytest.approx([0.0625, 0.25, 0.4375, 0.5, 0.5625, 0.75, 1])
    assert [structure_aware(sixteen(), budget).fidelity for budget in budgets] == expected
    assert [printed(sixteen(), budget).fidelity for budget in budgets] == expected


@pytest.mark.parametrize("one", [join(False), join(True), chain()])
def test_the_structure_aware_plans_of_the_papers_small_cases_are_the_best_ones(one: Topology) -> None:
    best = exact(one, len(one.units))
    for budget, plan in enumerate(best):
        assert structure_aware(one, budget).fidelity == pytest.approx(plan.fidelity)


@pytest.mark.slow
def test_the_exact_plan_is_the_best_of_all_plans_in_500_random_cases() -> None:
    for seed in range(500):
        one = random_topology(seed, Setting((2, 4), (1, 3), 0.6, (FULL, STRUCTURED, MIXED)[seed % 3], 0.5, most=9))
        values, sizes = every_plan(one)
        for budget, plan in enumerate(exact(one, len(one.units))):
            assert plan.fidelity == pytest.approx(values[sizes <= budget].max()), (seed, budget)
            assert len(plan.units) <= budget
            assert value(one, plan.units) == pytest.approx(plan.fidelity)


@pytest.mark.slow
def test_structure_aware_plans_come_near_the_best_ones() -> None:
    """100 topologies of up to 30 tasks of which the best plans can be found; the mean over their budgets."""
    ratios: list[float] = []
    seed = 0
    while len(ratios) < 100:
        kind = (FULL, STRUCTURED, MIXED)[seed % 3]
        one = random_topology(seed, Setting((3, 8), (1, 6), 0.5, kind, 0.5, most=30))
        seed += 1
        try:
            best = exact(one, len(one.units) // 2, most=200_000)
        except TooMany:
            continue
        of = [
            structure_aware(one, budget).fidelity / plan.fidelity for budget, plan in enumerate(best) if plan.fidelity
        ]
        if of:
            assert max(of) <= 1 + 1e-9
            ratios.append(fmean(of))
    print(f"SA over DP: mean {fmean(ratios):.3f}, least {min(ratios):.3f}, {seed} topologies drawn")
    assert fmean(ratios) >= 0.95


@pytest.mark.parametrize("planner", [greedy, structure_aware, printed])
def test_no_plan_is_over_its_budget_and_each_step_says_its_fidelity(planner) -> None:  # type: ignore[no-untyped-def]
    for seed in range(30):
        one = random_topology(seed, Setting((2, 6), (1, 4), 0.5, MIXED, 0.5))
        for budget in (0, 1, 3, len(one.units) // 2, len(one.units)):
            grown: Grown = planner(one, budget)
            assert len(grown.units) == len(set(grown.units)) <= budget
            assert grown.fidelity == pytest.approx(value(one, grown.units))
            taken: list[int] = []
            for step in grown.steps:
                taken += step.units
                assert step.fidelity == pytest.approx(value(one, taken))
        if planner is structure_aware:
            assert grown.fidelity == pytest.approx(1)


def _union_of_two() -> Topology:
    """Two sources of which either alone feeds the union, so that a tree is smaller than the number of operators."""
    feeds = (Feed("a", rates=(1, 1)), Feed("b", rates=(2, 2)))
    return topology(
        [
            Node("a", units("a", 2), (1, 1)),
            Node("b", units("b", 2), (2, 2)),
            Node("u", units("u", 2), (3, 3), feeds),
            Node("k", units("k", 2), (3, 3), (Feed("u", rates=(3, 3)),), query="q"),
        ]
    )


def test_the_printed_seeding_gets_nothing_where_a_tree_is_smaller_than_one_task_of_each_operator() -> None:
    one = _union_of_two()
    assert printed(one, 3).fidelity == 0
    assert printed(one, 3, Seeding.TREE).fidelity == pytest.approx(_exact(one, 3)[0])
    assert _exact(one, 3)[0] > 0


def test_the_better_seeding_and_the_marginal_ranking_are_better_on_the_whole() -> None:
    found: dict[tuple[Seeding, Ranking], list[float]] = {}
    for seed in range(20):
        one = random_topology(seed, Setting((3, 5), (1, 4), 0.5, FULL, 0.0, most=14))
        for budget, plan in enumerate(exact(one, len(one.units) // 2)):
            if plan.fidelity:
                for how in [(seeding, ranking) for seeding in Seeding for ranking in Ranking]:
                    found.setdefault(how, []).append(printed(one, budget, *how).fidelity / plan.fidelity)
    means = {how: fmean(some) for how, some in found.items()}
    assert means[Seeding.TREE, Ranking.MARGINAL] > 0.9 > means[Seeding.PRINTED, Ranking.STATIC]
    assert means[Seeding.TREE, Ranking.MARGINAL] >= means[Seeding.TREE, Ranking.STATIC] - 1e-9


def test_units_that_are_there_anyway_cost_nothing_and_barred_ones_are_never_planned() -> None:
    nodes = [
        Node("s", units("s", 2), (3, 1)),
        Node("k", units("k", 1), (4,), (Feed("s", (Substream(0, 0, 3), Substream(1, 0, 1))),), query="q"),
    ]
    given = topology(nodes, fixed=["k-0"], barred=["s-0"])
    for plan in (structure_aware(given, 3), greedy(given, 3), exact(given, 3)[3], printed(given, 3)):
        assert [given.units[unit] for unit in plan.units] == ["s-1"]
        assert plan.fidelity == pytest.approx(0.25)


def test_a_search_that_is_too_large_says_so() -> None:
    with pytest.raises(TooMany, match="units, more than"):
        exact(random_topology(1, Setting((8, 8), (10, 12))), 5)
    with pytest.raises(TooMany, match="ways to grow"):
        exact(random_topology(1, Setting((3, 3), (6, 6), partitioning=FULL)), 9, most=1_000)
    with pytest.raises(TooMany, match="trees, more than"):
        mc_trees(sixteen(), most=10)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "joins"), [(MIXED, 0.5), (STRUCTURED, 0.0), (FULL, 1.0)])
def test_planning_a_thousand_units_takes_less_than_two_seconds_and_is_no_worse_than_greedy(
    kind: str, joins: float
) -> None:
    """With nine joins in a row a whole tree of a thousand tasks brings less than one part in 10 ** 15."""
    one = random_topology(1, Setting((10, 10), (60, 140), 0.5, kind, joins))
    for budget in (len(one.units) // 5, len(one.units) // 2):
        before_s = process_time()
        planned = structure_aware(one, budget)
        assert process_time() - before_s < 2
        assert planned.fidelity >= greedy(one, budget).fidelity > 0


@pytest.mark.long
def test_planning_ten_thousand_units_takes_less_than_thirty_seconds() -> None:
    """The kind of topology that takes longest: many operators, each task of which reads few others."""
    one = random_topology(1, Setting((20, 20), (400, 600), 0.5, STRUCTURED, 0.5))
    before_s = process_time()
    planned = structure_aware(one, len(one.units) // 2)
    spent_s = process_time() - before_s
    print(f"{len(one.units)} units in {spent_s:.1f} s of a processor, fidelity {planned.fidelity:.3f}")
    assert spent_s < 30
