"""Results as a table for people and a line of JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.table import Table

from bench.catalogue import BY_NAME, Measure
from bench.measures.peers.peer import PEERS
from bench.rig.figures import Figures, medians, rows
from bench.rig.machine import machine, versions


@dataclass(slots=True)
class Results:
    """Results of a run.

    runs: figures of each run, by measure.
    errors: errors of measures that failed or were refused.
    """

    before: dict[str, float]
    runs: dict[str, list[Figures]] = field(default_factory=dict)
    outside: list[dict[str, Any]] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)

    def add(self, measure: str, figures: Figures) -> None:
        self.runs.setdefault(measure, []).append(figures)

    def table(self) -> Table:
        table = Table("measure", "figure", "median", "target", "met?", "runs")
        for name, runs in self.runs.items():
            for line in rows(name, runs, BY_NAME[name].targets):
                table.add_row(*line, style="red" if line[4] == "NO" else None)
        for name, error in self.errors.items():
            table.add_row(name, "-", "-", "", "", error)
        return table

    def line(self) -> str:
        """Outside load in cores: what other processes used before we began, and during the life of each cluster."""
        return json.dumps(
            {
                "machine": machine(),
                "versions": versions() | (peers() if "peers" in self.runs else {}),
                "load": {"before": self.before, "during": self.outside},
                "medians": {name: medians(runs) for name, runs in self.runs.items()},
                "targets": {
                    name: {figure: str(target) for figure, target in BY_NAME[name].targets.items()}
                    for name in self.runs
                },
                "runs": self.runs,
                "errors": self.errors,
            }
        )


def peers() -> dict[str, str]:
    """Their versions."""
    return {peer.name: peer.version for peer in PEERS}


def listing(measures: Sequence[Measure]) -> Table:
    """Table of the measures."""
    table = Table("measure", "what", "targets", "workers")
    for measure in measures:
        targets = "\n".join(f"{figure} {target}" for figure, target in measure.targets.items())
        name = measure.name if measure.standard else f"{measure.name} (not by default)"
        table.add_row(name, measure.about, targets, str(measure.workers or "its own"))
    return table
