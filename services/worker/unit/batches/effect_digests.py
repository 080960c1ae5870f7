"""Digests of a copy's newest batches, reported while a copy of its unit must show that it gives equal bytes.

Source: decision 0077. Recovery compares them (services/recovery/core/unit/facts/proving.py).
"""

from __future__ import annotations

from holdfast.services.kernel.dataflow.effect_digest import digest
from holdfast.services.kernel.dataflow.unit_frames import Frames
from holdfast.services.kernel.dataflow.walk import Walked
from holdfast.services.kernel.plans.layout import UnitLayout
from holdfast.services.kernel.state.store import StateStore
from holdfast.services.worker.host.job import JobView

NEWEST = 16
"""Number of batches in a report; mostly more than a worker does between two heartbeats."""


class EffectDigests:
    """The digests of one copy from a restored image on. `newest` holds batches and digests, for any thread."""

    def __init__(self, job: JobView, layout: UnitLayout, store: StateStore) -> None:
        self._assigned = job.assigned
        self._key = job.key(layout.unit.name)
        self._frames = Frames(layout, job.number)
        self._store = store
        self._on = False
        self.newest: tuple[tuple[int, int], ...] = ()

    def begins(self) -> None:
        """Prepares for a batch. It costs nothing unless a copy of the unit is unshown."""
        change = self._assigned.of(self._key)
        wanted = change is not None and bool(change.unshown)
        if wanted != self._on:
            self._on = wanted
            self.newest = ()
            self._store.watch(wanted)

    def done(self, batch: int, walked: Walked) -> None:
        """Adds the digest of the finished batch."""
        if self._on:
            found = digest(self._frames, batch, walked, self._store.written())
            self.newest = (*self.newest, (batch, found))[-NEWEST:]
