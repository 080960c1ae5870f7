"""Members: the processes of a cluster that are started again whenever they end, each with its log."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from holdfast.schemas.heartbeats import At
from holdfast.services.node.machine.lifeline import Lifeline, lifeline
from holdfast.services.node.machine.log_limits import LogLimits
from holdfast.services.node.machine.processes import (
    ENVIRONMENT,
    LIMITS,
    NONE,
    Child,
    Launch,
    Started,
    dying_status,
    processor_s,
    service_command,
    spawn,
)
from holdfast.services.node.machine.restarts import Restarts

STOP_S = 10.0

Ended = Callable[["Member", str, int], None]
"""Called with the member, the name of the run that ended, and its exit status."""


class Member:
    """A service that must run.

    rest_s: least seconds between its end and its next start.
    log: its log; None: the log of its parent.
    stop_s: longest time in seconds for its end on request.
    ends_by: signal that requests its end.
    hands_over: true if it continues for a while after the request, with its own children, such as a JVM; otherwise all
        get the signal.
    dying: called like `ended`, once a run with a lifeline begins to die; None: it gets no lifeline.
    launch: starts the process of each run.
    command: command of each run.

    Args:
        environment: returns the environment of a run, given the run's name.
        new_run: names a run, given the former one's name; for a worker the incarnation.
        ended: called at once, from another thread, whenever a run ends.
        limits: limits of its log.
    """

    def __init__(
        self,
        name: str,
        module: str,
        log: Path | None,
        *,
        environment: Callable[[str], Mapping[str, str]],
        new_run: Callable[[str], str],
        ended: Ended,
        limits: LogLimits = LIMITS,
    ) -> None:
        self.name = name
        self.log = log
        self._limits = limits
        self.command: Sequence[str] = service_command(module)
        self._environment = environment
        self._new_run = new_run
        self._ended = ended
        self._restarts = Restarts()
        self.rest_s = 0.0
        self.stop_s = STOP_S
        self.ends_by = signal.SIGTERM
        self.hands_over = False
        self.dying: Callable[[Member, str], None] | None = None
        self.launch: Callable[[Launch], Started] = spawn
        self._child: Child | None = None
        self._lines: dict[str, Lifeline] = {}
        self._started = 0.0
        self._due: float | None = 0.0
        self.run = ""

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child is not None and self._child.running else None

    @property
    def restarts(self) -> int:
        return self._restarts.count

    @property
    def due(self) -> float | None:
        """The time to start it, on the monotonic clock; None while it runs."""
        return self._due

    def start(self) -> None:
        """Starts the process. Raises OSError if that fails; the process is then due again later."""
        try:
            self._start()
        except OSError:
            self.settle()
            raise

    def _start(self) -> None:
        self.run = run = self._new_run(self.run)
        self._due = None
        self._started = time.monotonic()
        dying = self.dying
        died = None if dying is None else lambda: dying(self, run)
        line = None if died is None else lifeline()
        self._child = Child(
            self.command,
            log=self.log,
            environment={**ENVIRONMENT, **self._environment(run)},
            on_exit=lambda child: self._ended(self, run, child.wait()),
            descriptors=line.descriptors if line else NONE,
            limits=self._limits,
            start=self.launch,
        )
        if line is not None and died is not None:
            line.watch(died)
        self._lines = {} if line is None else {run: line}

    @property
    def processor_s(self) -> float:
        """Processor time of its process, so far."""
        return 0.0 if self._child is None else processor_s(self._child.pid)

    @property
    def dying_status(self) -> int | None:
        """Exit status of its process, which is dying; None while it is not known."""
        return None if self._child is None else dying_status(self._child.pid)

    def left(self, run: str) -> tuple[At, ...]:
        """Present work of the process of a run, the last one, or its work when it ended; as far as it leaves traces."""
        return self._lines[run].left() if run in self._lines else ()

    def settle(self) -> float:
        """Notes the end of the process, and sets the time of the next start; returns its lifetime in seconds."""
        now = time.monotonic()
        lived = now - self._started
        self._due = now + max(self._restarts.delay_s(lived), self.rest_s)
        return lived

    def ask_to_stop(self) -> None:
        if self._child is not None:
            self._child.send(self.ends_by, alone=self.hands_over)

    def stop(self) -> None:
        """Waits for its end, and kills it if it does not come."""
        self._due = None
        if self._child is not None:
            self._child.stop(self.stop_s, self.ends_by, alone=self.hands_over)

    def bound_log(self) -> None:
        """Replaces the log by an empty one when it is full. Raises OSError."""
        if self.log is not None:
            self._limits.bound(self.log)
