"""Search for the history that shows a deliberate bug: `python -m tests.simulation.catching [NAME ...]`.

A change of the product changes what follows from a seed, so a recorded one is where the search begins, and no more:
within a budget of simulated time others are tried, the shortest first; then under a profile the first ones, else those
first whose histories have several units, standbys and many faults. A bug that needs a rare coincidence, one history in
forty or so, may be in none of them: with --long, if all have failed, the search continues with other seeds. The tests
remember what was found last. `--record` writes what was found into mutants/catalogue.py; `--remembered --record` those
histories that the tests have found, at no cost: a test that searches takes 10 to 100 times as long as another.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

from tests.simulation.mutants import catalogue
from tests.simulation.mutants.catalogue import EQUIVALENT, MUTANTS, RUN_MS, Mutant
from tests.simulation.profiles import PROFILES
from tests.simulation.report.history import Outcome, simulate
from tests.simulation.scenario import draw

RICH = (1, 3, 45, 21, 38, 103, 97, 193, 174, 167, 166, 233)
AIMED = range(16)
"""Under a profile that is aimed at a bug any of these may catch it."""
SEEDS = 500


class Budget(NamedTuple):
    """Simulated time of faults in which a test looks for a history that catches a bug; most take 1,500 to 5,000.

    first_ms: for those that are recorded, remembered, short or rich. wider_ms: for the seeds that follow.
    """

    first_ms: int
    wider_ms: int


EACH_RUN = Budget(30_000, 0)
"""Ten histories or so, 10 s of a core: whoever changes the product waits for every bug whose history has moved."""
WITH_LONG = Budget(120_000, 600_000)
"""120 histories of 5,000 take 160 to 200 s of a core, which is less than a test may take."""
SHORT_MS, SHORT_SEEDS = (1_500, 2_500, 3_500), range(10)
SHORT_TRIED = 3
CACHE = Path(__file__).parents[2] / ".pytest_cache" / "v" / "mutants"
"""Where pytest keeps what test_mutants.py remembers."""
ANY = "any"
"""In place of a checker."""


def caught(mutant: Mutant) -> Outcome | None:
    """Outcome of its history, with the bug, if the checker that the bug names is the first to speak."""
    try:
        found = simulate(draw(mutant.seed, mutant.run_ms, mutant.profile), mutant.bug())
    except AssertionError:  # the simulated machines themselves are no longer possible: no checker has seen the bug
        return None
    return found if found.wrong and mutant.checker in (ANY, found.kind) else None


def promising(
    mutant: Mutant, remembered: tuple[int, int] | None = None, budget: Budget = WITH_LONG
) -> Iterator[Mutant]:
    """Histories, each once: the remembered one and the recorded one, short ones, others; then the seeds that follow.

    remembered: seed and run_ms of the one that caught it last.
    """
    near = list(AIMED if mutant.profile else RICH)
    short = ((seed, run_ms) for run_ms in SHORT_MS if run_ms < mutant.run_ms for seed in near[:SHORT_TRIED])
    found = [remembered] if remembered is not None else []
    order = dict.fromkeys([*found, (mutant.seed, mutant.run_ms), *short, *((seed, mutant.run_ms) for seed in near)])
    yield from _within(budget.first_ms, (mutant._replace(seed=seed, run_ms=run_ms) for seed, run_ms in order))
    others = (seed for seed in count() if (seed, mutant.run_ms) not in order)
    yield from _within(budget.wider_ms, (mutant._replace(seed=seed) for seed in others))


def _within(budget_ms: int, histories: Iterable[Mutant]) -> Iterator[Mutant]:
    for history in histories:
        budget_ms -= history.run_ms
        if budget_ms < 0:
            return
        yield history


def catching(mutant: Mutant, remembered: tuple[int, int] | None = None, budget: Budget = WITH_LONG) -> Mutant | None:
    """With the first history that catches it; None: none of those that the budget is enough for."""
    return _first(promising(mutant, remembered, budget))


def searched(mutant: Mutant) -> Mutant | None:
    """With a history that catches it, as cheap as one is found soon."""
    seeds = range(SEEDS) if mutant.profile else dict.fromkeys(chain(RICH, range(SEEDS)))
    return _cheapest(mutant) or _first(mutant._replace(seed=seed, run_ms=RUN_MS) for seed in seeds)


def _first(tried: Iterable[Mutant]) -> Mutant | None:
    for mutant in tried:
        if found := caught(mutant):
            return mutant._replace(checker=found.kind)
    return None


def _cheapest(mutant: Mutant) -> Mutant | None:
    """Takes the least of a core, among the shortest of which any catches it."""
    for run_ms in SHORT_MS:
        costs: dict[Mutant, float] = {}
        for tried in (mutant._replace(seed=seed, run_ms=run_ms) for seed in SHORT_SEEDS):
            if found := caught(tried):
                costs[tried._replace(checker=found.kind)] = found.cpu_s
        if costs:
            return min(costs, key=lambda one: costs[one])
    return None


KNOWN = {mutant.name: mutant for mutant in (*MUTANTS, *(Mutant(bug, ANY, 0) for bug in EQUIVALENT))}


def _asked(name: str, changes: Mapping[str, str], always: bool) -> tuple[str, tuple[Any, ...] | None]:
    """With which history the mutant is caught, without the bug itself, which no other process can be given.

    always: look for another one, also if its own catches it.
    """
    mutant = KNOWN[name]._replace(**changes)  # type: ignore[arg-type]
    found = mutant if not always and caught(mutant) else searched(mutant)
    return name, found and found[1:]


def found_by_tests() -> Iterator[Mutant]:
    """Bugs that tests of this repository had to search for, with the histories that they found last."""
    for mutant in MUTANTS:
        if (file := CACHE / mutant.name).exists():
            seed, run_ms = json.loads(file.read_text())
            if (seed, run_ms) != (mutant.seed, mutant.run_ms):
                yield mutant._replace(seed=seed, run_ms=run_ms)


def record(found: Mutant) -> None:
    """Writes it in place of the mutant of its name."""
    file = Path(str(catalogue.__file__))
    text, count = re.subn(rf"(?m)^    Mutant\({found.name}, .*\),$", f"    {found},", file.read_text())
    assert count == 1, f"{found.name} stands in {count} lines of {file}"
    file.write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(prog="catching", description=__doc__)
    parser.add_argument(
        "names", nargs="*", help="of the bugs; default: those whose recorded history no longer catches them"
    )
    parser.add_argument("--profile", choices=sorted(PROFILES), help="to draw histories under; default: as recorded")
    parser.add_argument("--checker", help=f"to catch them, or `{ANY}`; default: as recorded")
    parser.add_argument("--record", action="store_true", help="write what is found into mutants/catalogue.py")
    parser.add_argument("--workers", type=int, default=1, help="processes at once")
    parser.add_argument("--remembered", action="store_true", help="take the histories that tests have found")
    asked = parser.parse_args()
    if asked.remembered:
        for found in found_by_tests():
            print(found, flush=True)
            if asked.record:
                record(found)
        return
    changes = {name: getattr(asked, name) for name in ("profile", "checker") if getattr(asked, name) is not None}
    look = partial(_asked, changes=changes, always=bool(asked.names))
    with multiprocessing.get_context("fork").Pool(asked.workers) as pool:
        for name, history in pool.imap_unordered(look, asked.names or [mutant.name for mutant in MUTANTS]):
            if history is None:
                print(f"{name}: no history catches it", flush=True)
                continue
            found = Mutant(KNOWN[name].bug, *history)
            if found != KNOWN[name]:
                print(found, flush=True)
                if asked.record:
                    record(found)


if __name__ == "__main__":
    main()
