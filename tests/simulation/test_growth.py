"""A job that runs for long keeps its topics within bounds; `python -m tests.simulation.growth` runs it for longer."""

from __future__ import annotations

from tests.simulation.growth import grow

MOST = {"cuts": 150, "data": 100, "checkpoints": 200, "assignments": 50}
"""Records in a partition."""


def test_what_is_trimmed_stays_within_bounds() -> None:
    most = grow(60).most
    assert most.keys() == MOST.keys()
    assert all(max(most[kind]) <= bound for kind, bound in MOST.items()), most
    assert most["cuts"][2] <= most["cuts"][1] * 1.2, most
