"""The command `replay`: compares the rows in the sinks with the results of the job's input. It
checks all fault tests.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.services.cli.options import DataDir, JobName, Json, KafkaAt
from holdfast.services.cli.terminal import console, note, print_json, print_table, say
from holdfast.services.kernel.errors import FAILED, CommandFailed
from holdfast.services.view.losses import losses, once_each

if TYPE_CHECKING:
    from holdfast.services.audit.comparison import Counts, Difference
    from holdfast.services.audit.recomputation import Row
    from holdfast.services.audit.replay import Report

MAX_SHOWN = 5
MAX_SHOWN_BYTES = 300
_PURE = {"PYTHONHASHSEED": "0", "POLARS_MAX_THREADS": "1"}
"""Environment as of workers: a user's operator that iterates over a set gets the same order."""


def replay(
    job: JobName,
    generation: Annotated[
        str, typer.Option("--generation", help="Of the job. [default: the newest]", show_default=False)
    ] = "",
    first_batch: Annotated[int, typer.Option("--from", metavar="BATCH", min=1, help="Compare from this batch on.")] = 1,
    data_dir: DataDir = None,
    kafka: KafkaAt = None,
    as_json: Json = False,
) -> None:
    """Compute a job again from its input and its cut log, and compare every row that its sinks hold, batch by batch.

    Ends with 0 if no row is lost, duplicated or wrong, else with 1. It only reads, so the job may run meanwhile. Python
    operators are loaded here as on a worker: run it where their modules can be imported.
    """
    _as_workers_run()
    from holdfast.services.audit.replay import replay as run
    from holdfast.services.cli.whereabouts import connected
    from holdfast.services.kernel.operators.python import CodeUnavailable, restrict
    from holdfast.services.worker.process.settings import WorkerSettings

    sys.path.insert(0, os.getcwd())
    restrict(WorkerSettings().allow or None)
    with connected(data_dir, kafka) as door, _progress(quiet=as_json) as progress:
        try:
            report = run(door.log, door.topics, job, generation=generation, first_batch=first_batch, progress=progress)
        except CodeUnavailable as error:
            hint = "run this where the workers' modules can be imported, with HOLDFAST_PLUGINS as they have it"
            raise CommandFailed(str(error), hint) from None
    if as_json:
        print_json(_plain(report))
        for text in report.notes:
            note(f"note: {text}")
    else:
        _draw(report)
    if not report.exact:
        raise typer.Exit(FAILED)


def _as_workers_run() -> None:
    """Begins again in their environment: a hash seed counts from the start of a process."""
    if any(os.environ.get(name) != value for name, value in _PURE.items()):
        command = [sys.executable, "-P", "-m", "holdfast.services.cli", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, **_PURE})


def _plain(report: Report) -> dict[str, object]:
    return {
        "job": report.job,
        "generation": report.generation,
        "batches": report.batches,
        **_counts(report.rows),
        "dead_letters": _counts(report.dead_letters),
        "late_dropped": once_each(report.late_dropped).by_source,
        "late_by_stream": report.late_dropped,
        "records_lost": report.records_lost,
        "differences": [
            {
                "kind": one.kind,
                "query": one.stream,
                "batch": one.batch,
                "expected": _shown(one.expected),
                "found": _shown(one.found),
            }
            for one in report.differences[:MAX_SHOWN]
        ],
    }


def _counts(counts: Counts) -> dict[str, int]:
    return {
        "results": counts.results,
        "lost": counts.lost,
        "duplicated": counts.duplicated,
        "wrong": counts.wrong,
    }


def _draw(report: Report) -> None:
    say(f"job {report.job} ({report.generation}), replayed up to batch {report.batches:,}")
    rows = [
        (what, counts.results, counts.lost, counts.duplicated, counts.wrong)
        for what, counts in (("results", report.rows), ("dead letters", report.dead_letters))
    ]
    print_table(("", "expected", "lost", "duplicated", "wrong"), rows)
    for one in report.differences[:MAX_SHOWN]:
        _draw_difference(one)
    for text in report.notes:
        say(f"note: {text}")
    verdict = "exact: every row is there once, as computed" if report.exact else "NOT exact"
    say(f"{verdict}; {losses(report.late_dropped, report.records_lost)}")


def _draw_difference(one: Difference) -> None:
    say(f"{one.kind}: {one.stream}, batch {one.batch}")
    say(f"  expected {_shown(one.expected) or 'no such row'}")
    say(f"  found    {_shown(one.found) or 'nothing'}{' (once more)' if one.kind == 'duplicated' else ''}")


def _shown(row: Row | None) -> str | None:
    if row is None:
        return None
    key = "" if row.key is None else row.key.decode(errors="replace") + " "
    text = key + row.value.decode(errors="replace")
    return text if len(text) <= MAX_SHOWN_BYTES else text[:MAX_SHOWN_BYTES] + "..."


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr, on a terminal only."""
    if quiet or not sys.stderr.isatty():
        yield lambda batch, batches: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("batch"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task("replay", total=None)
        yield lambda batch, batches: bar.update(task, completed=batch, total=batches)
