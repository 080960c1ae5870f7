"""The shrinker on its own."""

from __future__ import annotations

from tests.simulation.report.shrinking import fewer


def test_only_the_items_that_a_failure_needs_are_left() -> None:
    assert fewer(range(20), lambda some: {3, 17} <= set(some)) == [3, 17]


def test_nothing_is_left_if_it_fails_anyway() -> None:
    assert list(fewer([1, 2, 3], lambda some: True)) == []
