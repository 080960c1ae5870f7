"""Histories of the whole protocol, each drawn from a seed. One that fails: `./scripts/simulate --seed N`."""

from __future__ import annotations

import pytest

from tests.simulation.report.history import simulate
from tests.simulation.scenario import draw

SEEDS = range(12)
FOUND = {
    ("takeovers", 22, 30_000): "a marker written after a refused one of the same batch held the newest cuts: a restart "
    "from it would have continued behind records that nobody had processed",
    ("standby", 388, 30_000): "a restore waited behind 62 trims, one request each, on a slow way to the broker",
    ("two-in-charge", 2861, 30_000): "a sleeping copy was given up after 20 rebuilds, though it got on between",
    ("versions", 52, 6_000): "a copy that had done a batch as if its code had not raised read the leader's checkpoint "
    "before the record, and took the batch for done as the log says",
    ("idle-captures", 118, 5_000): "min-max took what a former leader left for a paste of a peer, and the copy failed",
    ("", 85, 4_000): "of the simulation: an incident's record that a process from before wrote again counted twice",
    ("versions", 136, 6_000): "a leader that had read at once that another one led and that it leads again did not "
    "announce itself again, and waited for ever",
}
"""(profile, seed, simulated ms with faults) of histories that were wrong in a campaign, and what was."""

OF_THE_SIMULATION = {
    ("runs", 2217, 30_000): "a record that was refused was to be there twice",
    ("fan-out", 2741, 30_000): "a job on its way as the faults ended was never drained",
}
"""The same, where the simulation was wrong and the product was right: `SEEDS` hold of the product what these do."""

LONG_MS = 30_000
"""Histories that take as long do so with --long: what they met has moved to other seeds since, such as `SEEDS`."""
SAME_MS = 8_000
RARE = {
    ("lives", "job: creating, end_read"): (5_000, (5002, *range(10))),
    ("lives", "job: running, end_read"): (5_000, (3, *range(10))),
    ("lives", "job: fencing, end_read"): (10_000, (5013, *range(10))),
    ("minds", "scheme step: COVERED towards ACTIVE"): (5_000, (5036, *range(10))),
    ("minds", "switching: switched, the secondary is gone"): (5_000, (8, *range(10))),
    ("flapping", "switching: switched, the primary has not been well for as long as one waits for a silent one"): (
        12_000,
        (0, *range(10)),
    ),
}
"""Simulated ms with faults, and seeds that take a row: the first did when it was recorded, the others are tried when it
no longer does.
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_every_row_is_right_and_everything_is_protected_again_whatever_goes_wrong(seed: int) -> None:
    outcome = simulate(draw(seed))
    assert not outcome.wrong, "\n".join([*outcome.story, *outcome.wrong, f"./scripts/simulate --seed {seed}"])


@pytest.mark.parametrize(
    ("profile", "seed", "run_ms"),
    [pytest.param(*one, marks=pytest.mark.long if one[2] == LONG_MS else ()) for one in FOUND],
)
def test_mistakes_found_by_campaigns_stay_mended(profile: str, seed: int, run_ms: int) -> None:
    assert not simulate(draw(seed, run_ms, profile)).wrong, FOUND[profile, seed, run_ms]


@pytest.mark.long
@pytest.mark.parametrize(("profile", "seed", "run_ms"), OF_THE_SIMULATION)
def test_mistakes_of_the_simulation_itself_stay_mended(profile: str, seed: int, run_ms: int) -> None:
    assert not simulate(draw(seed, run_ms, profile)).wrong, OF_THE_SIMULATION[profile, seed, run_ms]


@pytest.mark.parametrize(("profile", "row"), RARE)
def test_rare_transitions_are_taken_under_their_profile(profile: str, row: str) -> None:
    run_ms, seeds = RARE[profile, row]
    outcomes = (simulate(draw(seed, run_ms, profile)) for seed in seeds)
    assert any(row in outcome.taken for outcome in outcomes if not outcome.wrong)


def test_the_same_seed_gives_the_same_history() -> None:
    first, second = simulate(draw(7, SAME_MS)), simulate(draw(7, SAME_MS))
    assert first.story == second.story
    assert (first.records, first.simulated_ms, first.taken) == (second.records, second.simulated_ms, second.taken)
    assert simulate(draw(8, SAME_MS)).story != first.story
