"""Histories of the whole protocol, each drawn from a seed. One that fails: `./scripts/simulate --seed N`."""

from __future__ import annotations

import pytest

from tests.simulation.history import simulate
from tests.simulation.scenario import draw

SEEDS = range(12)
FOUND = {
    ("takeovers", 22, 30_000): "a marker written after a refused one of the same batch held the newest cuts: a restart "
    "from it would have gone on behind records that nobody had processed",
}
"""(profile, seed, simulated ms with faults) of histories that were wrong in a campaign, and what was."""


@pytest.mark.parametrize("seed", SEEDS)
def test_every_row_is_right_and_everything_is_protected_again_whatever_goes_wrong(seed: int) -> None:
    outcome = simulate(draw(seed))
    assert not outcome.wrong, "\n".join([*outcome.story, *outcome.wrong, f"./scripts/simulate --seed {seed}"])


@pytest.mark.parametrize(("profile", "seed", "run_ms"), FOUND)
def test_what_a_campaign_has_found_stays_mended(profile: str, seed: int, run_ms: int) -> None:
    assert not simulate(draw(seed, run_ms, profile)).wrong, FOUND[profile, seed, run_ms]


def test_the_same_seed_gives_the_same_history() -> None:
    first, second = simulate(draw(7)), simulate(draw(7))
    assert first.story == second.story
    assert (first.records, first.simulated_ms, first.taken) == (second.records, second.simulated_ms, second.taken)
    assert simulate(draw(8)).story != first.story
