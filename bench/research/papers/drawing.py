"""Plots as SVG. Equal data give equal bytes, so a page changes only where a figure has changed."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from bench.research.papers.checked import stamp
from bench.research.papers.figure import Plot, Series

WIDTH, HEIGHT = 5.6, 3.4
"""Inches, of one plot."""
COLOURS = ("#1b6ca8", "#d1495b", "#2e8b57", "#e09f3e", "#6d597a", "#4d4d4d", "#00a6a6", "#b56576")
MARKERS = "osD^vP*X"
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "holdfast",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def svg(plots: Sequence[Plot]) -> str:
    """Picture with the plots in one column."""
    with matplotlib.rc_context(_STYLE):
        canvas = Canvas(figsize=(WIDTH, HEIGHT * len(plots)), layout="constrained")
        grid = canvas.subplots(len(plots), 1, squeeze=False)
        for plot, (axes,) in zip(plots, grid, strict=True):
            _draw(plot, axes)
        made = io.StringIO()
        canvas.savefig(made, format="svg", metadata={"Date": None, "Creator": None, "Description": stamp(plots)})
    return "\n".join(line.rstrip() for line in made.getvalue().splitlines()) + "\n"


def _draw(plot: Plot, axes: Axes) -> None:
    axes.set_title(plot.title, loc="left", fontsize=9)
    axes.set_xlabel(plot.x)
    axes.set_ylabel(plot.y)
    axes.grid(axis="y", linewidth=0.4, alpha=0.6)
    for number, series in enumerate(plot.series):
        (_bars if plot.bars else _line)(plot, axes, number, series)
    if plot.bars:
        axes.set_xticks(range(len(plot.bars)), plot.bars)
    if plot.log_x:
        axes.set_xscale("log")
    if plot.log_y:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    if len(plot.series) > 1:
        axes.legend(frameon=False, fontsize=8)


def _line(plot: Plot, axes: Axes, number: int, series: Series) -> None:
    xs, ys = [x for x, _ in series.points], [y for _, y in series.points]
    marker = MARKERS[number % len(MARKERS)] if len(xs) <= 30 else ""
    style = "--" if series.dashed else "-"
    colour = COLOURS[number % len(COLOURS)]
    axes.plot(xs, ys, style, marker=marker, markersize=4, linewidth=1.3, color=colour, label=series.name)


def _bars(plot: Plot, axes: Axes, number: int, series: Series) -> None:
    """Side by side; x is the place among `plot.bars`."""
    width = 0.8 / len(plot.series)
    places = [x + (number - (len(plot.series) - 1) / 2) * width for x, _ in series.points]
    axes.bar(places, [y for _, y in series.points], width, color=COLOURS[number % len(COLOURS)], label=series.name)
