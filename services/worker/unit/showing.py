"""Reports of a copy on its newest batches while a copy of its unit is to show that it gives equal bytes.

Source: decision 0077. Recovery decides which batches are equal (services/recovery/core/unit/facts/proving.py).
"""

from __future__ import annotations

from holdfast.services.kernel.dataflow.sending import Frames
from holdfast.services.kernel.dataflow.showing import digest
from holdfast.services.kernel.dataflow.walk import Walked
from holdfast.services.kernel.plans.layout import UnitLayout
from holdfast.services.kernel.state.keyed import StateStore
from holdfast.services.worker.host.job import JobView

NEWEST = 16
"""Batches in a report: more than a worker does from one heartbeat to the next, most of the time."""


class Showing:
    """Digests of one copy from a restored image on. newest: batches and their digests, for any thread."""

    def __init__(self, job: JobView, layout: UnitLayout, store: StateStore) -> None:
        self._assigned, self._key = job.assigned, job.key(layout.unit.name)
        self._frames, self._store = Frames(layout, job.number), store
        self._on = False
        self.newest: tuple[tuple[int, int], ...] = ()

    def begins(self) -> None:
        """A batch does. It costs nothing as long as nobody has anything to show."""
        change = self._assigned.of(self._key)
        wanted = change is not None and bool(change.unshown)
        if wanted != self._on:
            self._on, self.newest = wanted, ()
            self._store.watch(wanted)

    def done(self, batch: int, walked: Walked) -> None:
        """The batch that began is done."""
        if self._on:
            found = digest(self._frames, batch, walked, self._store.written())
            self.newest = (*self.newest, (batch, found))[-NEWEST:]
