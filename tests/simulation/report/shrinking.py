"""From a history that fails to a small one that fails in the same way: fewer faults, fewer records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from tests.simulation.report.history import Outcome, simulate
from tests.simulation.scenario import Scenario

T = TypeVar("T")


def shrink(outcome: Outcome, told: Callable[[str], None] = lambda left: None) -> Outcome:
    """The smallest outcome found of the same kind. told: called with every smaller one."""
    smallest = outcome

    def fails(scenario: Scenario) -> bool:
        nonlocal smallest
        tried = simulate(scenario)
        if tried.kind != outcome.kind:
            return False
        smallest = tried
        told(f"{len(scenario.faults)} faults, {len(scenario.feed)} feeds")
        return True

    faults = fewer(outcome.scenario.faults, lambda some: fails(replace(smallest.scenario, faults=tuple(some))))
    fewer(smallest.scenario.feed, lambda some: fails(replace(smallest.scenario, feed=tuple(some))))
    if len(faults) > 1:
        fewer(smallest.scenario.faults, lambda some: fails(replace(smallest.scenario, faults=tuple(some))))
    return smallest


def fewer(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """Leaves out halves, quarters, and so on, as long as it still fails (ddmin)."""
    size = max(1, len(items) // 2)
    while items:
        start = 0
        while start < len(items):
            left = [*items[:start], *items[start + size :]]
            if fails(left):
                items = left
            else:
                start += size
        if size == 1:
            break
        size //= 2
    return items
