"""Trims data that a unit has written and no reader needs: its output topics and its own checkpoint log.

Source: PROTOCOL 6 and 7, MECHANISMS S2 and H6.
"""

from __future__ import annotations

from functools import partial

from holdfast.schemas import checkpoints
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.checkpoint_log import CheckpointLog
from holdfast.services.kernel.plans.layout import UnitLayout
from holdfast.services.worker.core.trim_limit import acknowledged, consumed
from holdfast.services.worker.host.job import JobView
from holdfast.services.worker.host.surroundings import HostServices

OUTPUT_MS = 500
ANCHOR_MS = 5_000
PATIENCE = 1.5
"""Multiple of the interval for which a trim waits for a turn that comes anyway, with each batch."""


class Trimmer:
    """Trims for one copy. `output_trimmed` is True if its output was, or could be, trimmed since it was set to False;
    this starts a sweep."""

    def __init__(self, job: JobView, layout: UnitLayout, checkpoint: Partition, around: HostServices) -> None:
        self._job = job
        self._checkpoint = checkpoint
        self._around = around
        self._outputs = {
            Partition(output.topic, target)
            for task in layout.tasks
            for output in task.outputs
            for target in output.targets
        }
        self._trimmed: dict[Partition, int] = {}
        self._wanted: dict[Partition, int] = {}
        self._asking = False
        self._output_ms = self._anchor_ms = around.clock_ms()
        self.output_trimmed = False

    def trim(self, log: CheckpointLog, batch: int, now_ms: float) -> None:
        """Trims output topics and the checkpoint log when they are due. `batch` is the last batch done."""
        if now_ms - self._output_ms >= OUTPUT_MS:
            self._output_ms = now_ms
            self._trim_outputs(batch)
        if now_ms - self._anchor_ms >= ANCHOR_MS:
            self._anchor_ms = now_ms
            self._trim_checkpoints(log)

    def next_deadline(self, *, still: bool) -> float:
        """The clock time at which a trim is due. `still` is True if the output to trim is not worth a turn."""
        anchor_ms = self._anchor_ms + ANCHOR_MS
        return anchor_ms if still else min(self._output_ms + PATIENCE * OUTPUT_MS, anchor_ms)

    def _trim_outputs(self, batch: int) -> None:
        """Trims to the minimum of the readers' acknowledgements, except while a reader is switched.

        A switched unit's primary returns to its former position. If that were trimmed, it would have to load a
        checkpoint.
        """
        readers = self._job.readers
        upto = {p: self._unneeded(p, readers.get(p, ()), batch) for p in self._outputs}
        upto = {p: offset for p, offset in upto.items() if offset > self._trimmed.get(p, 0)}
        if upto:
            self.output_trimmed = True
        free = {p: at for p, at in upto.items() if not any(self._job.switched(unit) for unit in readers.get(p, ()))}
        if free:
            self._delete(free)

    def _unneeded(self, partition: Partition, readers: tuple[str, ...], batch: int) -> int:
        job = self._job
        if not job.only_sources_retain:
            return acknowledged(partition, readers, job.progress, batch)
        lines = {unit: job.line(unit)[0] for unit in readers}
        return consumed(partition, lines, job.progress, job.read(), batch)

    def _trim_checkpoints(self, log: CheckpointLog) -> None:
        """Writes an anchor, and trims only when the anchor was read back."""
        if log.anchored > self._trimmed.get(self._checkpoint, 0):
            self._delete({self._checkpoint: log.anchored})
        anchor = log.anchor()
        if anchor is not None:
            self._around.appender.append(self._checkpoint, checkpoints.encode(anchor))

    def _delete(self, upto: dict[Partition, int]) -> None:
        """Deletes records with one request at a time, because on a slow connection more requests would only queue
        up.
        """
        self._trimmed |= upto
        self._wanted |= upto
        if not self._asking:
            self._ask()

    def _ask(self) -> None:
        upto, self._wanted, self._asking = self._wanted, {}, True
        lane = f"trim {self._checkpoint}"
        trim, done = partial(self._around.log.trim, upto), partial(self._asked, upto)
        self._around.restores.run(trim, done, lane, soon=False)

    def _asked(self, upto: dict[Partition, int], outcome: object) -> None:
        """Notes the outcome. The next trim repeats a failed one, even to a position that does not exist."""
        self._asking = False
        if isinstance(outcome, Exception):
            for partition in upto:
                self._trimmed.pop(partition, None)
        if self._wanted:
            self._ask()
