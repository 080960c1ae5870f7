"""The workload of Su and Zhou 2017, figure 4: fifteen queries that share four windows. Source: MECHANISMS R8."""

from __future__ import annotations

from itertools import combinations

TASKS = 5
"""Number of tasks of each operator but the source."""
SLOTS = 10
"""Number of slots of each worker, a task each."""
WORKERS, LOST = 10, 8
WINDOWS = tuple(f"o{number}" for number in range(4))
SUBSETS = tuple(subset for size in (2, 3, 4) for subset in combinations(WINDOWS, size))
READS: dict[str, tuple[str, ...]] = dict.fromkeys(WINDOWS, ("parser",)) | {
    f"o{len(WINDOWS) + at}": subset for at, subset in enumerate(SUBSETS)
}
"""The queries, each with the operators that its own operator reads."""
STAIRCASE = (2, 4, 6, 8, 10, 12, 14, 15)
"""Queries available after each of eight workers that arrive one by one."""


def operators(query: str) -> tuple[str, ...]:
    """Operators that the query needs, of those that fail: its own and the windows that it reads."""
    return (query, *(one for one in READS[query] if one in READS))


def units(operator: str) -> tuple[str, ...]:
    """Names of an operator's units, one for each task."""
    return tuple(f"{operator}-{number}" for number in range(TASKS))


def best(workers: int) -> int:
    """The most queries that fit into the slots of so many workers, found by trying all sets of windows."""
    found = 0
    for size in range(len(WINDOWS) + 1):
        for windows in combinations(WINDOWS, size):
            others = sum(set(reads) <= set(windows) for reads in SUBSETS)
            left = workers * SLOTS // TASKS - size
            found = max(found, size + min(others, left)) if left >= 0 else found
    return found
