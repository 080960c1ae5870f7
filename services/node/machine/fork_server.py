"""Fork server: a process that has loaded the modules of a cluster's processes, which are forks of it.

Where it cannot fork, because it has not loaded yet, has ended, or the system is not Linux, a process is started by
itself. The server's part is services/process/fork_server.py.
"""

from __future__ import annotations

import ctypes
import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec

from holdfast.services.node.machine.messages import say
from holdfast.services.node.machine.processes import (
    ENVIRONMENT,
    Child,
    Launch,
    Started,
    processor_s,
    service_command,
    spawn,
)
from holdfast.services.node.machine.restarts import Restarts
from holdfast.services.process.fork_server import MOST_BYTES, READY, REQUESTS, UNFIT, Request

MODULE = "holdfast.services.process.fork_server"
ANSWER_S = 10.0
"""A server that has not forked after so long is ended: it hangs, or is stopped."""
PR_SET_CHILD_SUBREAPER = 36
AT_START = ("PYTHON", "POLARS", "ARROW", "LD_", "MALLOC", "OMP", "OPENBLAS")
"""Prefixes of variables that an interpreter or a library reads once, at its start: a fork has those of the server."""


class Forked:
    """A process that a server has forked, and that is a child of ours."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def wait(self) -> int:
        """Exit status, minus the signal's number if a signal ended it."""
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode


class ForkServer:
    """Fork server of one supervisor. Its methods are for one thread.

    Args:
        modules: modules that it loads.
        environment: own variables of the server, which /proc shows for its forks as well.
    """

    def __init__(self, modules: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self._modules = modules
        self._own = environment or {}
        self._child: Child | None = None
        self._socket: socket.socket | None = None
        self._loaded = False
        self._unfit = sys.platform != "linux"
        self._restarts = Restarts()
        self._began_s = 0.0
        self._due_s = 0.0

    @property
    def pid(self) -> int | None:
        """Process id of the server; None while there is none."""
        return self._child.pid if self._child is not None and self._child.running else None

    @property
    def processor_s(self) -> float:
        """Processor time of the server, so far."""
        return 0.0 if self.pid is None else processor_s(self.pid)

    def provide(self) -> None:
        """Starts the server if there is none; one that ended is started again later, with the lowest priority."""
        child = self._child
        if child is not None and not child.running:
            self._unfit = child.returncode == UNFIT
            self._due_s = time.monotonic() + self._restarts.delay_s(time.monotonic() - self._began_s)
            self._forget()
        if self._child is None and not self._unfit and time.monotonic() >= self._due_s:
            self._begin(("--nice",) if self._began_s else ())

    def loads(self, timeout_s: float) -> bool:
        """Waits for the end of loading. True while the server still loads."""
        if self._socket is None or self._loaded or self._child is None:
            return False
        self._socket.settimeout(timeout_s)
        try:
            self._loaded = self._socket.recv(len(READY)) == READY
        except (TimeoutError, BlockingIOError):
            return self._child.running
        except OSError:
            pass
        return False

    def start(self, launch: Launch) -> Started:
        """Starts a process, as a fork if the server can. Raises OSError if it cannot be started either way."""
        return self._fork(launch) or spawn(launch)

    def close(self) -> None:
        """Ends the server. Its forks continue."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
        self._forget()

    def _begin(self, how: Sequence[str]) -> None:
        self._began_s = time.monotonic()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = service_command(MODULE, *how, *self._modules)
        with theirs:
            try:
                own = {**ENVIRONMENT, **self._own}
                self._child = Child(command, log=None, environment=own, descriptors={REQUESTS: (theirs.fileno(),)})
            except OSError as error:
                say(f"the fork server cannot be started: {error}")
                self._due_s = time.monotonic() + self._restarts.delay_s(0)
                self._forget()

    def _forget(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._child = None
        self._socket = None
        self._loaded = False

    def _fork(self, launch: Launch) -> Started | None:
        """A process that the server forked; None if there is no server that can."""
        self.loads(0)
        module = _module(launch.command)
        if self._socket is None or self._child is None or not self._loaded or not module:
            return None
        if _at_start(launch.environment) != _at_start(self._child.environment):
            return None
        request = Request(
            module=module,
            parent=os.getpid(),
            environment=dict(launch.environment),
            command=list(launch.command),
            directory="" if launch.directory is None else str(launch.directory),
            output=launch.output is not None,
            descriptors={name: len(numbers) for name, numbers in launch.descriptors.items()},
        )
        asked = msgspec.json.encode(request)
        if len(asked) > MOST_BYTES:
            return None
        output = () if launch.output is None else (launch.output,)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            sent = (theirs.fileno(), *output, *(one for numbers in launch.descriptors.values() for one in numbers))
            _adopt(True)
            try:
                with theirs:
                    socket.send_fds(self._socket, [asked], sent)
                ours.settimeout(ANSWER_S)
                pid = ours.recv(32)
                if pid:
                    ours.send(b"1")
                    return Forked(int(pid))
            except OSError:  # it hangs, or has ended
                self._kill()
            finally:
                _adopt(False)
        return None

    def _kill(self) -> None:
        if self._child is not None:
            self._child.kill()
        self._loaded = False


def _module(command: Sequence[str]) -> str:
    """Module that a command runs by this interpreter, without arguments; empty for other commands."""
    *start, module = command
    return module if tuple(start) == service_command("")[:-1] else ""


def _at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(AT_START)}


def _adopt(wanted: bool) -> None:
    """Makes descendants whose parent ends children of ours, or no more. Only around a fork: nobody waits for others."""
    with suppress(AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(wanted))
