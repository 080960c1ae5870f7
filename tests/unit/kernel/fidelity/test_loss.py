"""Output fidelity, and IC, of a set of failed units (MECHANISMS P1 to P4)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.model.topologies import FULL, MIXED, STRUCTURED, Setting, join, random_topology, sixteen, units
from holdfast.services.kernel.fidelity.loss import Standing, fidelity, of_queries
from holdfast.services.kernel.fidelity.topology import Feed, Node, Substream, topology
from tests.support.examples import examples
from tests.support.topologies import without

RANDOM = st.builds(
    lambda seed, kind, joins: random_topology(seed, Setting((2, 7), (1, 5), 0.7, kind, joins)),
    st.integers(0, 10_000),
    st.sampled_from([FULL, STRUCTURED, MIXED]),
    st.sampled_from([0.0, 0.5, 1.0]),
)


@pytest.mark.parametrize(
    ("failed", "union", "correlated"),
    [(("s1-0",), 0.4, 0.25), (("s2-0",), 0.9, 0.5), (("s1-0", "s2-0"), 0.3, 0.125), (("j-0",), 0.5, 0.5)],
)
def test_the_fidelity_of_the_papers_join_and_union(failed: tuple[str, ...], union: float, correlated: float) -> None:
    assert without(join(correlated=False), *failed) == pytest.approx(union)
    assert without(join(correlated=True), *failed) == pytest.approx(correlated)
    assert without(join(correlated=True), *failed, correlated=False) == pytest.approx(union)


@pytest.mark.parametrize(
    ("unit", "left"), [("n16-0", 0.9375), ("n8-0", 0.875), ("n4-0", 0.75), ("n2-0", 0.5), ("n1-0", 0.0)]
)
def test_a_failure_costs_more_the_nearer_it_is_to_the_sink(unit: str, left: float) -> None:
    assert without(sixteen(), unit) == pytest.approx(left)


@given(RANDOM, st.randoms(use_true_random=False))
@examples(each_run=60, with_long=300)
def test_more_units_never_lower_the_fidelity_and_all_of_them_lose_nothing(one, random) -> None:  # type: ignore[no-untyped-def]
    order = list(range(len(one.units)))
    random.shuffle(order)
    alive = np.zeros((len(order) + 1, len(order)), dtype=np.bool_)
    for step, unit in enumerate(order):
        alive[step + 1 :, unit] = True
    found = fidelity(one, alive)
    assert (np.diff(found) >= -1e-12).all()
    assert found[0] == 0
    assert found[-1] == pytest.approx(1)


@pytest.mark.slow
@given(RANDOM, st.randoms(use_true_random=False))
@examples(each_run=60, with_long=300)
def test_the_rival_metric_is_never_below_the_fidelity(one, random) -> None:  # type: ignore[no-untyped-def]
    alive = np.array([[random.random() < 0.7 for _ in one.units] for _ in range(20)])
    assert (fidelity(one, alive, correlated=False) >= fidelity(one, alive) - 1e-12).all()


@given(RANDOM, st.randoms(use_true_random=False))
@examples(each_run=60, with_long=300)
def test_a_plan_that_grows_has_the_fidelity_that_a_fresh_count_gives(one, random) -> None:  # type: ignore[no-untyped-def]
    standing = Standing(one, np.zeros(len(one.units), dtype=np.bool_))
    order = list(range(len(one.units)))
    random.shuffle(order)
    while order:
        some = [order.pop() for _ in range(min(len(order), random.randint(1, 3)))]
        foreseen = standing.with_units(some)
        standing.add(some)
        assert standing.fidelity == pytest.approx(foreseen)
        assert standing.fidelity == pytest.approx(float(fidelity(one, standing.alive)))


def test_a_stream_in_which_nothing_flows_is_lost_in_equal_parts() -> None:
    feed = Feed("s", (Substream(0, 0, 0.0), Substream(1, 0, 0.0)))
    silent = topology([Node("s", units("s", 2), (0, 0)), Node("k", units("k", 1), (0,), (feed,), query="q")])
    assert without(silent, "s-0") == pytest.approx(0.5)


def test_each_query_has_a_fidelity_of_its_own_and_the_job_that_of_all_rows() -> None:
    two = topology(
        [
            Node("s", units("s", 2), (3, 1)),
            Node("a", units("a", 1), (3,), (Feed("s", (Substream(0, 0, 3.0),)),), query="left"),
            Node("b", units("b", 1), (1,), (Feed("s", (Substream(1, 0, 1.0),)),), query="right"),
        ]
    )
    alive = two.alive(set(two.units) - {"s-0"})
    assert of_queries(two, alive) == {"left": 0.0, "right": 1.0}
    assert float(fidelity(two, alive)) == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("nodes", "problem"),
    [
        ([Node("s", ("s-0",), (1,))], "there is no sink"),
        ([Node("k", ("k-0",), (1,), (Feed("s", rates=(1,)),), query="q"), Node("s", ("s-0",), (1,))], "before it"),
        (
            [
                Node("s", ("s-0",), (1,)),
                Node("k", units("k", 2), (1, 1), (Feed("s", (Substream(0, 0, 1),)),), query="q"),
            ],
            "a task of k reads nothing of s",
        ),
    ],
)
def test_a_topology_that_cannot_be_says_why(nodes: list[Node], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        topology(nodes)
