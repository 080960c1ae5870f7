"""The process that asks Spark about operators: it starts with the first question, and ends a while after the last one.

Source: PROTOCOL 12. A JVM takes longer to start than to answer, and a job may have several operators.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

import msgspec

from holdfast.schemas.analysis import ANSWER_S, LENGTH_BYTES, Answer, Question, decode_answer, encode, framed

LINGER_S = 120.0
"""Time after an answer for which the session is kept: a user may correct a job and submit it again."""
END_S = 300.0
"""Longest time that the process takes to end after its last answer: it may write an archive of class data."""
MOST = 100
"""Largest number of questions to one process, since each leaves some memory used in the JVM."""
_LINES = 3
COMMAND = (sys.executable, "-P", "-m", "holdfast.services.spark.analysis")


class NoAnswer(Exception):
    """Spark could not be asked; the message states the cause."""


@dataclass(eq=False, slots=True)
class _Process:
    """A running process.

    said: its stderr.
    asked: number of questions so far.
    timer: ends the process when it fires.
    """

    child: subprocess.Popen[bytes]
    said: IO[bytes]
    asked: int = 0
    timer: threading.Timer | None = None

    def end(self) -> None:
        """Signals that no question follows, and waits for the end of the process."""
        assert self.child.stdin is not None
        with suppress(OSError, subprocess.TimeoutExpired):
            self.child.stdin.write(framed(b""))
            self.child.stdin.flush()
            self.child.wait(END_S)
        self.kill()

    def kill(self) -> None:
        """Kills the process, its forks and its JVM."""
        if self.timer is not None:
            self.timer.cancel()
        with suppress(ProcessLookupError):
            os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait()
        for pipe in (self.child.stdin, self.child.stdout, self.said):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()


class Analyst:
    """Asks one question at a time, from any thread. Its process ends by itself when the controller's process ends."""

    def __init__(self, command: tuple[str, ...] = COMMAND, linger_s: float = LINGER_S) -> None:
        self._command = command
        self._linger_s = linger_s
        self._lock = threading.Lock()
        self._process: _Process | None = None

    @property
    def running(self) -> bool:
        """True if the next question finds a process."""
        with self._lock:
            return self._process is not None

    def ask(self, question: Question, within_s: float = ANSWER_S) -> Answer:
        """Returns the answer to the question. Raises NoAnswer if Spark does not answer within the time."""
        with self._lock:
            process = self._started()
            try:
                answer = _answered(process, framed(encode(question)), within_s)
            except NoAnswer:
                self._process = None
                process.kill()
                raise
            process.asked += 1
            process.timer = threading.Timer(self._linger_s if process.asked < MOST else 0.0, self._end, [process])
            process.timer.daemon = True
            process.timer.start()
            return answer

    def close(self) -> None:
        """Ends the process at once."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.kill()

    def _started(self) -> _Process:
        process, self._process = self._process, None
        if process is not None:
            assert process.timer is not None
            process.timer.cancel()
            if process.child.poll() is None:
                self._process = process
                return process
            process.kill()
        said = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        child = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, process_group=0
        )
        self._process = _Process(child, said)
        return self._process

    def _end(self, process: _Process) -> None:
        with self._lock:
            if self._process is not process:
                return
            self._process = None
        process.end()


def _answered(process: _Process, question: bytes, within_s: float) -> Answer:
    ends_s = time.monotonic() + within_s
    assert process.child.stdin is not None
    try:
        process.child.stdin.write(question)
        process.child.stdin.flush()
        size = int.from_bytes(_read(process.child, LENGTH_BYTES, ends_s))
        return decode_answer(_read(process.child, size, ends_s))
    except TimeoutError:
        raise NoAnswer(f"Spark did not answer within {within_s:g} s") from None
    except (OSError, EOFError, msgspec.DecodeError):
        process.said.seek(0)
        lines = process.said.read().decode(errors="replace").strip().splitlines()[-_LINES:]
        raise NoAnswer(f"Spark could not be asked: {' / '.join(lines) or 'no reason given'}") from None


def _read(child: subprocess.Popen[bytes], size: int, ends_s: float) -> bytes:
    """Returns this number of bytes of the process's output. Raises EOFError and TimeoutError."""
    assert child.stdout is not None
    found = b""
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        while len(found) < size:
            if not selector.select(max(0.0, ends_s - time.monotonic())):
                raise TimeoutError
            if not (some := os.read(child.stdout.fileno(), size - len(found))):
                raise EOFError
            found += some
    return found
