"""A worker dies at every record that it writes: a sample of `./scripts/campaign kills`, which does so many times."""

from __future__ import annotations

import random

import pytest

from tests.campaign.kills import Strike, rounds_of, run_round, strikes
from tests.support.doomed_worker import POINTS
from tests.support.struck import Struck

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
ROUNDS = list(rounds_of(strikes([*POINTS], times=1, at_random=2), random.Random(11), a_round=3))
"""Each point once, at one of its moments, and two kills at random; some for each job in turn."""
QUICK = 1
"""So many of them in every run."""
FIRE_S = 60.0
"""There is no other time for a point that is not reached."""


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        pytest.param(kind, wanted, id=f"{kind}-{n}", marks=() if n <= QUICK else pytest.mark.long)
        for n, (kind, wanted) in enumerate(ROUNDS, 1)
    ],
)
def test_a_job_is_exact_when_a_worker_dies_at(struck: Struck, kind: str, wanted: list[Strike]) -> None:
    name = f"{kind}-{ROUNDS.index((kind, wanted)) + 1}"
    outcomes = run_round(struck.cluster, kind, name, wanted, random.Random(1), fire_s=FIRE_S)
    assert [one for one in outcomes if not one.exact] == []
    assert [one for one in outcomes if not one.fired] == []
