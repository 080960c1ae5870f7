"""Which seed catches which deliberate bug: `python -m tests.simulation.catching [NAME ...]` looks for one.

A change of the product changes what follows from a seed, so a recorded one may no longer catch its bug: then others are
tried, those first whose histories have several units, standbys and many faults.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import chain

from tests.simulation.history import simulate
from tests.simulation.mutants import MUTANTS, RUN_MS, UNCAUGHT, Bug
from tests.simulation.scenario import draw

RICH = (1, 3, 45, 21, 38, 103, 97, 193, 174, 167, 166, 233, 29, 28, 244, 159, 171, 239, 243, 269, 298, 226, 152, 36, 35)
SEEDS = 500


def caught(bug: Bug, seed: int) -> str:
    """What is wrong in the history of that seed with the bug; empty if nothing is."""
    wrong = simulate(draw(seed, RUN_MS), bug()).wrong
    return wrong[0].splitlines()[0] if wrong else ""


def catching(bug: Bug, seeds: Sequence[int]) -> int | None:
    """The first of the seeds that catches it."""
    return next((seed for seed in dict.fromkeys(seeds) if caught(bug, seed)), None)


def _all_seeds() -> Iterator[int]:
    return iter(dict.fromkeys(chain(RICH, range(SEEDS))))


def main(names: Sequence[str]) -> None:
    """Seed by seed, so that what is caught easily is told first."""
    every = [bug for bug, _ in MUTANTS] + list(UNCAUGHT)
    left = [bug for bug in every if not names or bug.__name__ in names]
    for seed in _all_seeds():
        for bug in list(left):
            if found := caught(bug, seed):
                left.remove(bug)
                print(f"    ({bug.__name__}, {seed}),  # {found[:140]}", flush=True)
        print(f"after seed {seed}: {len(left)} left", file=sys.stderr, flush=True)
        if not left:
            return


if __name__ == "__main__":
    main(sys.argv[1:])
