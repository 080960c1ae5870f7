"""Failure domains that keep the copies of a unit apart. Pure.

Source: JOBS "placement", MECHANISMS H9.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SPREADS = ("zone", "host", "none")
ZONE = "zone"


@dataclass(frozen=True, slots=True)
class Domains:
    """Failure domains of workers. zones, hosts: by worker; a host is a machine."""

    zones: Mapping[str, str] = field(default_factory=dict)
    hosts: Mapping[str, str] = field(default_factory=dict)

    def of(self, worker: str, spread: str = ZONE) -> str:
        """Returns the worker's zone or host, as the job's `spread_by` says; the worker alone if that is not known."""
        known = {"zone": self.zones, "host": self.hosts}.get(spread, {}).get(worker, "")
        return f"{spread} {known}" if known else f"worker {worker}"

    def all_of(self, worker: str) -> set[str]:
        """Returns the worker's domains of every kind."""
        return {self.of(worker, spread) for spread in SPREADS}
