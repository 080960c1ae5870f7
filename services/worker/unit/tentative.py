"""The line of one copy: it works at tentative batches while units above are out, on a fork of the state.

Nothing here touches what is stable: no marker, no count, no acknowledgement, no digest and no cost of the copy.
Whatever goes wrong ends the line for this outage, and not the copy. Source: MECHANISMS P12, decision 0169.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from typing import Protocol

from holdfast.schemas import formats
from holdfast.schemas.assignments import Flags
from holdfast.schemas.heartbeats import LINE
from holdfast.schemas.topics import Partition
from holdfast.services.diagnostics.logger import get_logger
from holdfast.services.kernel.dataflow.line import silent
from holdfast.services.kernel.dataflow.unit import Unit
from holdfast.services.kernel.plans.layout import UnitLayout, below, directly_above
from holdfast.services.kernel.plurals import plural
from holdfast.services.kernel.state.forked import ForkedStore
from holdfast.services.kernel.state.keyed import StateStore
from holdfast.services.worker.core.tentative import Do, LineState, LineView, State
from holdfast.services.worker.host.job import JobView
from holdfast.services.worker.host.surroundings import HostServices
from holdfast.services.worker.sinks.tentative_rows import Ahead
from holdfast.services.worker.unit.intake import Intake
from holdfast.services.worker.unit.outputs import Outputs
from holdfast.services.worker.unit.processing import Processing
from holdfast.services.worker.unit.tentative_code import LineCode

MAX_FORK_KEYS = 1_000_000
"""Held by a fork; then the line ends for this outage."""

_log = get_logger()


class LineOwner(Protocol):
    """A copy at work."""

    flags: Flags
    intake: Intake
    store: StateStore

    @property
    def batch(self) -> int: ...
    @property
    def commits(self) -> bool: ...
    @property
    def undecided(self) -> bool: ...
    @property
    def data_wait(self) -> bool: ...


class TentativeLine:
    """The line of one copy, from a restored image on."""

    def __init__(
        self,
        of: LineOwner,
        job: JobView,
        layout: UnitLayout,
        processing: Processing,
        outputs: Outputs,
        around: HostServices,
    ) -> None:
        self._of, self._job, self._unit_name = of, job, layout.unit.name
        self._code, self._traces = LineCode(job, layout, around), around.doing.traces
        self._processing, self._outputs = processing, outputs
        self._able = self._unit_name in job.tentative and self._unit_name in job.forking
        under = below(job.layouts) if self._able else {}
        self._above = frozenset(name for name, units in under.items() if self._unit_name in units)
        self._state = LineState()
        self._fork: ForkedStore | None = None
        self._unit: Unit | None = None
        self._absent: tuple[frozenset[str], Mapping[Partition, Set[int]]] = frozenset(), {}
        self._forked_at = 0

    # -- what happens to it -------------------------------------------------------------------------------------------

    def offered(self, news: bool, partition: Partition) -> bool:
        """True if what came makes a turn due: for the line each frame of another unit may."""
        of = self._of
        works = of.flags.process or of.flags.commit or of.intake.urgent
        return works and (news or (self._state.state is not State.OFF and partition in of.intake.inputs))

    def end(self) -> None:
        """The fork is no view of the state any more, or nobody needs the line."""
        self._drop_fork()
        self._code.close()
        self._of.intake.inputs.end_line()
        self._state.state = State.OFF

    # -- its part of a turn -------------------------------------------------------------------------------------------

    def due_ms(self, now_ms: float) -> float:
        if self._state.state is State.OFF:
            return now_ms if self._out() not in ("", self._state.banned) and self._leads else math.inf
        sight = self._sight()
        if self._state.state is State.FORKED and sight.stands and sight.ahead:
            return now_ms
        return self._state.due_ms(sight, now_ms)

    def look(self, now_ms: float) -> None:
        """Does one batch at most: stable ones come first."""
        if not self._able or (self._state.state is State.OFF and not self._out()):
            return
        match self._state.look(self._sight(), now_ms):
            case Do.LISTEN:
                self._of.intake.inputs.begin_line(self._of.batch)
                self._code.start(self._ban)
            case Do.FORK:
                self._fork = ForkedStore(self._of.store)
                self._unit, self._forked_at = self._processing.forked(self._fork, self._code.build), self._of.batch
                self._process()
            case Do.PROCESS:
                self._process()
            case Do.JOIN:
                self._drop_fork()
                self._of.intake.inputs.passed(self._of.batch)
            case Do.END:
                self.end()
            case Do.NOTHING:
                if self._state.state is State.LISTENS:
                    self._of.intake.inputs.passed(self._of.batch)

    def _drop_fork(self) -> None:
        if self._fork is not None:
            self._fork.end()
        self._fork = self._unit = None

    def _out(self) -> str:
        """The outages of units above, in words; empty: none is out, or the job has no tentative results."""
        if not self._able or self._job.assigned.format < formats.TENTATIVE:
            return ""
        out = self._job.assigned.out(self._job.job_key)
        if any(one.banned for one in out.values()):
            return ""
        return " ".join(f"{name}.{one.number}" for name, one in sorted(out.items()) if name in self._above)

    def _sight(self) -> LineView:
        of = self._of
        on = self._state.state is not State.OFF and self._code.ready and self._outputs.takes_tentative
        done = max(self._state.done, of.batch)
        next = of.intake.inputs.following(done, self._writers()) if on else None
        behind = self._fork is not None and next is not None and next > done + 1 and of.batch > self._forked_at
        void = behind or (self._fork is not None and self._fork.void)
        return LineView(self._leads, self._out(), of.batch, not of.data_wait, ahead=next is not None, void=void)

    @property
    def _leads(self) -> bool:
        """The copy may fork. Rows are final up to the position: a fork before it would make them tentative again."""
        of = self._of
        works = of.commits and of.flags.process and of.flags.send and not of.undecided and not self._processing.ended
        return works and of.batch >= self._outputs.delivery.delivered

    def _writers(self) -> Mapping[Partition, Set[int]]:
        """By partition, the writers that nobody waits for."""
        out = frozenset(self._job.assigned.out(self._job.job_key))
        if out != self._absent[0]:
            units = silent(directly_above(self._job.layouts), self._job.forking, out)
            senders = self._job.senders
            inputs = self._of.intake.inputs
            found = {one: {n for n, unit in senders.get(one, {}).items() if unit in units} for one in inputs}
            self._absent = out, found
        return self._absent[1]

    def _process(self) -> None:
        assert self._unit is not None
        assert self._fork is not None
        inputs, absent = self._of.intake.inputs, self._writers()
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
            self._traces.runs(key, self._of.batch + 1)
        if len(self._fork) > MAX_FORK_KEYS:
            self._ban(f"its fork holds {plural(len(self._fork), 'key')}")
            return
        self._state.processed(batch)
        inputs.passed(batch)
        sinks = [sink for sink in produced.sinks if sink.task.operator.params.get("tentative")]
        ahead = Ahead(batch, sinks, self._job.assigned.fidelity(self._job.job_key))
        self._outputs.send_tentative(ahead, produced.sent)

    def _ban(self, why: str) -> None:
        _log.warning("no tentative results of a unit", unit=self._job.key(self._unit_name), why=why)
        self._state.ban(self._out())
        self.end()
