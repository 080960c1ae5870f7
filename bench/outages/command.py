"""The command ./scripts/bench outages: resumes an interrupted run, and reports all outcomes so far."""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from bench.outages.rounds import RATE_PER_S, run_round
from bench.outages.strikes import FAULTS, KINDS, Outcome, Row, Strike, counts, exact, left_of, report, rounds, strikes
from bench.rig.cluster import folder_of_its_own
from bench.rig.figures import shown
from bench.rig.machine import machine, resting, versions
from bench.rig.resumed import Record, run_resumably
from holdfast.services.cli.terminal import console

RECORD = Path(".holdfast") / "bench-outages.jsonl"
OUTAGES, QUICK, MOST_A_ROUND = 200, 6, 20
_err = console(stderr=True)


def main(words: Sequence[str]) -> int:
    options = _options(words)
    wanted = strikes(QUICK if options.quick else options.outages)
    record = Record(options.record, Outcome, restart=options.restart)
    status = run_resumably(lambda: _run(wanted, record, options.rounds), _err)
    if record.made:
        found = report(record.made)
        _err.print(_table(found))
        lines = [{name: getattr(row, name) for name in Row.__slots__} for row in found]
        about = {"machine": machine(), "versions": versions(), "load": resting(0.5), "outages": len(record.made)}
        print(json.dumps(about | counts(record.made) | {"results": lines}))
    return status or int(not exact(record.made))


def _run(wanted: Sequence[Strike], record: Record[Outcome], most: int | None) -> None:
    """Runs the missing rounds. A round without its final check does not count."""
    chance = random.Random(len(record.made))
    left = left_of(wanted, record.made)
    columns = (TextColumn("outages"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=_err) as bar:
        task = bar.add_task("", total=len(wanted), completed=len(wanted) - len(left))
        for number, some in enumerate(islice(rounds(left, MOST_A_ROUND, chance), most)):
            with folder_of_its_own(lambda text: _err.print(text, markup=False)) as cluster:
                record.add(run_round(cluster, f"outages-{number}", some, chance, lambda _: bar.advance(task)))


def _table(rows: Sequence[Row]) -> Table:
    table = Table("kind", "fault", "times", "with rows", "noted ms", "first row p50", "p95", "over", "share", "rows")
    for row in rows:
        times = (row.noted_ms, row.first_ms, row.first_p95_ms, row.over_ms, row.share)
        counted = (str(row.times), str(row.with_rows))
        table.add_row(row.kind, row.fault, *counted, *map(shown, times), str(row.tentative))
    return table


def _options(words: Sequence[str]) -> argparse.Namespace:
    listed = "; ".join(f"{name}: {what}" for name, what in {**KINDS, **FAULTS}.items())
    parser = argparse.ArgumentParser(
        prog="bench outages",
        description="Strikes workers of a job with tentative results again and again, whose units have no other place, "
        f"at {RATE_PER_S} records/s: a quarter of the times the worker of a fork as well, a tenth Kafka. Measured "
        "are the times until the outage is on the log, until the first tentative row and until all have recovered. "
        "Every final row is checked by replay, and every tentative row must be closed. Started again it continues "
        "where it was.",
        epilog=listed,
    )
    parser.add_argument("--outages", type=int, default=OUTAGES, metavar="N", help=f"default: {OUTAGES}")
    parser.add_argument("--rounds", type=int, metavar="N", help="stop after so many clusters; default: all")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} outages: whether it works, not how fast")
    parser.add_argument("--restart", action="store_true", help="forget what was measured before")
    parser.add_argument("--record", type=Path, default=RECORD, metavar="FILE", help=f"default: {RECORD}")
    return parser.parse_args(words)
