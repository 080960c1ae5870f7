"""The command ./scripts/bench failover: resumes an interrupted run, and reports all outcomes so far."""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from bench.failover.rounds import run_round
from bench.failover.strikes import (
    FAULTS,
    FULL,
    QUICK,
    Outcome,
    Plan,
    Row,
    Strike,
    compared,
    left_of,
    report,
    rounds,
    strikes,
)
from bench.rig.browser import program
from bench.rig.cluster import folder_of_its_own
from bench.rig.figures import shown
from bench.rig.machine import machine, resting, versions
from bench.rig.pairs import Ratio
from bench.rig.resumed import Record, run_resumably
from holdfast.services.cli.terminal import console
from holdfast.services.recovery.core.unit.facts.schemes import SCHEMES

RECORD = Path(".holdfast") / "bench-failover.jsonl"
VIEWED = Path(".holdfast") / "bench-failover-viewed.jsonl"
"""Record of strikes that were made with a viewer and without, by turns."""
MOST_A_ROUND = 24
"""Strikes in a cluster: whole turns of all operators."""
_err = console(stderr=True)


def main(words: Sequence[str]) -> int:
    options = _options(words)
    if options.viewer and program() is None:
        raise SystemExit("bench failover: --viewer needs a Chromium: apt-get install chromium")
    plan = (QUICK if options.quick else FULL) if options.times is None else Plan.times(options.times)
    wanted = strikes(plan, options.scheme, options.fault, viewer=options.viewer)
    file = options.record or (VIEWED if options.viewer else RECORD)
    record = Record(file, Outcome, restart=options.restart)
    status = run_resumably(lambda: _run(wanted, record), _err)
    asked = [one for one in record.made if one.scheme in options.scheme and one.fault in options.fault]
    found = report([one for one in asked if not one.viewed])
    if found:
        beside = compared(asked)
        _err.print(_table(found))
        if beside:
            _err.print(_beside(beside))
        print(json.dumps(_summary(found, asked, beside)))
    return status or int(not all(row.exact for row in found))


def _run(wanted: Sequence[Strike], record: Record[Outcome]) -> None:
    chance = random.Random(len(record.made))
    left = left_of(wanted, record.made)
    columns = (TextColumn("strikes"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.description}"), console=_err) as bar:
        task = bar.add_task("", total=len(wanted), completed=len(wanted) - len(left))
        for number, some in enumerate(rounds(left, MOST_A_ROUND, chance)):
            bar.update(task, description=f"{some[0].scheme}, {some[0].fault}")
            with folder_of_its_own(lambda text: _err.print(text, markup=False)) as cluster:
                name = f"failover-{number}"
                outcomes = run_round(cluster, name, some, chance, lambda _: bar.advance(task))
            record.add(outcomes)


def _table(rows: Sequence[Row]) -> Table:
    table = Table("scheme", "fault", "unit", "times", "p50 ms", "p95", "p99", "max", "target", "met?", "exact")
    for row in rows:
        target = ", ".join(f"{name} {bound}" for name, bound in row.bounds.items())
        met = "" if row.met is None else "yes" if row.met else "NO"
        numbers = [shown(row.measured[name]) for name in ("p50", "p95", "p99", "max")]
        times, exact = str(row.times), "yes" if row.exact else "NO"
        style = "red" if row.met is False or not row.exact else None
        table.add_row(row.scheme, row.fault, row.place, times, *numbers, target, met, exact, style=style)
    return table


def _beside(found: Mapping[tuple[str, str], Ratio]) -> Table:
    table = Table("scheme", "fault", "without a viewer, p50 ms", "with one", "ratio", "90 % interval", "pairs")
    for (scheme, fault), one in found.items():
        ratio, interval = f"{one.median:.3f}", f"{one.low:.3f} to {one.high:.3f}"
        table.add_row(scheme, fault, shown(one.theirs), shown(one.ours), ratio, interval, str(one.pairs))
    return table


def _summary(
    rows: Sequence[Row], outcomes: Sequence[Outcome], beside: Mapping[tuple[str, str], Ratio]
) -> dict[str, Any]:
    counted = {name: sum(getattr(one, name) for one in outcomes) for name in ("rows", "lost", "duplicated", "wrong")}
    lines = [
        {"scheme": row.scheme, "fault": row.fault, "unit": row.place, "times": row.times, **row.measured}
        | {"targets": {name: str(bound) for name, bound in row.bounds.items()}, "met": row.met}
        for row in rows
    ]
    viewed = [
        {"scheme": scheme, "fault": fault}
        | {name: None if math.isnan(value) else value for name, value in asdict(one).items()}
        for (scheme, fault), one in beside.items()
    ]
    ran = {"machine": machine(), "versions": versions(), "load": resting(0.5)}
    return {**ran, **counted, "results": lines, "with_a_viewer": viewed}


def _options(words: Sequence[str]) -> argparse.Namespace:
    listed = "; ".join(f"{fault}: {what}" for fault, what in FAULTS.items())
    parser = argparse.ArgumentParser(
        prog="bench failover",
        description="Strikes the worker that leads a unit again and again, at 2,000 records/s with 10,000 keys "
        "through source, two units with state and sink, and measures from the signal to the first new result (for a "
        "stall or flap: the longest silence; for active replication between other units: how much longer than "
        "before). Every row is checked by replay. Started again it continues where it was.",
        epilog=f"faults: {listed}.",
    )
    parser.add_argument("--scheme", nargs="+", choices=list(SCHEMES), default=list(SCHEMES), metavar="SCHEME")
    parser.add_argument("--fault", nargs="+", choices=list(FAULTS), default=list(FAULTS), metavar="FAULT")
    parser.add_argument("--quick", action="store_true", help="a few of each: whether it works, hardly how fast")
    parser.add_argument("--times", type=int, metavar="N", help="strikes of each kind; default: by the targets")
    parser.add_argument(
        "--viewer", action="store_true",
        help="each strike also while a Chromium shows the job, by turns, and the ratio of both",
    )  # fmt: skip
    parser.add_argument("--restart", action="store_true", help="forget what was measured before")
    parser.add_argument("--record", type=Path, metavar="FILE", help=f"default: {RECORD}, or with --viewer {VIEWED}")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
