"""Check that the page and its pictures are those of the data beside them. Pure, but for reading the files.

A picture names the stamp of its data, so that nothing has to be drawn to compare it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.research.papers.figure import Figure, Plot
from bench.research.papers.kept import Measured
from bench.research.papers.page import page

PAGE = "README.md"


def stamp(plots: Sequence[Plot]) -> str:
    """Stamp of all numbers and texts of a picture; numbers with six digits, so that no last bit of a machine counts."""
    shown = [(plot.title, plot.x, plot.y, plot.bars, plot.log_x, plot.log_y, _lines(plot)) for plot in plots]
    return hashlib.sha256(repr(shown).encode()).hexdigest()[:16]


def _lines(plot: Plot) -> list[tuple[str, bool, list[str]]]:
    return [(one.name, one.dashed, [f"{x:.6g} {y:.6g}" for x, y in one.points]) for one in plot.series]


def differences(folder: Path, figures: Sequence[Figure], measured: Mapping[str, Measured]) -> list[str]:
    """A line for each file that another run of `--draw` would change; none if page, pictures and data agree."""
    found = []
    there = _text(folder / PAGE)
    if there != (made := page(figures, measured)):
        found.append(f"{folder / PAGE}: {_first(there, made)}")
    for figure in figures:
        path, points = folder / f"{figure.tag}.svg", measured[figure.tag].points
        if figure.complete(points) and stamp(figure.plots(points)) not in _text(path):
            found.append(f"{path}: it does not show the data of {figure.tag}")
    return found


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _first(there: str, made: str) -> str:
    """The first line that differs."""
    lines, wanted = there.splitlines(), made.splitlines()
    at = next((n for n, both in enumerate(zip(lines, wanted, strict=False)) if both[0] != both[1]), None)
    if at is None:
        return f"it has {len(lines)} lines, and the data give {len(wanted)}"
    return f"line {at + 1} is «{lines[at][:120]}», and the data give «{wanted[at][:120]}»"
