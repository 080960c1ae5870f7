"""The hosts of a simulated cluster: workers, and Spark drivers without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Set
from functools import partial
from typing import Any, Protocol
from unittest import mock

from holdfast.schemas import formats
from holdfast.schemas.costs import Costs
from holdfast.schemas.heartbeats import LINE, At, Heartbeat, encode
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.hosting.heartbeats import Reporting
from holdfast.services.hosting.identity import Identity
from holdfast.services.hosting.present_work import PresentWork
from holdfast.services.hosting.traces import Traces
from holdfast.services.hosting.watchdog import Watchdog
from holdfast.services.kernel.state.image import MemoryImage
from holdfast.services.recovery.core.unit.facts.crashes import MOST_FAULTS
from holdfast.services.spark.host import HOSTS, Host
from holdfast.services.worker.process import loop
from holdfast.services.worker.process.loop import Worker
from tests.simulation.kafka.blocking import LinkBlocking
from tests.simulation.kafka.names import TOPICS
from tests.simulation.observers.captures import Asked, Captures
from tests.simulation.observers.formats import reading
from tests.simulation.observers.images import Images
from tests.simulation.processes.engine import FakeEngine, SharedNotes
from tests.simulation.processes.jobs import STRICT
from tests.simulation.processes.services import (
    BEAT_US,
    MAX_IDLE_US,
    MIN_IDLE_US,
    ODD_VERSIONS,
    VERSIONS,
    Incarnation,
    Process,
)
from tests.support.odd import ODD
from tests.support.raising import on

PATIENCE_S = 1.0
"""Patience of a host with its loop."""
IDLES_US = (10_000, 20_000, MAX_IDLE_US)


class Dies(BaseException):
    """User code ends the process that runs it."""

    def __init__(self, at: At) -> None:
        self.at = at
        super().__init__(str(at))


INJECTED = "injected"


MOST_ERRORS = MOST_FAULTS - 2
"""Errors of a unit in a history: fewer than recovery bears in a row, and pauses that are shorter than a history's
end.
"""


class Errors:
    """Unexpected errors that copies are to meet."""

    def __init__(self) -> None:
        self._due: Counter[tuple[str, str]] = Counter()
        self._met: Counter[str] = Counter()

    def ask(self, unit: str, what: str, count: int) -> None:
        """what: `batch`, `loading` or `restoring`."""
        self._due[unit, what] = count

    def end(self) -> None:
        """None is due any more."""
        self._due.clear()

    def look(self, unit: str, what: str) -> None:
        """Raises if one is due."""
        if self._due[unit, what] > 0 and self._met[unit] < MOST_ERRORS:
            self._due[unit, what] -= 1
            self._met[unit] += 1
            raise RuntimeError(f"{INJECTED} while {what}")


class DeadlyTraces(Traces):
    """Dies where a unit's work is deadly. deadly: from which batch on, by unit. lines: names of the units whose
    tentative batches are. processes: whether a unit does here. errors: raised where they are due."""

    def __init__(
        self, deadly: Mapping[str, int], lines: Set[str], processes: Callable[[str], bool], errors: Errors
    ) -> None:
        super().__init__()
        self._deadly, self._lines, self._processes, self._errors = deadly, lines, processes, errors

    def runs(self, unit: str, batch: int, what: str = "") -> Traces:
        if what == LINE and unit.rpartition("/")[2] in self._lines:
            raise Dies(At(unit, 0, LINE))
        if what:
            return super().runs(unit, batch, what)
        if batch >= self._deadly.get(unit, batch + 1) and self._processes(unit):
            raise Dies(At(unit, batch))
        self._errors.look(unit, "batch")
        return super().runs(unit, batch)

    def beside(self, unit: str, what: str, call: Callable[[], Any]) -> Callable[[], Any]:
        def done() -> Any:
            self._errors.look(unit, what)
            return call()

        return super().beside(unit, what, done)


class Hosting(Reporting, Protocol):
    """A worker or a Spark driver."""

    doing: PresentWork

    @property
    def leads(self) -> bool: ...


class HostProcess(Process):
    """A process that hosts copies.

    mute: its heartbeats are lost; late_us: they come so much later.
    stuck: its loop does not turn, and its watchdog ends it after a while: `ends`.
    hung: and nothing can end it, not even the end of all faults.
    host: None as long as it has not reached the broker.
    versions: of its libraries.
    reads: the newest format that it reads.
    """

    versions: Mapping[str, str] = VERSIONS
    reads = formats.FIRST

    def __init__(self, of: Incarnation, zone: str) -> None:
        self._zone = zone
        self._idle_us = of.random.choice(IDLES_US)
        self.mute = self.stuck = self.hung = False
        self.ends: Callable[[], None] = lambda: None
        self.late_us = 0
        self.host: Hosting | None = None
        super().__init__(of)

    def begin_beating(self, host: Hosting, assigned: Assigned) -> None:
        """Once it has reached the broker. assigned: how units stand where it begins to read."""
        self.host = host
        self.began(host.decided + 1, assigned)
        self._signs = self.link.appender("heartbeats")
        states = lambda: {copy.state for copy in host.copies()}  # noqa: E731
        self._watchdog = Watchdog(host.doing, PATIENCE_S, states, self._hangs, self.clock_ms)
        self.timeline.after(self.random.randint(0, BEAT_US), self._beat)

    def _hangs(self, cause: str) -> None:
        if not self.hung:
            self.ends()

    @property
    def leaving(self) -> bool:
        return self.alive and self.host is not None and self.host.leaving

    def _beat(self) -> None:
        if not self.alive:
            return
        self.timeline.after(BEAT_US + self.random.randint(0, 2_000), self._beat)
        if self.frozen or self.mute or self.host is None:
            return
        self._watchdog.look()
        if not self.alive:
            return
        self._signs.poll()
        record = encode(
            Heartbeat(
                worker=self.name,
                incarnation=self.own,
                time_ms=self.time_ms(),
                zone=self._zone,
                slots=self.host.identity.slots,
                standbys=self.host.identity.standbys,
                decided=self.host.decided,
                versions=dict(self.versions),
                copies=self.host.copies(),
                hosts=self.host.identity.hosts,
                leaving=self.host.leaving,
                turn=self._watchdog.turn,
                costs=self._costs(),
                reads=self.reads,
            )
        )
        partition = Partition(TOPICS.heartbeats, 0)
        self.timeline.after(self.late_us, lambda: self._signs.append(partition, record))

    def _costs(self) -> tuple[Costs, ...]:
        return ()


class WorkerProcess(HostProcess):
    """A worker. costing: its heartbeats carry the costs of all copies."""

    def __init__(
        self,
        of: Incarnation,
        zone: str,
        slots: int,
        images: Images,
        captures: Captures,
        deadly: Mapping[str, int],
        deadly_lines: Set[str],
        errors: Errors,
        versions: Mapping[str, str] = VERSIONS,
        costing: bool = False,
        standbys: int = -1,
        old: bool = False,
    ) -> None:
        self.reads = formats.FIRST if old else formats.NEWEST
        self.versions, self._costing, self._standbys = versions, costing, standbys
        self._slots, self._images, self._captures, self._deadly = slots, images, captures, deadly
        self._errors, self._deadly_lines = errors, deadly_lines
        self.dies: Callable[[At], None] = lambda at: None
        kind = ODD if versions == ODD_VERSIONS else ("lenient", STRICT)[int(of.own[-1]) % 2]
        self._version = f"{kind}-{of.name}"
        self.worker: Worker | None = None
        super().__init__(of, zone)

    def start(self) -> None:
        with reading(self.reads), mock.patch.object(loop, "Scheduler", partial(Asked, self._captures)):
            self._start()

    def _start(self) -> None:
        self.worker = Worker(
            Identity(self.name, self.own, self._zone, self._slots, standbys=self._standbys),
            self.link,
            TOPICS,
            clock_ms=self.clock_ms,
            time_ms=self.time_ms,
            image=lambda _: MemoryImage(),
            deliveries=LinkBlocking(self.link),
            restores=LinkBlocking(self.link),
            watch=LinkBlocking(self.link),
            answers=LinkBlocking(self.link),
            doing=PresentWork(DeadlyTraces(self._deadly, self._deadly_lines, self._processes, self._errors)),
        )
        self.begin_beating(self.worker, self.worker._decisions.assigned)

    def turn(self) -> int:
        if self.worker is None or self.stuck:  # without a broker it has not begun
            return MAX_IDLE_US
        try:
            with on(self._version), reading(self.reads):
                self.worker.turn()
        except Dies as death:
            self.dies(death.at)
            return MAX_IDLE_US
        self.worker.doing.turned()
        self._images.look(self.own, self.worker)
        self._captures.look(self.own, self.worker, self.shown_ms)
        wait_us = (self.worker.next_deadline - self.clock_ms()) * 1000
        return int(max(MIN_IDLE_US, min(wait_us, self._idle_us)))

    def _costs(self) -> tuple[Costs, ...]:
        here = [] if self.worker is None or not self._costing else [copy.unit for copy in self.worker.copies()]
        return () if self.worker is None else self.worker.costs(here)

    def _processes(self, unit: str) -> bool:
        copy = None if self.worker is None else self.worker._copies.here.get(unit)
        return copy is not None and copy.core.flags.process


class DriverProcess(HostProcess):
    """A Spark driver over an engine that is none."""

    def __init__(self, of: Incarnation, shared: SharedNotes) -> None:
        self._shared = shared
        self.driver: Host | None = None
        super().__init__(of, "")

    def start(self) -> None:
        self.driver = Host(
            Identity(self.name, self.own, hosts=HOSTS),
            self.link,
            TOPICS,
            engine=lambda plan, spark, topics: FakeEngine(self, self._shared, plan, spark, topics),
            fault=lambda: "",
            clock_ms=self.clock_ms,
            time_ms=self.time_ms,
            wait=lambda seconds: None,
        )
        self.begin_beating(self.driver, self.driver._decisions.assigned)

    def turn(self) -> int:
        if self.driver is None or self.stuck:
            return MAX_IDLE_US
        self.driver.turn()
        self.driver.doing.turned()
        wait_us = (self.driver.next_deadline - self.clock_ms()) * 1000
        return int(max(MIN_IDLE_US, min(wait_us, self._idle_us)))
