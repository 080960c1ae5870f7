"""The command ./scripts/bench promises: resumes an interrupted run, and reports all outcomes so far."""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from bench.promises.rounds import run_round
from bench.promises.trials import (
    DRILL,
    KEPT_FROM_MS,
    KILL,
    KINDS,
    PROMISES_MS,
    UNNOTICED,
    Outcome,
    Row,
    Trial,
    exact,
    left_of,
    report,
    rounds,
    trials,
)
from bench.rig.cluster import folder_of_its_own
from bench.rig.figures import shown
from bench.rig.machine import machine, resting, versions
from bench.rig.resumed import Record, run_resumably
from holdfast.services.cli.terminal import console

RECORD = Path(".holdfast") / "bench-promises.jsonl"
COUNTS = {DRILL: 6, KILL: 6, UNNOTICED: 6}
TOGETHER = 1
"""A promise is judged on a machine that carries its job. Four jobs fill two cores, and nothing is fast enough there."""
COUNTED = ("rows", "lost", "duplicated", "wrong", "unjudged", "changes", "hasty")
_err = console(stderr=True)


def main(words: Sequence[str]) -> int:
    options = _options(words)
    counts = {kind: (1 if options.quick else COUNTS[kind]) if options.times is None else options.times
              for kind in options.kind}  # fmt: skip
    wanted = trials(options.promise, counts)
    record = Record(options.record, Outcome, restart=options.restart)
    status = run_resumably(lambda: _run(wanted, record, options.together, options.rounds), _err)
    asked = [one for one in record.made if one.promise_ms in options.promise and one.kind in options.kind]
    found = report(asked)
    if found:
        _err.print(_table(found))
        print(json.dumps(_summary(found, asked)))
    return status or int(not exact(asked) or any(row.met is False for row in found))


def _run(wanted: Sequence[Trial], record: Record[Outcome], together: int, most: int | None) -> None:
    """Runs the missing rounds. A round without its final check does not count."""
    chance = random.Random(len(record.made))
    left = left_of(wanted, record.made)
    columns = (TextColumn("takeovers"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.description}"), console=_err) as bar:
        task = bar.add_task("", total=len(wanted), completed=len(wanted) - len(left))
        for number, some in enumerate(islice(rounds(left, together), most)):
            promised = ", ".join(str(promise_ms) for promise_ms in sorted({trial.promise_ms for trial in some}))
            bar.update(task, description=f"{promised} ms promised")
            with folder_of_its_own(lambda text: _err.print(text, markup=False)) as cluster:
                record.add(run_round(cluster, f"promises-{number}", some, chance, lambda _: bar.advance(task)))


def _table(rows: Sequence[Row]) -> Table:
    table = Table("promise ms", "takeover", "times", "broken", "p50 ms", "max", "predicted p50", "kept?", "schemes")
    for row in rows:
        met = "" if row.met is None else "yes" if row.met else "NO"
        schemes = ", ".join(f"{name} {count}" for name, count in row.schemes.items())
        numbers = (shown(row.took_ms), shown(row.longest_ms), shown(row.predicted_ms))
        style = "red" if row.met is False else None
        table.add_row(shown(row.promise_ms), row.kind, str(row.times), str(row.broken), *numbers, met, schemes,
                      style=style)  # fmt: skip
    return table


def _summary(rows: Sequence[Row], made: Sequence[Outcome]) -> dict[str, Any]:
    counted = {name: sum(getattr(one, name) for one in made) for name in COUNTED}
    least = [one for one in made if one.promise_ms >= KEPT_FROM_MS]
    tight = [one for one in made if one.promise_ms < KEPT_FROM_MS]
    lines = [
        {"promise_ms": row.promise_ms, "takeover": row.kind, "times": row.times, "broken": row.broken}
        | {"p50_ms": row.took_ms, "max_ms": row.longest_ms, "predicted_p50_ms": row.predicted_ms}
        | {"schemes": dict(row.schemes)}
        for row in rows
    ]
    return {
        "machine": machine(),
        "versions": versions(),
        "load": resting(0.5),
        "takeovers": len(least),
        "broken": sum(not one.kept for one in least),
        "broken_share_below": round(sum(not one.kept for one in tight) / len(tight), 3) if tight else None,
        **counted,
        "results": lines,
    }


def _options(words: Sequence[str]) -> argparse.Namespace:
    listed = "; ".join(f"{kind}: {what}" for kind, what in KINDS.items())
    many = sum(COUNTS.values()) * len(PROMISES_MS)
    parser = argparse.ArgumentParser(
        prog="bench promises",
        description="Takes over an adaptive unit again and again, by drills and by kills, at 2,000 records/s with "
        f"10,000 keys, under promised recovery times from 200 ms to 20 s: {many} takeovers, ten a minute or so. "
        "A promise is judged on a machine that carries its job: each has a cluster to itself, and the machine should "
        "have nothing else to do. --together puts several jobs into one cluster, and shows what a full machine breaks. "
        f"Recovery judges each. None of {KEPT_FROM_MS} ms or more may be broken; below, the share is reported. Every "
        "row is checked by replay. Started again it continues where it was.",
        epilog=f"takeovers: {listed}.",
    )
    parser.add_argument("--promise", nargs="+", type=int, choices=PROMISES_MS, default=list(PROMISES_MS), metavar="MS")
    parser.add_argument("--kind", nargs="+", choices=list(KINDS), default=list(KINDS), metavar="KIND")
    parser.add_argument(
        "--times", type=int, metavar="N", help=f"of each kind under each promise; default: {COUNTS[DRILL]}"
    )
    parser.add_argument(
        "--together",
        type=int,
        default=TOGETHER,
        metavar="N",
        help=f"promises in one cluster, a job each; default: {TOGETHER}",
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="stop after so many clusters; default: all")
    parser.add_argument("--quick", action="store_true", help="one of each: whether it works, not what it shows")
    parser.add_argument("--restart", action="store_true", help="forget what was measured before")
    parser.add_argument("--record", type=Path, default=RECORD, metavar="FILE", help=f"default: {RECORD}")
    return parser.parse_args(words)
