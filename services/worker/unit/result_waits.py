"""How long what arrives waits for its results, at a copy that delivers. Source: MECHANISMS R7."""

from __future__ import annotations

from services.worker.core.latency import Latency
from services.worker.core.spent import Spent
from services.worker.host.job import JobView
from services.worker.host.surroundings import Surroundings
from services.worker.unit.outputs import Outputs


class ResultWaits:
    """Of one copy, from a restored image on. batch: that of the image."""

    def __init__(self, job: JobView, spent: Spent, batch: int, outputs: Outputs, around: Surroundings) -> None:
        self._job, self._outputs, self._around = job, outputs, around
        self._latency = Latency(spent, batch)
        self._sources = job.cutting_units

    def look(self, batch: int, commits: bool) -> None:
        """After a turn. A batch is out once it is processed and its rows are committed.

        Args:
            batch: the last one processed. commits: the copy leads, and its outputs are open.
        """
        if not commits:
            self._latency.stop()
            return
        out = self._outputs.committed(batch)
        just_now = self._latency.processed(batch) and out == batch
        ago_ms = 0.0 if just_now else max(0.0, self._around.clock_ms() - self._outputs.committed_ms)
        known = (self._job.progress.get(unit) for unit in self._sources)
        arrivals = [(one.unit, one.arrived, one.arrived_ms) for one in known if one is not None and one.arrived_ms]
        self._latency.look(out, int(self._around.time_ms() - ago_ms), arrivals)
