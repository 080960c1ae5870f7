"""Measures the time from the arrival of records until their results, at a copy that delivers. Source: MECHANISMS R7."""

from __future__ import annotations

from holdfast.services.worker.core.latency import Latency
from holdfast.services.worker.unit.facts.copy_view import CopyView
from holdfast.services.worker.unit.facts.hosted_unit import HostedUnit
from holdfast.services.worker.unit.outputs.outputs import Outputs


class ResultWaits:
    """The waits for results at one copy, from a restored image on; does nothing in a unit that delivers nothing.
    `began` is the batch of the image."""

    def __init__(self, unit: HostedUnit, outputs: Outputs, began: int) -> None:
        self._job = unit.job
        self._outputs = outputs
        self._around = unit.around
        self._latency = Latency(unit.spent, began) if unit.layout.unit.delivers else None
        self._sources = unit.job.cutting_units

    def measure(self, seen: CopyView) -> None:
        """Measures after the other tasks of a turn. A batch is out when it is processed and its rows are committed."""
        if self._latency is None:
            return
        if not seen.commits:
            self._latency.stop()
            return
        batch = seen.batch
        out = self._outputs.delivery.committed(batch)
        just_now = self._latency.processed(batch) and out == batch
        ago_ms = 0.0 if just_now else max(0.0, self._around.clock_ms() - self._outputs.delivery.committed_ms)
        known = self._job.progress
        sources = [known[unit] for unit in self._sources if unit in known]
        arrivals = [(one.unit, one.arrived, one.arrived_ms) for one in sources if one.arrived_ms]
        self._latency.note_out(out, int(self._around.time_ms() - ago_ms), arrivals)
