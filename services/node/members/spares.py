"""Spares: a process that has loaded what a worker needs, and becomes the next worker that ended.

To load takes a core for a second, at the lowest priority: on a machine that is full some ten. A unit without a standby
waits for that, and all others are less protected meanwhile. The child's part is services/worker/process/spare.py.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from holdfast.services.node.machine.lifeline import Lifeline, lifeline
from holdfast.services.node.machine.processes import ENVIRONMENT, Child
from holdfast.services.node.machine.restarts import Restarts
from holdfast.services.worker.process.spare import TOLD_BY, Run

CALM_S = 2.0
"""A spare is made once every worker has run for so long: until then they need the machine."""


class Started(Protocol):
    """A member that takes spares.

    command: command of each of its runs.
    spare: returns a waiting spare, or None.
    """

    command: Sequence[str]
    spare: Callable[[], Spare | None]

    @property
    def pid(self) -> int | None: ...


class Spare:
    """A process that waits to become a member. Raises OSError if it cannot be started.

    line: its lifeline, where the system has one.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self.line: Lifeline | None = lifeline()
        self._lock = threading.Lock()
        self._gone = False
        self._ended: Callable[[Child], None] | None = None
        self._died: Callable[[], None] | None = None
        reading, self._telling = os.pipe()
        try:
            self.child = Child(
                command,
                log=None,
                environment={**ENVIRONMENT, TOLD_BY: str(reading), **(self.line.variable if self.line else {})},
                on_exit=self._exited,
                keep_open=(reading, *(self.line.descriptors if self.line else ())),
            )
        except OSError:
            os.close(self._telling)
            raise
        finally:
            os.close(reading)
        if self.line is not None:
            self.line.watch(self._dying)

    @property
    def gone(self) -> bool:
        return self._gone

    def become(
        self,
        environment: Mapping[str, str],
        log: Path | None,
        ended: Callable[[Child], None],
        died: Callable[[], None] | None,
    ) -> Child | None:
        """Makes the spare a worker with this environment; None if the spare has ended before.

        ended, died: called like those of a Child and a Lifeline from now on.
        """
        with self._lock:
            if self._gone:
                os.close(self._telling)
                return None
            self._ended, self._died = ended, died
        said = msgspec.json.encode(Run(dict(environment), "" if log is None else str(log)))
        try:
            os.write(self._telling, said)  # less than a pipe holds
        except BrokenPipeError:  # the spare is ending: its end is reported like that of any run
            return self.child
        finally:
            os.close(self._telling)
        return self.child

    def end(self) -> None:
        """Ends a spare that no worker has become."""
        os.close(self._telling)
        self.child.kill()
        self.child.wait()

    def _exited(self, child: Child) -> None:
        with self._lock:
            self._gone, ended = True, self._ended
        if ended is not None:
            ended(child)

    def _dying(self) -> None:
        if self._died is not None:
            self._died()


class Spares:
    """A spare process for members that run the same command, made again after each use. Its
    methods are for one thread.
    """

    def __init__(self, members: Sequence[Started]) -> None:
        self._members = members
        self._spare: Spare | None = None
        self._restarts, self._began_s, self._due_s = Restarts(), 0.0, 0.0
        self._pids: list[int | None] = []
        self._calm_since_s = time.monotonic()
        for member in members:
            member.spare = self.take

    @property
    def pid(self) -> int | None:
        """Id of the spare that waits."""
        return None if self._spare is None else self._spare.child.pid

    def provide(self) -> None:
        """Makes a spare if there is none, and every member has run for a while."""
        now, pids = time.monotonic(), [member.pid for member in self._members]
        if pids != self._pids:
            self._pids, self._calm_since_s = pids, now
        if self._spare is not None and self._spare.gone:
            self._due_s = now + self._restarts.delay_s(now - self._began_s)
            self.close()
        if self._spare is None and None not in pids and now >= max(self._due_s, self._calm_since_s + CALM_S):
            try:
                self._spare, self._began_s = Spare(self._members[0].command), now
            except OSError:
                self._due_s = now + self._restarts.delay_s(0)

    def take(self) -> Spare | None:
        """The waiting spare, for a member; None if there is none."""
        spare, self._spare = self._spare, None
        return spare

    def close(self) -> None:
        if self._spare is not None:
            self._spare.end()
            self._spare = None
