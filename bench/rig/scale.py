"""Amount of measuring."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """Scale of the measures.

    records: records preloaded for throughput.
    state_keys: keys of a large state.
    seconds: duration of each steady state.
    kills: kills of each kind.
    strikes: strikes of each kind where several jobs are struck together.
    rounds: rounds of each comparison.
    history: records of a long log.
    beside: true to run other stream processors in the same run, where a measure does not do so anyway; they are
        downloaded.
    """

    records: int = 2_000_000
    state_keys: int = 1_000_000
    seconds: float = 15.0
    rest_seconds: float = 20.0
    minutes: float = 10.0
    kills: int = 15
    strikes: int = 25
    rounds: int = 3
    history: int = 150_000
    beside: bool = False


QUICK = Scale(
    records=300_000,
    state_keys=200_000,
    seconds=5.0,
    rest_seconds=5.0,
    minutes=1.0,
    kills=4,
    strikes=1,
    rounds=1,
    history=20_000,
)
