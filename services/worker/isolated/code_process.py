"""The worker's side of a process that runs users' code: starts it, sends it batches, watches it, ends it.

The process is a new interpreter, because a forked process with threads may hang. It has the worker's libraries and
search path, but none of its files and connections, and none of the cluster's settings, which hold secrets.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import msgspec

from holdfast.services.hosting.memory import MIB, NEAR
from holdfast.services.kernel.errors import Divergence, HoldfastError, InvalidRecord, Retriable
from holdfast.services.kernel.operators.user_code import CodeUnavailable
from holdfast.services.process.usage import resident_bytes
from holdfast.services.worker.isolated.channel import Channel, Garbage, PeerEnded, pair
from holdfast.services.worker.isolated.isolation import Isolation
from holdfast.services.worker.isolated.messages import (
    Batch,
    Found,
    FromCode,
    Open,
    Opened,
    Page,
    Raised,
    decode_from_code,
    encode,
)

LOOK_MS = 100
"""Time between two checks of the memory of a process that computes. Its end is noticed at once."""
NICE, LESS_NICE = 19, 5
LAST_WORDS_S = 0.5
"""Time for a process that hangs to print its stacks, or for a process that closed its side to end."""
ENVIRONMENT = {"PYTHONHASHSEED": "0", "POLARS_MAX_THREADS": "1", "PYTHONUNBUFFERED": "1"}
"""The environment of such a process, equal to that of a worker (PROTOCOL 4)."""

# The parent-death signal fires when the thread that started a process ends: this one lives as long as the worker does.
_starting = ThreadPoolExecutor(1, thread_name_prefix="starting-code")

_KINDS: tuple[type[HoldfastError], ...] = (InvalidRecord, Retriable, Divergence, CodeUnavailable)
ERRORS = {kind.__name__: kind for kind in _KINDS}
"""Errors that a task of Python code raises, by name."""


class CodeEnded(HoldfastError):
    """The process has ended or was ended. The text continues the phrase `the process of its code`."""


class CodeProcess:
    """The process of one task. `start` and `loaded` block and run beside the loop; any thread may call `close`."""

    def __init__(self, opening: Open, rules: Isolation) -> None:
        self._opening = opening
        self._rules = rules
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._poll = select.poll()
        self._pidfd = -1
        self._looked_s = 0.0
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The id of the running process; None if it does not run."""
        process = self._process
        return None if process is None or self._channel is None or process.poll() is not None else process.pid

    def start(self) -> None:
        """Starts a process that loads the code, and ends an earlier one. Raises CodeEnded.

        Loading has a low priority; after a crash, when a unit waits for it, a higher one.
        """
        niceness = NICE if self._process is None else LESS_NICE
        self.end()
        if self._closed:
            raise CodeEnded("is not needed any more")
        self._spawn(niceness)
        self.send(self._opening)

    def loaded(self) -> dict[str, str]:
        """Waits until the code is loaded. Returns its output columns.

        Raises:
            CodeEnded: the process ended while it loaded the code.
            CodeUnavailable: the code cannot be loaded.
        """
        message, _ = self.receive(Patience(self._rules.loading_s))
        if isinstance(message, Raised):
            self.end()
            raise error_of(message)
        if not isinstance(message, Opened):
            raise self.broken(f"it sent {type(message).__name__} before its code was loaded")
        return message.fields

    def _spawn(self, niceness: int) -> None:
        channel, descriptors = pair()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        environment |= ENVIRONMENT | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        numbers = (os.getpid(), niceness, *descriptors)
        command = [sys.executable, "-P", "-m", "holdfast.services.worker.isolated", *map(str, numbers)]
        try:
            process = _starting.submit(
                subprocess.Popen, command, env=environment, stdin=subprocess.DEVNULL, pass_fds=descriptors
            ).result()
        except OSError as error:
            channel.close()
            raise CodeEnded(f"could not be started: {error}") from None
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        with self._lock:
            self._process = process
            self._channel = channel
            self._poll = select.poll()
            self._poll.register(channel.fileno(), select.POLLIN)
            if hasattr(os, "pidfd_open"):
                self._pidfd = os.pidfd_open(process.pid)
                self._poll.register(self._pidfd, select.POLLIN)
            closed = self._closed
        if closed:
            raise self.broken("it is not needed any more")

    def send(self, message: Open | Batch | Found | Page, rows: object = b"") -> None:
        """Sends a message. Raises CodeEnded."""
        if self._channel is None:
            raise CodeEnded("had ended before")
        try:
            self._channel.send(encode(message), rows)
        except PeerEnded:
            raise self._ended() from None
        except Garbage as error:
            raise self.broken(str(error)) from None

    def receive(self, patience: Patience) -> tuple[FromCode, bytes]:
        """Returns the next message with its rows. Raises CodeEnded."""
        if self._channel is None:
            raise CodeEnded("had ended before")
        try:
            body, rows = self._channel.receive(lambda: self._await(patience))
            return decode_from_code(body), rows
        except PeerEnded:
            raise self._ended() from None
        except (Garbage, msgspec.DecodeError) as error:
            raise self.broken(f"it sent what is no message: {error}") from None

    def look(self) -> None:
        """Checks the memory of the process, at most ten times a second. Raises CodeEnded."""
        now_s = time.monotonic()
        limit_mb, process = self._rules.memory_mb, self._process
        if not limit_mb or process is None or now_s - self._looked_s < LOOK_MS / 1000:
            return
        self._looked_s = now_s
        with suppress(OSError):  # the process has ended
            used = resident_bytes(process.pid)
            if used > NEAR * limit_mb * MIB:
                raise self.broken(f"its memory is {used // MIB} MiB, near the limit HOLDFAST_MEMORY_MB={limit_mb}")

    def broken(self, why: str) -> CodeEnded:
        """Ends the process and returns the error with this reason."""
        self.end()
        return CodeEnded(f"was ended: {why}")

    def end(self) -> None:
        """Kills the process, which holds nothing that must be saved. Returns before it has ended."""
        with self._lock:
            process, channel, self._channel = self._process, self._channel, None
            pidfd, self._pidfd = self._pidfd, -1
        if channel is None or process is None:
            return
        process.kill()
        threading.Thread(target=process.wait, name=f"end of {process.pid}", daemon=True).start()
        channel.close()
        if pidfd >= 0:
            os.close(pidfd)

    def close(self) -> None:
        """Ends the process and prevents a later start."""
        with self._lock:
            self._closed = True
        self.end()

    def _await(self, patience: Patience) -> None:
        """Returns when there is input. Raises CodeEnded if the process has ended, hangs, or uses too much memory."""
        while not (ready := self._poll.poll(LOOK_MS)):
            self.look()
            if patience.over():
                raise self._hangs(patience)
        if all(descriptor == self._pidfd for descriptor, _ in ready):
            raise self._ended()  # while a process that it has started holds its side open

    def _hangs(self, patience: Patience) -> CodeEnded:
        """Ends the process. The process first prints the stack of each thread on its error stream, which is the
        worker's."""
        process = self._process
        if process is not None:
            process.send_signal(signal.SIGABRT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(LAST_WORDS_S)
        return self.broken(f"it took longer than {patience.limit_s:g} s, as HOLDFAST_LOOP_PATIENCE_S allows")

    def _ended(self) -> CodeEnded:
        process = self._process
        assert process is not None
        try:
            status = process.wait(LAST_WORDS_S)
        except subprocess.TimeoutExpired:
            return self.broken("it closed its side")
        self.end()
        return CodeEnded(_how(status))


class Patience:
    """The time limit of one piece of work. Only time in which the worker itself ran counts: if the whole machine was
    stopped, the code did not hang."""

    def __init__(self, limit_s: float, clock_s: Callable[[], float] = time.monotonic) -> None:
        self.limit_s = limit_s
        self._clock_s = clock_s
        self._spent_s = 0.0
        self._looked_s = clock_s()

    def over(self) -> bool:
        """True if the limit is exceeded. Must be called every LOOK_MS."""
        now_s = self._clock_s()
        self._spent_s += min(now_s - self._looked_s, 2 * LOOK_MS / 1000)
        self._looked_s = now_s
        return self._spent_s > self.limit_s


def error_of(raised: Raised) -> HoldfastError:
    """The error that the task's code raised in its process, to be raised here."""
    return ERRORS.get(raised.error, HoldfastError)(raised.text)


def _how(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    with suppress(ValueError):
        return f"was ended by signal {-status} ({signal.Signals(-status).name})"
    return f"was ended by signal {-status}"
