"""Profiles: what histories are drawn under, where a coincidence that a bug needs is too rare among all of them.

A profile weighs faults and jobs; processes, cores, broker and checkers are the same under all. To add one, add one row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Profile:
    """faults: the weight of a kind, if not 1. operators, schemes: those that are drawn; empty: all."""

    faults: Mapping[str, float] = field(default_factory=dict)
    operators: tuple[str, ...] = ()
    schemes: tuple[str, ...] = ()


PROFILES: Mapping[str, Profile] = {
    "": Profile(),
    "two-in-charge": Profile(
        {"lost-heartbeats": 6, "late-heartbeats": 4, "lag": 6, "strike": 4, "crash": 0.2},
        schemes=("hybrid", "active-standby", "active-replication", "passive-hot"),
    ),
}
