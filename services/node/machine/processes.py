"""Processes: children that die with us, log to a bounded file, or as we do, and are reported at once when they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Protocol

from holdfast.services.node.machine.bytecode import of_children
from holdfast.services.node.machine.log_limits import LogLimits

TETHER = Path(__file__).with_name("tether.py")
LIMITS = LogLimits()
# Pure operators need a fixed hash seed; several workers on one machine need no thread pools (PROTOCOL 4).
ENVIRONMENT = {"PYTHONHASHSEED": "0", "POLARS_MAX_THREADS": "1", "PYTHONUNBUFFERED": "1"}
FAULTS = {"PYTHONFAULTHANDLER": "1"}
"""A process that crashes in a library's code says in its log where each thread stood."""

# The parent-death signal fires when the *thread* that forked ends, not the process. So one thread forks for all, and
# lives as long as the process does.
_forking = ThreadPoolExecutor(1, thread_name_prefix="forking")
NONE: Mapping[str, Sequence[int]] = {}


@dataclass(frozen=True, slots=True)
class Launch:
    """A process to start.

    command: program and arguments.
    output: descriptor for its output and errors; None: ours.
    environment: its whole environment, but for the names of descriptors.
    directory: current directory; None: ours.
    descriptors: descriptors that it inherits, by the variable of its environment that names their numbers.
    """

    command: Sequence[str]
    output: int | None
    environment: Mapping[str, str]
    directory: Path | None
    descriptors: Mapping[str, Sequence[int]]


class Started(Protocol):
    """A child process of ours.

    returncode: exit status, as `wait` returns it; None before.
    """

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    def wait(self) -> int:
        """Waits for its exit status, which is minus the signal's number if a signal ended it."""
        ...


def spawn(launch: Launch) -> Started:
    """Starts a process by its program. Raises OSError."""
    names = {name: ",".join(map(str, numbers)) for name, numbers in launch.descriptors.items()}
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(TETHER), str(os.getpid()), *launch.command],
        stdin=subprocess.DEVNULL,
        stdout=launch.output,
        stderr=None if launch.output is None else subprocess.STDOUT,
        env={**launch.environment, **names},
        cwd=launch.directory,
        process_group=0,  # the session stays: Linux may group by session, and niceness then counts only within one
        pass_fds=[one for numbers in launch.descriptors.values() for one in numbers],
    )


class Child:
    """A process of ours, in a process group of its own.

    Linux kills it when we die, however we die. When it ends, what is left of its group is killed, then `on_exit` is
    called once, from the thread that waits for this child.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        log: Path | None,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        on_exit: Callable[[Child], None] | None = None,
        descriptors: Mapping[str, Sequence[int]] = NONE,
        limits: LogLimits = LIMITS,
        start: Callable[[Launch], Started] = spawn,
    ) -> None:
        """Start `command`, its output appended to `log`, or None: to ours; `environment` is laid over our own.

        `descriptors` are inherited; a variable names the numbers of each group. Raises OSError when the process cannot
        be started; a program that does not exist shows as exit status 1 and in the log.
        """
        self.command = tuple(command)
        self.environment = {**of_children(), **FAULTS, **_names(os.environ), **(environment or {})}
        self.log = log
        self._on_exit = on_exit
        self._ended = threading.Event()
        self._reaping = threading.Lock()
        launch = Launch(
            command=self.command,
            output=None,
            environment=self.environment,
            directory=directory,
            descriptors=descriptors,
        )
        self._process = _forking.submit(_start, launch, log, limits, start).result()
        threading.Thread(target=self._await_end, name=f"exit of {self.pid}", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit status, minus the signal's number if a signal ended it; None while it runs."""
        return self._process.returncode if self._ended.is_set() else None

    @property
    def running(self) -> bool:
        return not self._ended.is_set()

    def wait(self, timeout_s: float | None = None) -> int:
        """Waits for the exit status. Raises TimeoutError."""
        if not self._ended.wait(timeout_s):
            raise TimeoutError(f"process {self.pid} ({self.command[0]}) still runs after {timeout_s} s")
        return self._process.wait()  # known by now

    def send(self, number: signal.Signals, *, alone: bool = False) -> None:
        """Send a signal to the whole group, or to the process alone; nothing happens if it has ended."""
        with self._reaping:  # the group's number cannot be given to others while its leader is not reaped
            if self._process.returncode is None:
                (os.kill if alone else _signal_group)(self.pid, number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)

    def stop(self, grace_s: float = 10.0, number: signal.Signals = signal.SIGTERM, *, alone: bool = False) -> int:
        """Ask it to end, and kill it if it has not after `grace_s`; returns the exit status.

        Args:
            alone: what it has started is not asked, since it needs that until its end.
        """
        self.send(number, alone=alone)
        try:
            return self.wait(grace_s)
        except TimeoutError:
            self.kill()
            return self.wait()

    def _await_end(self) -> None:
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        with self._reaping:
            _signal_group(self.pid, signal.SIGKILL)
            self._process.wait()
        self._ended.set()
        if self._on_exit is not None:
            self._on_exit(self)


def service_command(module: str, *arguments: str) -> tuple[str, ...]:
    """The command that runs a module of the product with this interpreter. With -P, a `json.py` in the person's current
    folder does not replace a library.
    """
    return (sys.executable, "-P", "-m", module, *arguments)


def _names(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables with which Java finds files whose names are not ASCII where the locale is C. Python needs none."""
    return {"LC_ALL": "C.UTF-8"} if environment.get("LC_ALL") in ("C", "POSIX") else {}


def dying_status(pid: int) -> int | None:
    """The exit status of a process that is dying, long before it can be waited for; None where the kernel does not say.

    It is the last field of its `stat`, written before its memory is freed: some 100 ms before its parent gets it.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    code = int(fields[-1])
    number = code & 0x7F
    return (-number if number else code >> 8) if code else None


def processor_s(pid: int) -> float:
    """Processor time that a process has taken so far, in seconds; 0 where the kernel does not say."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def parent_of(pid: int) -> int | None:
    """The process that started it, None if it has ended."""
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(status.rpartition(b")")[2].split()[1])


def tail(log: Path | None, lines: int = 20) -> str:
    """The last lines of a log, for the message about a failed child; empty if there is no log."""
    if log is None or not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 64 * 1024))
        return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])


def _start(launch: Launch, log: Path | None, limits: LogLimits, start: Callable[[Launch], Started]) -> Started:
    with nullcontext() if log is None else open_log(log, limits) as output:
        return start(launch if output is None else replace(launch, output=output.fileno()))


def open_log(log: Path, limits: LogLimits = LIMITS) -> BinaryIO:
    """The log file to append to, for its owner's eyes alone; a full one is renamed first.

    If no file can be made, the lines are dropped.
    """
    try:
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if limits.exceeded(log):
            limits.rotate(log)
        return os.fdopen(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab")
    except OSError:
        return open(os.devnull, "ab")


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, number)
