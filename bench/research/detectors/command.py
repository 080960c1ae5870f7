"""The command ./scripts/bench detectors: resumes an interrupted run, and reports all outcomes so far."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.table import Table

from bench.research.detectors.report import Cost, Row, costs, left_of, report
from bench.research.detectors.study import DETECTORS, LEVELS, MISSES, Outcome, study
from bench.rig.cluster import folder_of_its_own
from bench.rig.figures import shown
from bench.rig.machine import machine, resting, versions
from bench.rig.resumed import Record, run_resumably
from holdfast.services.cli.terminal import console

RECORD = Path(".holdfast") / "bench-detectors.jsonl"
MINUTES, QUICK_MINUTES = 5.0, 0.5
_err = console(stderr=True)


def main(words: Sequence[str]) -> int:
    options = _options(words)
    seconds = 60 * (options.minutes or (QUICK_MINUTES if options.quick else MINUTES))
    levels = [level for level in LEVELS if level in options.load]
    record = Record(options.record, Outcome, restart=options.restart)
    before = resting(0.5)
    status = run_resumably(lambda: _run(levels, record, seconds), _err)
    asked = [one for one in record.made if one.level in levels]
    rows, spent = report(asked, options.detector, options.misses), costs(asked)
    if rows:
        _err.print(_suspected(rows))
        _err.print(_spent(spent))
        found = {"results": [asdict(row) for row in rows], "switches": [asdict(cost) for cost in spent]}
        print(json.dumps({"machine": machine(), "versions": versions(), "load": before, **found}))
    return status or int(any(cost.inexact for cost in spent))


def _run(levels: Sequence[str], record: Record[Outcome], seconds: float) -> None:
    if left := left_of(levels, record.made, seconds):
        with folder_of_its_own(lambda text: _err.print(text, markup=False)) as cluster:
            for outcome in study(cluster, "detectors", left, seconds):
                record.add([outcome])


def _suspected(rows: Sequence[Row]) -> Table:
    table = Table("load", "found", "detector", "misses", "false/h of a worker", "right", "would detect p50 ms", "p95")
    for row in rows:
        times = ["never" if ms is None else shown(ms) for ms in (row.detection_p50_ms, row.detection_p95_ms)]
        misses, false = str(row.misses or ""), shown(round(row.false_per_h, 1))
        table.add_row(row.level, f"{row.load:.0%}", row.detector, misses, false, str(row.right), *times)
    return table


def _spent(rows: Sequence[Cost]) -> Table:
    table = Table(
        "load", "minutes", "switches made", "workers stood still", "longest gap ms", "at switches", "inexact rows"
    )
    for row in rows:
        gaps = shown(row.longest_gap_ms), shown(row.longest_gap_at_switches_ms) if row.switches else ""
        made = str(row.switches), str(row.stood_still)
        style = "red" if row.inexact else None
        table.add_row(row.level, shown(row.minutes), *made, *gaps, str(row.inexact), style=style)
    return table


def _options(words: Sequence[str]) -> argparse.Namespace:
    listed = "; ".join(f"{name}: {what}" for name, what in DETECTORS.items())
    parser = argparse.ArgumentParser(
        prog="bench detectors",
        description="Counts how often each detector suspects a well worker. A cluster with a hybrid job runs while "
        "the machine is loaded; what a recovery replica hears is recorded and shown to every detector, so all judge "
        "the same. A suspicion is false if the worker is heard again within five intervals. Nobody fails: how soon a "
        "failure would have been known is worked out for one half an interval after each heartbeat. The second table "
        "is about the switches that the cluster itself made meanwhile: none was needed, so they may cost nothing but "
        "work. Started again it continues where it was.",
        epilog=f"detectors: {listed}.",
    )
    parser.add_argument("--detector", nargs="+", choices=list(DETECTORS), default=list(DETECTORS), metavar="DETECTOR")
    parser.add_argument("--misses", nargs="+", type=int, choices=MISSES, default=list(MISSES), metavar="N")
    loads = ", ".join(LEVELS).replace("%", "%%")
    parser.add_argument(
        "--load", nargs="+", choices=list(LEVELS), default=list(LEVELS), metavar="LOAD", help=f"some of: {loads}"
    )
    parser.add_argument("--minutes", type=float, metavar="N", help=f"at each load (default: {MINUTES:g})")
    parser.add_argument("--quick", action="store_true", help="half a minute each: whether it works, hardly how often")
    parser.add_argument("--restart", action="store_true", help="forget what was recorded before")
    parser.add_argument("--record", type=Path, default=RECORD, metavar="FILE", help=f"default: {RECORD}")
    return parser.parse_args(words)
