"""`holdfast try --watch`: the run is repeated, in a new process, whenever a file that it reads has changed.

A new process sees new code of Python operators, too. Between two runs the command looks at the files' times, which
costs some microseconds a look: no library for events of file systems is needed.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast.services.cli.terminal import print_plain

LOOK_S = 0.3
State = tuple[tuple[int, int, int] | None, ...]


def state_of(files: Sequence[Path]) -> State:
    """Inode, size and time of change of each file; None: it is not there."""
    return tuple(_of(file) for file in files)


def _of(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def watch(files: Sequence[Path], run: Callable[[], object], rest: Callable[[float], None] = time.sleep) -> None:
    """Runs, then again after each change, until Ctrl-C.

    A file that is gone, as while an editor saves it, is waited for. A change that comes during a run counts: the
    state is taken before it.
    """
    try:
        while True:
            before = state_of(files)
            run()
            print_plain(f"watching {', '.join(map(str, files))}; Ctrl-C ends it", stderr=True)
            while (now := state_of(files)) == before or None in now:
                rest(LOOK_S)
    except KeyboardInterrupt:
        print_plain("no longer watched", stderr=True)


def run_once(arguments: Sequence[str]) -> int:
    """`holdfast try` with these arguments in a process of its own; its exit status."""
    process = subprocess.Popen([sys.executable, "-P", "-m", "holdfast.services.cli", "try", *arguments])
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.wait()  # the terminal has interrupted it, too
        raise
    finally:
        if process.poll() is None:
            process.kill()
