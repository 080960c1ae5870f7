"""Last reports of copies in heartbeats: costs come once a second, markers with every heartbeat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.schemas.assignments import split_unit_key
from holdfast.schemas.costs import Costs
from holdfast.schemas.heartbeats import Heartbeat
from holdfast.services.kernel.protection.expected import Protected, of_groups

RATE_MS = 4_000


@dataclass(frozen=True, slots=True)
class Said:
    """Last report of one copy.

    durable: batch of the newest valid marker at the time of its report of costs.
    """

    time_ms: int
    costs: Costs
    durable: int


class Reported:
    """Reports of the copies of one generation of a job, by worker and unit."""

    def __init__(self, generation: str) -> None:
        self._generation = generation
        self._said: dict[tuple[str, str], list[Said]] = {}
        self._durable: dict[tuple[str, str], int] = {}
        self._incarnations: dict[str, str] = {}

    def read(self, beat: Heartbeat) -> None:
        if self._incarnations.get(beat.worker) != beat.incarnation:
            self._incarnations[beat.worker] = beat.incarnation
            for known in (self._said, self._durable):
                for key in [key for key in known if key[0] == beat.worker]:
                    del known[key]
        for copy in beat.copies:
            if (unit := self._unit(copy.unit)) is not None:
                self._durable[beat.worker, unit] = copy.durable
        for costs in beat.costs:
            if (unit := self._unit(costs.unit)) is not None:
                said = self._said.setdefault((beat.worker, unit), [])
                said.append(Said(beat.time_ms, costs, self._durable.get((beat.worker, unit), 0)))
                while beat.time_ms - said[0].time_ms > RATE_MS:
                    del said[0]

    def _unit(self, key: str) -> str | None:
        _, generation, unit = split_unit_key(key)
        return unit if generation == self._generation else None

    def current(self, worker: str, unit: str) -> bool:
        """True if it has reported its costs since its newest marker."""
        said = self._said.get((worker, unit), [])
        return bool(said) and said[-1].durable == self._durable[worker, unit]

    def expected_ms(self, worker: str, backups: Mapping[str, str], at_ms: float) -> dict[str, float]:
        """R_Qij of the worker at a time, by backup. After its last report a leader is assumed to continue at the rate
        of the last RATE_MS.

        backups: backups of the units that it leads.
        """
        units = [self._protected(worker, unit, backup, at_ms) for unit, backup in backups.items()]
        return {backup: group_ms for (_, backup), group_ms in of_groups(units).items()}

    def _protected(self, worker: str, unit: str, backup: str, at_ms: float) -> Protected:
        said, images = self._said[worker, unit], self._said.get((backup, unit), [])
        span_ms = said[-1].time_ms - said[0].time_ms
        load = (said[-1].costs.process_ms - said[0].costs.process_ms) / span_ms if span_ms else 0.0
        replay_ms = said[-1].costs.recovery_ms + load * max(0.0, at_ms - said[-1].time_ms)
        paste_ms = images[-1].costs.recovery_ms if images else 0.0
        return Protected(worker, backup, load, replay_ms, 0.0, 0.0, paste_ms, waiting=1)
