"""`holdfast try --watch`: the run is repeated, in a new process, whenever a file that it reads has changed.

A new process sees new code of Python operators, too. Between two runs the command looks at the files' times, which
costs some microseconds a look: no library for events of file systems is needed. A time counts, whatever the content:
`touch` of a file repeats the run.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from holdfast.services.cli.terminal import print_plain

LOOK_S = 0.3
MODULES = 200
"""Number of Python files beside a job that are watched."""
State = Mapping[Path, tuple[int, int, int] | None]


def files_of(job: Path, inputs: Sequence[Path]) -> list[Path]:
    """Files that a run reads: the job file, inputs of the command and of the job file, Python files here."""
    modules = sorted(Path().glob("*.py"))[:MODULES]
    return list(dict.fromkeys([job, *inputs, *_declared(job), *modules]))


def _declared(job: Path) -> list[Path]:
    """Files that the sources of a job file name. Errors of the job file are left to the run."""
    import yaml

    if job.suffix == ".py":
        return []
    try:
        sources = yaml.safe_load(job.read_text())["sources"].values()
        return [job.parent / source["path"] for source in sources if isinstance(source.get("path"), str)]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, yaml.YAMLError):
        return []


def state_of(files: Sequence[Path]) -> State:
    """Inode, size and time of change of each file; None: it is not there."""
    return {file: _of(file) for file in files}


def _of(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def watch(
    find: Callable[[], Sequence[Path]], run: Callable[[], object], rest: Callable[[float], None] = time.sleep
) -> None:
    """Runs, then again after each change of the files that `find` names, until Ctrl-C.

    A file that is gone, as while an editor saves it, is waited for. A file that never was there holds nothing back. A
    change that comes during a run counts: the state is taken before it.
    """
    try:
        while True:
            before = state_of(find())
            run()
            print_plain(f"watching {', '.join(map(str, before))}; Ctrl-C ends it", stderr=True)
            while (now := state_of(find())) == before or _being_replaced(before, now):
                rest(LOOK_S)
    except KeyboardInterrupt:
        print_plain("no longer watched", stderr=True)


def _being_replaced(before: State, now: State) -> bool:
    return any(was is not None and now.get(file, was) is None for file, was in before.items())


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
