"""Which seed catches which deliberate bug: `python -m tests.simulation.catching [--profile P] [NAME ...]` looks.

A change of the product changes what follows from a seed, so a recorded one may no longer catch its bug: then others are
tried, those first whose histories have several units, standbys and many faults.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import chain

from tests.simulation.history import simulate
from tests.simulation.mutants import DIRECTED, MUTANTS, RUN_MS, UNCAUGHT, Bug
from tests.simulation.profiles import PROFILES
from tests.simulation.scenario import draw

RICH = (1, 3, 45, 21, 38, 103, 97, 193, 174, 167, 166, 233, 29, 28, 244, 159, 171, 239, 243, 269, 298, 226, 152, 36, 35)
SEEDS = 500


def caught(bug: Bug, seed: int, profile: str = "") -> str:
    """What is wrong in the history of that seed with the bug; empty if nothing is."""
    wrong = simulate(draw(seed, RUN_MS, profile), bug()).wrong
    return wrong[0].splitlines()[0] if wrong else ""


def catching(bug: Bug, seeds: Sequence[int]) -> int | None:
    """The first of the seeds that catches it."""
    return next((seed for seed in dict.fromkeys(seeds) if caught(bug, seed)), None)


def _all_seeds() -> Iterator[int]:
    return iter(dict.fromkeys(chain(RICH, range(SEEDS))))


def main(names: Sequence[str], profile: str = "") -> None:
    """Seed by seed, so that what is caught easily is told first."""
    every = [bug for bug, _ in MUTANTS] + [bug for bug, _, _ in DIRECTED] + list(UNCAUGHT)
    left = [bug for bug in every if not names or bug.__name__ in names]
    for seed in _all_seeds():
        for bug in list(left):
            if found := caught(bug, seed, profile):
                left.remove(bug)
                print(f"    ({bug.__name__}, {seed}),  # {found[:140]}", flush=True)
        print(f"after seed {seed}: {len(left)} left", file=sys.stderr, flush=True)
        if not left:
            return


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="catching", description=__doc__)
    parser.add_argument("names", nargs="*", help="of the bugs; default: all")
    parser.add_argument("--profile", default="", choices=sorted(PROFILES), help="what the histories are drawn under")
    asked = parser.parse_args()
    main(asked.names, asked.profile)
