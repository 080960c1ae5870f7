"""Where units go: the worker with most room first, units of one job apart. Pure and deterministic.

Source: PROTOCOL 8: slots are a soft limit. To change where units go, change the order in `_Room.order`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Candidate:
    """A worker that may take units."""

    worker: str
    incarnation: str
    zone: str
    slots: int


def place(
    units: Sequence[str], candidates: Iterable[Candidate], held: Mapping[str, Iterable[str]]
) -> dict[str, Candidate]:
    """A worker for each unit; none for any if there are no candidates.

    Args:
        units: keys `<job>@<generation>/<unit>`, placed in this order.
        held: the units that each worker holds already, by worker.
    """
    room = _Room(sorted(candidates, key=lambda candidate: candidate.worker), held)
    return {unit: room.take(unit) for unit in units} if room.candidates else {}


class _Room:
    """What each worker and zone holds while units are handed out."""

    def __init__(self, candidates: list[Candidate], held: Mapping[str, Iterable[str]]) -> None:
        self.candidates = candidates
        self._zones = {candidate.worker: candidate.zone for candidate in candidates}
        self._load: Counter[str] = Counter()
        self._of_job: Counter[tuple[str, str]] = Counter()
        self._of_job_in_zone: Counter[tuple[str, str]] = Counter()
        for worker, units in held.items():
            for unit in units:
                self._hold(unit, worker)

    def take(self, unit: str) -> Candidate:
        chosen = min(self.candidates, key=lambda candidate: self.order(unit, candidate))
        self._hold(unit, chosen.worker)
        return chosen

    def order(self, unit: str, candidate: Candidate) -> tuple[float, int, int, str]:
        """Share of its slots in use, units of the same job in its zone and on it, name."""
        job = _job(unit)
        return (
            self._load[candidate.worker] / candidate.slots,
            self._of_job_in_zone[job, candidate.zone],
            self._of_job[job, candidate.worker],
            candidate.worker,
        )

    def _hold(self, unit: str, worker: str) -> None:
        job = _job(unit)
        self._load[worker] += 1
        self._of_job[job, worker] += 1
        if worker in self._zones:
            self._of_job_in_zone[job, self._zones[worker]] += 1


def _job(unit: str) -> str:
    return unit.rpartition("/")[0]
