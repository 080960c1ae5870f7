"""A bench that resumes an interrupted run: its outcomes are in a file, one line of JSON each."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
from rich.console import Console

from bench.rig.followed import MeasureFailed
from holdfast.services.kernel.errors import HoldfastError

INTERRUPTED = 130
T = TypeVar("T")


class Record(Generic[T]):
    """The outcomes of a bench.

    made: outcomes in the order of the file.

    Args:
        restart: true to drop former outcomes.
    """

    def __init__(self, path: Path, kind: type[T], *, restart: bool) -> None:
        self._path = path
        if restart:
            path.unlink(missing_ok=True)
        lines = path.read_bytes().splitlines() if path.exists() else []
        self.made = [msgspec.json.decode(line, type=kind) for line in lines]

    def add(self, outcomes: Iterable[T]) -> None:
        new = list(outcomes)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            file.writelines(msgspec.json.encode(one) + b"\n" for one in new)
        self.made += new


def remaining(wanted: Sequence[T], made: Iterable[T]) -> list[T]:
    """Items that are still to be made, in the given order; an item given twice is made twice."""
    done, found = Counter(made), list[T]()
    for one in wanted:
        if done[one]:
            done[one] -= 1
        else:
            found.append(one)
    return found


def run_resumably(work: Callable[[], None], err: Console) -> int:
    """Works until it is done, stopped by a signal or failed; the exit status."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        work()
    except KeyboardInterrupt:
        err.print("stopped; started again it continues from here")
        return INTERRUPTED
    except (MeasureFailed, HoldfastError) as error:
        err.print(f"error: {error}; started again it continues from here", markup=False)
        return 1
    return 0
