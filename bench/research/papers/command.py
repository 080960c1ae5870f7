"""The command ./scripts/figures: measures missing points, then draws the page of all measured points."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench.research.papers.catalogue import FIGURES
from bench.research.papers.checked import PAGE, differences
from bench.research.papers.figure import Figure, Values
from bench.research.papers.kept import Kept, Measured
from bench.research.papers.page import judged, page
from bench.rig.machine import machine, versions
from bench.rig.resumed import run_resumably
from holdfast.services.cli.terminal import console

OUT = Path("docs") / "figures"
_err = console(stderr=True)


def main(words: Sequence[str] | None = None) -> int:
    options = _options(words)
    chosen = [figure for figure in FIGURES if figure.tag in options.only]
    if options.list:
        _err.print(_listing(chosen))
        return 0
    kept = Kept(options.out / "data")
    if options.check:
        return check(options.out, kept)
    if options.restart:
        for figure in chosen:
            kept.forget(figure)
    status = 0 if options.draw else run_resumably(lambda: measure(chosen, kept, options.points), _err)
    measured = {figure.tag: kept.read(figure) for figure in FIGURES}
    write(options.out, FIGURES, measured)
    _err.print(_verdicts(chosen, measured))
    _err.print(f"page: {options.out / PAGE}", markup=False)
    return status


def measure(figures: Sequence[Figure], kept: Kept, points: int | None = None) -> None:
    """Measures missing points, at most `points` of each figure; None: all.

    Raises:
        MeasureFailed: a measurement failed; earlier points are kept.
    """
    where, what = _machine(), _versions()
    columns = (TextColumn("{task.description:28}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=_err) as bar:
        for figure in figures:
            there = kept.read(figure).points
            missing = [key for key in figure.keys if key not in there][:points]
            task = bar.add_task(f"{figure.tag} {figure.title}"[:28], total=len(figure.keys), completed=len(there))

            def keep(key: str, values: Values, figure: Figure = figure, task: object = task) -> None:
                kept.add(figure, key, {name: round(value, 6) for name, value in values.items()}, where, what)
                bar.advance(task)  # type: ignore[arg-type]

            if missing:
                figure.measure(missing, keep)


def check(folder: Path, kept: Kept) -> int:
    """Returns 0 if the page and the pictures match the data; else prints the differences and returns 1."""
    found = differences(folder, FIGURES, {figure.tag: kept.read(figure) for figure in FIGURES})
    for line in found:
        _err.print(line, markup=False, soft_wrap=True)
    if found:
        _err.print("`./scripts/figures --draw` draws the page again.", markup=False)
    return int(bool(found))


def write(folder: Path, figures: Sequence[Figure], measured: dict[str, Measured]) -> None:
    """Writes the page, and an SVG file for each complete figure."""
    from bench.research.papers.drawing import svg

    folder.mkdir(parents=True, exist_ok=True)
    for figure in figures:
        points, drawn = measured[figure.tag].points, folder / f"{figure.tag}.svg"
        if figure.complete(points):
            drawn.write_text(svg(figure.plots(points)))
        else:
            drawn.unlink(missing_ok=True)
    (folder / PAGE).write_text(page(figures, measured))


def _machine() -> str:
    found = machine()
    return f"{found['cpus']} CPUs, {found['model']}"


def _versions() -> str:
    return ", ".join(f"{name} {text}" for name, text in versions().items() if name in ("python", "polars", "holdfast"))


def _listing(figures: Sequence[Figure]) -> Table:
    table = Table("figure", "what", "measured on", "about")
    for figure in figures:
        about = f"{figure.seconds:g} s" if figure.seconds < 90 else f"{figure.seconds / 60:.0f} min"
        table.add_row(figure.tag, figure.title, figure.ground.value.partition(",")[0], about)
    return table


def _verdicts(figures: Sequence[Figure], measured: dict[str, Measured]) -> Table:
    table = Table("figure", "what", "verdict", "points")
    for figure in figures:
        found = measured[figure.tag]
        points = f"{len(found.points)} of {len(figure.keys)}"
        table.add_row(figure.tag, figure.title, judged(figure, found)[0].value, points)
    return table


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    tags = [figure.tag for figure in FIGURES]
    parser = argparse.ArgumentParser(
        prog="figures",
        description="Measures the figures of the papers, and draws each beside what its paper shows, with a verdict "
        "that stated rules make of the numbers. Points that were measured before are kept: stopped and started again "
        "it continues. Model figures are the same wherever they run; the others say on which machine they were made.",
        epilog=f"figures: {', '.join(tags)}.",
    )
    parser.add_argument("--only", nargs="+", default=tags, choices=tags, metavar="FIGURE", help="some of the figures")
    parser.add_argument("--list", action="store_true", help="say what each figure is and about how long it takes")
    parser.add_argument("--points", type=int, metavar="N", help="measure at most N points of each figure, for a trial")
    parser.add_argument("--draw", action="store_true", help="measure nothing, draw what is there")
    parser.add_argument(
        "--check", action="store_true", help="measure and write nothing; fail if page and data disagree"
    )
    parser.add_argument("--restart", action="store_true", help="forget what was measured of these figures")
    parser.add_argument("--out", type=Path, default=OUT, metavar="FOLDER", help=f"default: {OUT}")
    return parser.parse_args(words)
