"""Record of a campaign so far: a line of JSON for each strike, so that it can continue later; and its report."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from tests.campaign.kills import Outcome, Strike, left_of

MAX_PROBLEMS = 5


class Record:
    """The strikes made, in a file that is only appended to."""

    def __init__(self, file: Path, *, restart: bool = False) -> None:
        self.file = file
        file.parent.mkdir(parents=True, exist_ok=True)
        if restart:
            file.unlink(missing_ok=True)
        lines = file.read_bytes().splitlines() if file.exists() else []
        self.outcomes: list[Outcome] = [msgspec.json.decode(line, type=Outcome) for line in lines]

    def add(self, outcomes: Iterable[Outcome]) -> None:
        with self.file.open("ab") as file:
            for one in outcomes:
                self.outcomes.append(one)
                file.write(msgspec.json.encode(one) + b"\n")

    @property
    def exact(self) -> bool:
        return all(one.exact for one in self.outcomes)


def bar_of(what: str, says: Console) -> Progress:
    """Progress bar with their number, the time, and what is under way."""
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    return Progress(*columns, TextColumn("{task.description}"), console=says)


@contextmanager
def scratch(says: Console) -> Iterator[tuple[Path, list[str]]]:
    """A folder that is removed at the end, unless something in the list is to be looked at."""
    folder, keep = Path(tempfile.mkdtemp(prefix="holdfast-campaign-")), list[str]()
    try:
        yield folder, keep
    finally:
        if keep:
            says.print(f"{', '.join(keep)} is not exact: its cluster is kept in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def table(outcomes: Sequence[Outcome]) -> Table:
    """A row for each point."""
    columns = ("point", "times", "fired", "lost", "duplicated", "wrong", "other", "back, median s")
    drawn = Table(*columns, box=SIMPLE_HEAD, pad_edge=False)
    for point in sorted({one.point for one in outcomes}):
        some = [one for one in outcomes if one.point == point]
        back = median(one.back_ms for one in some) / 1000
        drawn.add_row(point, *(str(count) for count in counts(some).values()), f"{back:.1f}")
    drawn.add_section()
    drawn.add_row("all", *(str(count) for count in counts(outcomes).values()), "")
    return drawn


def problems(outcomes: Sequence[Outcome]) -> list[str]:
    """The first that are not exact, in words."""
    wrong = [one for one in outcomes if not one.exact]
    return [f"{one.round}, {one.point} {one.moment}: {one.problem}" for one in wrong[:MAX_PROBLEMS]]


def summary(outcomes: Sequence[Outcome], wanted: Sequence[Strike]) -> dict[str, Any]:
    """The last line of output."""
    points = {
        point: counts([one for one in outcomes if one.point == point]) for point in sorted({o.point for o in outcomes})
    }
    missed = Counter(f"{strike.point} {strike.moment}" for strike in left_of(wanted, outcomes))
    return {**counts(outcomes), "points": points, "not_reached": dict(missed), "problems": problems(outcomes)}


def counts(outcomes: Sequence[Outcome]) -> dict[str, int]:
    """Number of times, and findings."""
    return {
        "times": len(outcomes),
        "fired": sum(one.fired for one in outcomes),
        "lost": sum(one.lost for one in outcomes),
        "duplicated": sum(one.duplicated for one in outcomes),
        "wrong": sum(one.wrong for one in outcomes),
        "other": sum(bool(one.problem) and not (one.lost or one.duplicated or one.wrong) for one in outcomes),
    }
