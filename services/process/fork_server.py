"""The process of a fork server: it loads the modules of a cluster's processes once, and each process is a fork of it.

To load takes a process 0.9 s of a core, ten seconds on a full machine; a fork takes some milliseconds, and shares the
memory of what is loaded. The supervisor's part is services/node/machine/fork_server.py.

`python -m holdfast.services.process.fork_server MODULE ...`: a variable names the descriptor of a socket from which it
takes requests, until the socket's other end is closed.

A fork has no thread of the server but the one that forks. The server itself has no other thread. Libraries have some:
those of jemalloc and OpenBLAS are ended before a fork and known to be gone behind it; polars' own deletes files of
queries that are larger than the memory, and sleeps. polars starts its pool of threads at its first use, which is in a
fork.
"""

from __future__ import annotations

import array
import ctypes
import gc
import os
import runpy
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path

import msgspec

from holdfast.services.kernel import lazy_modules
from holdfast.services.kernel.versions import installed
from holdfast.services.process.niced import niced

REQUESTS = "TAKES_REQUESTS"
"""Variable with the descriptor of the socket from which a server takes requests."""
READY = b"ready"
UNFIT = 3
"""Exit status of a server of which no fork can be made."""
MOST_BYTES, MOST_DESCRIPTORS = 1 << 20, 16
"""Limits of a request."""
ADOPTED_S = 10.0
"""A process whose parent is not the supervisor after so long ends."""
PR_SET_PDEATHSIG = 1
_ARGUMENTS_BEGIN, _ARGUMENTS_END = 45, 46
"""Fields of /proc/self/stat behind the name of the program."""


class Request(msgspec.Struct, frozen=True):
    """A process that the supervisor requests. Its descriptors come with the request, in the order of the fields.

    module: module that runs as `python -m` runs it.
    parent: process id of the supervisor.
    environment: whole environment.
    command: command line to show.
    directory: current directory; empty: the server's.
    output: True if a descriptor for the output is sent.
    descriptors: number of descriptors, by the variable of the environment that names them to the process.
    """

    module: str
    parent: int
    environment: dict[str, str]
    command: list[str]
    directory: str
    output: bool
    descriptors: dict[str, int]


class Loaded:
    """The files of the loaded modules, as they were when the server had loaded them."""

    def __init__(self) -> None:
        files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
        self._states = {file: _state(file) for file in sorted(one for one in files if isinstance(one, str))}

    def changed(self) -> str:
        """A file that has changed since, such as by an upgrade; empty if there is none."""
        return next((file for file, state in self._states.items() if _state(file) != state), "")


def _state(file: str) -> tuple[int, int] | None:
    try:
        known = os.stat(file)
    except OSError:
        return None
    return known.st_mtime_ns, known.st_size


def load(modules: Iterable[str], *, nice: bool = False) -> None:
    """Loads modules, and what they load at first use. nice: with the lowest priority, on Linux."""

    def run() -> None:
        for module in modules:
            import_module(module)
        lazy_modules.resolve()
        installed()

    if nice:
        niced(run)
    else:
        run()


def serve(requests: socket.socket, loaded: Loaded) -> Request | None:
    """Answers requests until their end. Returns twice: None in the server, and in each process its request."""
    while True:
        asked, descriptors = _received(requests)
        if not asked or loaded.changed():
            return None
        request = msgspec.json.decode(asked, type=Request)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which are those of libraries
            between = os.fork()
            if not between and os.fork():
                os._exit(0)  # its child becomes one of the supervisor
        if not between:
            requests.close()
            _become(request, descriptors)
            return request
        for one in descriptors:
            os.close(one)
        os.waitpid(between, 0)


def _received(requests: socket.socket) -> tuple[bytes, list[int]]:
    """A request and its descriptors; nothing at the end."""
    sent = array.array("i")
    room = socket.CMSG_SPACE(MOST_DESCRIPTORS * sent.itemsize)
    try:
        asked, with_it, _, _ = requests.recvmsg(MOST_BYTES, room)
    except ConnectionResetError:
        return b"", []  # the supervisor has ended, and has not read all
    for level, kind, content in with_it:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            sent.frombytes(content[: len(content) - len(content) % sent.itemsize])
    return asked, list(sent)


def _become(request: Request, descriptors: Sequence[int]) -> None:
    """Makes this process the requested one, once the supervisor is its parent; ends it if the supervisor has given up.

    The supervisor's answer comes after the process has told its id: a process that nobody waits for does not run.
    """
    if not _adopted(request.parent):
        os._exit(1)
    os.setpgid(0, 0)
    answers = socket.socket(fileno=descriptors[0])
    answers.send(str(os.getpid()).encode())
    if not answers.recv(1):
        os._exit(1)
    answers.close()
    rest = list(descriptors[1:])
    if request.output:
        output = rest.pop(0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
    os.environ.clear()
    os.environ.update(request.environment | _names(request.descriptors, rest))
    if request.directory:
        os.chdir(request.directory)
    _show(request.command)


def _adopted(parent: int) -> bool:
    """Waits until the supervisor is the parent, and ties this process to the supervisor's life. False if it is not."""
    until_s = time.monotonic() + ADOPTED_S
    while os.getppid() != parent:
        if time.monotonic() > until_s:
            return False
        os.sched_yield()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent  # it may have died before the signal was set


def _names(counts: Mapping[str, int], descriptors: list[int]) -> dict[str, str]:
    """Variables of the environment with the numbers of descriptors, which the process's own children do not inherit."""
    rest = iter(descriptors)
    return {name: ",".join(str(next(rest)) for _ in range(count)) for name, count in counts.items()}


def _show(command: Sequence[str]) -> None:
    """Shows a command line in the place of the server's, as long as that was at most."""
    fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    begin, end = int(fields[_ARGUMENTS_BEGIN]), int(fields[_ARGUMENTS_END])
    if not 0 < begin < end:
        return
    shown = b"\0".join(map(os.fsencode, command))[: end - begin - 1]
    ctypes.memset(begin, 0, end - begin)
    ctypes.memmove(begin, shown, len(shown))


def main(arguments: Sequence[str]) -> Request | None:
    """Serves until the end of the requests. Returns the request of the process that this one has become, if any."""
    modules = list(arguments)
    nice = modules[:1] == ["--nice"]
    load(modules[nice:], nice=nice)
    if (threads := threading.active_count()) > 1:
        print(f"the fork server has {threads} threads once it has loaded all: no process is a fork of it", flush=True)
        sys.exit(UNFIT)
    loaded = Loaded()
    gc.collect()
    gc.freeze()  # the pages of what is loaded stay shared
    requests = socket.socket(fileno=int(os.environ.pop(REQUESTS)))
    requests.send(READY)
    return serve(requests, loaded)


if __name__ == "__main__":
    became = main(sys.argv[1:])
    if became is not None:
        sys.argv = [became.module]
        runpy.run_module(became.module, run_name="__main__", alter_sys=True)
