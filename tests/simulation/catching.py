"""Which seed catches which deliberate bug: `python -m tests.simulation.catching [--profile P] [NAME ...]` looks.

A change of the product changes what follows from a seed, so a recorded one may no longer catch its bug: then others are
tried: under a profile the first ones, else those first whose histories have several units, standbys and many faults.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import chain

from tests.simulation.history import simulate
from tests.simulation.mutants import DIRECTED, EQUIVALENT, MUTANTS, RUN_MS, Bug
from tests.simulation.profiles import PROFILES
from tests.simulation.scenario import draw

RICH = (1, 3, 45, 21, 38, 103, 97, 193, 174, 167, 166, 233, 29, 28, 244, 159, 171, 239, 243, 269, 298, 226, 152, 36, 35)
AIMED = range(40)
"""Under a profile that is aimed at a bug any of these may catch it."""
SEEDS = 500


def caught(bug: Bug, seed: int, profile: str = "") -> str:
    """What is wrong in the history of that seed with the bug; empty if nothing is."""
    wrong = simulate(draw(seed, RUN_MS, profile), bug()).wrong
    return wrong[0].splitlines()[0] if wrong else ""


def catching(bug: Bug, seed: int, profile: str = "") -> int | None:
    """The first seed that catches it, the recorded one tried first; None: none of those that are tried."""
    seeds = dict.fromkeys((seed, *(AIMED if profile else RICH)))
    return next((one for one in seeds if caught(bug, one, profile)), None)


def main(names: Sequence[str], profile: str | None) -> None:
    """Without names: what is recorded, and a new seed for each bug that its own no longer catches."""
    recorded = [*((bug, seed, "") for bug, seed in MUTANTS), *DIRECTED, *((bug, 0, "") for bug in EQUIVALENT)]
    for bug, seed, own in recorded:
        under = own if profile is None else profile
        if bug.__name__ in names or not (names or bug in EQUIVALENT or caught(bug, seed, own)):
            found = next((one for one in _all_seeds(under) if caught(bug, one, under)), None)
            print(f"{bug.__name__}: {found} {under}", flush=True)


def _all_seeds(profile: str) -> Iterator[int]:
    return iter(range(SEEDS) if profile else dict.fromkeys(chain(RICH, range(SEEDS))))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="catching", description=__doc__)
    parser.add_argument(
        "names", nargs="*", help="of the bugs; default: those whose recorded seed no longer catches them"
    )
    parser.add_argument(
        "--profile", choices=sorted(PROFILES), help="what the histories are drawn under; default: as recorded"
    )
    asked = parser.parse_args()
    main(asked.names, asked.profile)
