"""The line of one copy: tentative batches on a fork of the state while upstream units are out.

Nothing here changes stable results: no marker, count, acknowledgement, digest or cost of the copy. An error ends the
line for this outage, and not the copy. Source: MECHANISMS P12, decision 0169.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set

from holdfast.schemas import formats
from holdfast.schemas.heartbeats import LINE
from holdfast.schemas.topics import Partition
from holdfast.services.diagnostics.logger import get_logger
from holdfast.services.kernel.dataflow.line import silent
from holdfast.services.kernel.dataflow.unit import Unit
from holdfast.services.kernel.plans.layout import below, directly_above
from holdfast.services.kernel.plurals import plural
from holdfast.services.kernel.state.forked import ForkedStore
from holdfast.services.worker.core.tentative import Do, LineState, LineView, State
from holdfast.services.worker.sinks.tentative_rows import Ahead
from holdfast.services.worker.unit.batches.batch_processor import BatchProcessor
from holdfast.services.worker.unit.facts.copy_view import CopyView
from holdfast.services.worker.unit.facts.hosted_unit import HostedUnit
from holdfast.services.worker.unit.tentative.line_code import LineCode

MAX_FORK_KEYS = 1_000_000
"""Most keys of a fork; beyond that the line ends for this outage."""

_log = get_logger()


class TentativeLine:
    """The line of one copy, from a restored image on."""

    def __init__(self, unit: HostedUnit, processing: BatchProcessor) -> None:
        job, layout, around = unit.job, unit.layout, unit.around
        self._job = job
        self._unit_name = unit.name
        self._code = LineCode(job, layout, around)
        self._traces = around.doing.traces
        self._processing = processing
        self._intake = processing.intake
        self._outputs = processing.outputs
        self._able = self._unit_name in job.tentative and self._unit_name in job.forking
        under = below(job.layouts) if self._able else {}
        self._above = frozenset(name for name, units in under.items() if self._unit_name in units)
        self._state = LineState()
        self._fork: ForkedStore | None = None
        self._unit: Unit | None = None
        self._absent: tuple[frozenset[str], Mapping[Partition, Set[int]]] = frozenset(), {}
        self._forked_at = 0

    # -- what happens to it -------------------------------------------------------------------------------------------

    def hears(self, partition: Partition) -> bool:
        """True if each frame of the partition may make a turn due for the line."""
        return self._state.state is not State.OFF and partition in self._intake.inputs

    def end(self) -> None:
        """Ends the line, because its fork is out of date or the line is not needed."""
        self._drop_fork()
        self._code.close()
        self._intake.inputs.end_line()
        self._state.state = State.OFF

    # -- its part of a turn -------------------------------------------------------------------------------------------

    def due_ms(self, seen: CopyView) -> float:
        if self._state.state is State.OFF:
            return seen.now_ms if self._out() not in ("", self._state.banned) and self._leads(seen) else math.inf
        line = self._line_view(seen)
        if self._state.state is State.FORKED and line.stands and line.ahead:
            return seen.now_ms
        return self._state.due_ms(line, seen.now_ms)

    def advance(self, seen: CopyView) -> None:
        """Does at most one batch, because stable batches go first."""
        if not self._able:
            return
        self._state.see(seen.batch, seen.now_ms)
        if self._state.state is State.OFF and not self._out():
            return
        match self._state.next_action(self._line_view(seen), seen.now_ms):
            case Do.LISTEN:
                self._intake.inputs.begin_line(seen.batch)
                self._code.start(self._ban)
            case Do.FORK:
                self._fork = ForkedStore(self._processing.store)
                self._unit = self._processing.forked(self._fork, self._code.build)
                self._forked_at = seen.batch
                self._process(seen.batch)
            case Do.PROCESS:
                self._process(seen.batch)
            case Do.JOIN:
                self._drop_fork()
                self._intake.inputs.passed(seen.batch)
            case Do.END:
                self.end()
            case Do.NOTHING:
                if self._state.state is State.LISTENS:
                    self._intake.inputs.passed(seen.batch)

    def _drop_fork(self) -> None:
        if self._fork is not None:
            self._fork.end()
        self._fork = self._unit = None

    def _out(self) -> str:
        """The outages of upstream units, as text; empty if none is out, or the job has no tentative results."""
        if not self._able or self._job.assigned.format < formats.TENTATIVE:
            return ""
        out = self._job.assigned.out(self._job.job_key)
        if any(one.banned for one in out.values()):
            return ""
        return " ".join(f"{name}.{one.number}" for name, one in sorted(out.items()) if name in self._above)

    def _line_view(self, seen: CopyView) -> LineView:
        on = self._state.state is not State.OFF and self._code.ready and self._outputs.takes_tentative
        done = max(self._state.done, seen.batch)
        next = self._intake.inputs.following(done, self._writers()) if on else None
        behind = self._fork is not None and next is not None and next > done + 1 and seen.batch > self._forked_at
        void = behind or (self._fork is not None and self._fork.void)
        stands = not (seen.flags.process and self._processing.ready and not seen.skips)
        return LineView(self._leads(seen), self._out(), seen.batch, stands, ahead=next is not None, void=void)

    def _leads(self, seen: CopyView) -> bool:
        """True if the copy may fork. A fork before the delivered position would make final rows tentative again."""
        works = seen.commits and seen.flags.process and seen.flags.send and not seen.undecided
        return works and not self._processing.ended and seen.batch >= self._outputs.delivery.delivered

    def _writers(self) -> Mapping[Partition, Set[int]]:
        """The writers that the line does not wait for, by partition."""
        out = frozenset(self._job.assigned.out(self._job.job_key))
        if out != self._absent[0]:
            units = silent(directly_above(self._job.layouts), self._job.forking, out)
            senders = self._job.senders
            inputs = self._intake.inputs
            found = {one: {n for n, unit in senders.get(one, {}).items() if unit in units} for one in inputs}
            self._absent = out, found
        return self._absent[1]

    def _process(self, stable: int) -> None:
        """Does the next batch of the line. `stable` is the last stable batch."""
        assert self._unit is not None
        assert self._fork is not None
        inputs, absent = self._intake.inputs, self._writers()
        batch = inputs.following(self._state.done, absent)
        if batch is None:
            return
        key = self._job.key(self._unit_name)
        self._traces.runs(key, 0, LINE)  # an end at it says nothing against the stable batches
        try:
            produced = self._unit.process(batch, {}, inputs.peek(batch, absent))
        except Exception as error:
            self._ban(f"{type(error).__name__}: {error}")
            return
        finally:
            self._traces.runs(key, stable + 1)
        if len(self._fork) > MAX_FORK_KEYS:
            self._ban(f"its fork holds {plural(len(self._fork), 'key')}")
            return
        self._state.processed(batch)
        inputs.passed(batch)
        sinks = [sink for sink in produced.sinks if sink.task.operator.sink.tentative]
        ahead = Ahead(batch, sinks, self._job.assigned.fidelity(self._job.job_key))
        self._outputs.send_tentative(ahead, produced.sent)

    def _ban(self, why: str) -> None:
        _log.warning("no tentative results of a unit", unit=self._job.key(self._unit_name), why=why)
        self._state.ban(self._out())
        self.end()
