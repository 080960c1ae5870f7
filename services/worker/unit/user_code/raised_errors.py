"""Users' code that raises, at one copy: the cut log decides which rows are skipped.

Source: PROTOCOL 3. core/raise_steps.py decides the next step. A unit whose code cannot raise does nothing here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from holdfast.schemas import cuts
from holdfast.schemas.assignments import Flags
from holdfast.schemas.checkpoints import Marker
from holdfast.schemas.cuts import Leads, Raised, TaskRaised
from holdfast.schemas.decided import Id
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.checkpoint_log import CheckpointLog
from holdfast.services.kernel.errors import Divergence, StateCorrupted, TooManyDeadLetters
from holdfast.services.kernel.plurals import plural
from holdfast.services.worker.core.raise_steps import RaisingView, Step, next_step
from holdfast.services.worker.unit.batches.batch_processor import BatchProcessor
from holdfast.services.worker.unit.facts.hosted_unit import HostedUnit

MAX_RECORD_BYTES = 4 * 1024 * 1024
_HINT = "run the same versions of the code and its libraries everywhere, and submit the job again"


class RaisedErrors:
    """Errors of one copy's code, from a restored image on.

    Args:
        marker: marker of the image.
        log: checkpoint log of the unit.
        wake: called after an outcome.
    """

    def __init__(
        self,
        unit: HostedUnit,
        marker: Marker | None,
        processing: BatchProcessor,
        log: CheckpointLog,
        wake: Callable[[], None],
    ) -> None:
        job = unit.job
        self._job = job
        self._unit = unit.name
        self._around = unit.around
        self._log = log
        self._wake = wake
        self._cutter = processing.intake.cutter
        self._processing = processing
        self._outputs = processing.outputs
        self._on = self._unit in job.raising_units
        self._partition = Partition(job.topics.cuts, 0)
        self._strict = job.plan.settings.on_divergence != "continue"
        outs = [Partition(o.topic, t) for task in unit.layout.tasks for o in task.outputs for t in o.targets]
        self._readers = {reader for partition in outs for reader in job.readers.get(partition, ())}
        self._flags = Flags(commit=False)
        self._epoch = 0
        self._announced: Id | None = None
        self._announced_epoch = 0
        self._holds = self._proposed = False
        self._base, self._followed = (0, 0) if marker is None else (marker.b, marker.raised)
        self._records: dict[int, Raised | None] = {}
        self._done = self._missed = 0
        self._wrong = ""

    # -- what the copy asks -------------------------------------------------------------------------------------------

    def known(self, batch: int) -> Mapping[str, TaskRaised] | None:
        """Rows at which code raises in the next batch, by the cut log; None if it has no decision."""
        if not self._on:
            return None
        self._take()
        if (record := self._records.get(batch)) is not None:
            return record.tasks
        leading = self._cutter.log.leading(self._unit)
        return {} if leading is not None and batch < leading.batch else None

    @property
    def followed(self) -> int:
        """The last batch done in which code raised."""
        return self._followed

    @property
    def waits(self) -> bool:
        """True if the copy waits for a decision of the cut log."""
        return self._holds or self._processing.held is not None

    # -- what happens to it -------------------------------------------------------------------------------------------

    def place(self, epoch: int, flags: Flags) -> None:
        """Applies these flags from now on."""
        if flags.commit != self._flags.commit:
            self._announced = None
            self._proposed = False
        self._flags = flags
        self._epoch = epoch
        if self._on and flags.commit and self._announced is None:
            self._hold()

    def batch_done(self) -> None:
        """Notes a batch that was done as the cut log decided."""
        self._done = self._processing.batch
        if self._on and self._records.get(self._done) is not None:
            self._followed, self._records[self._done] = self._done, None

    def reached(self, marker: Marker) -> None:
        """Notes a valid marker, of any copy, that the copy has reached or continues from."""
        if not self._on:
            return
        self._take()
        if self._base < marker.raised <= self._done and marker.raised not in self._records:
            self._missed = self._missed or marker.raised  # the cut log's record is not read here yet
        self._check(marker.b, marker.raised, [batch for batch in self._records if batch <= marker.b])
        self._records = {batch: record for batch, record in self._records.items() if batch > marker.b}
        self._base, self._followed = max(self._base, marker.b), max(self._followed, marker.raised)

    def due_ms(self, now_ms: float) -> float:
        """The time of the next step."""
        return now_ms if self._on and next_step(self._view())[0] is not Step.WAIT else math.inf

    def take_steps(self) -> bool | None:
        """Takes the steps that are due, up to the end of a held batch.

        Returns the result of `BatchProcessor.let_go`, or None if no batch has ended; then no step is left.

        Raises:
            StateCorrupted: the copy did a batch otherwise than the cut log decided.
            Divergence: in addition, some of its output was sent or is in a checkpoint.
            TooManyDeadLetters: a batch has more of them than a record can hold.
        """
        while self._on and (found := next_step(self._view()))[0] is not Step.WAIT:
            if found[0] is Step.CONTINUE:
                self._proposed = False
                return self._processing.let_go(self._flags.send)
            self._do(*found)
        return None

    # -- what it does -------------------------------------------------------------------------------------------------

    def _view(self) -> RaisingView:
        self._take()
        held, batch = self._processing.held, self._processing.batch + 1
        return RaisingView(
            commits=self._flags.commit,
            processes=self._flags.process,
            epoch=self._epoch,
            announced=self._announced,
            announced_epoch=self._announced_epoch,
            leading=self._cutter.log.leading(self._unit),
            holds=self._holds,
            opened=self._outputs.open,
            sent=self._outputs.sent,
            out=0 if held is None else self._out,
            marker=self._log.last_b,
            strict=self._strict,
            held=0 if held is None else batch,
            found=self._processing.raised,
            record=None if held is None else self._records.get(batch),
            proposed=self._proposed,
            missed=self._missed,
            wrong=self._wrong,
        )

    @property
    def _out(self) -> int:
        """The last batch with delivered rows, or with frames in a reader's checkpoint."""
        durable = (self._job.progress[reader].durable for reader in self._readers if reader in self._job.progress)
        return max(self._outputs.delivery.delivered, *durable, 0)

    def _take(self) -> None:
        """Applies the records that were read from the cut log."""
        for record in self._cutter.raised:
            if record.batch <= self._base:
                self._check(self._base, self._followed, [record.batch])
            elif record.batch <= self._processing.batch:
                self._missed = self._missed or record.batch
            else:
                self._records[record.batch] = record
        self._cutter.raised.clear()

    def _check(self, marked: int, raised: int, known: list[int]) -> None:
        """Compares a marker with decisions of the cut log. `marked` is the marker's batch, `raised` its field; `known`
        are earlier batches in which code raised."""
        if lacking := [batch for batch in known if batch > raised]:
            self._wrong = (
                f"the checkpoint at batch {marked} was written as if no code had raised in batch {lacking[0]}, and the "
                "cut log says that it did"
            )

    def _do(self, step: Step, why: str) -> None:
        if step is Step.DIVERGE:
            raise Divergence(f"{self._unit}: {why}: {_HINT}")
        if step is Step.REBUILD:
            raise StateCorrupted(why)
        if step is Step.ANNOUNCE:
            self._hold()
            self._announced = self._around.author.next()
            self._announced_epoch = self._epoch
            self._proposed = False
            self._append(Leads(self._unit, self._epoch, self._announced))
        elif step is Step.HOLD:
            self._hold()
        elif step is Step.LET_OUT:
            self._holds = False
            self._outputs.let_out(self._flags.send)
        else:
            self._propose()

    def _hold(self) -> None:
        self._holds = True
        self._outputs.hold()

    def _propose(self) -> None:
        assert self._announced is not None
        batch, tasks = self._processing.batch + 1, self._processing.raised
        self._proposed = True
        self._append(Raised(self._unit, batch, self._announced, tasks))

    def _append(self, record: Leads | Raised) -> None:
        """Appends a record, and again if Kafka may have lost it. Of two records about a batch, the log counts one."""
        data = cuts.encode(record)
        if len(data) > MAX_RECORD_BYTES:
            raise TooManyDeadLetters(
                f"{self._unit}, batch {self._processing.batch + 1}: its code raises at so many rows that the record of "
                f"them takes {plural(len(data), 'byte')}, more than {MAX_RECORD_BYTES:,}: correct the code; "
                "`on_error: fail` stops a job at the first such row, a low dead_letter_share soon after"
            )

        def appended(error: Exception | None, _: int) -> None:
            if error is None:
                return
            if isinstance(record, Raised):
                self._proposed = False
            elif self._announced == record.id:
                self._announced = None
            self._wake()

        self._around.appender.append(self._partition, data, done=appended)
