"""A job on frames, in memory: what `Job.try_` and the command `try` do with a job and its inputs.

Source: JOBS "Jobs in Python".
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from schemas.dead_letters import DeadLetter
from schemas.jobs import JobSpec
from schemas.plans import Plan
from services.client.frames import Given, file_records, records, rows_of
from services.client.local_run import LocalRun, complete, of_files
from services.client.unusable import UnusableFile
from services.hosting import plugins
from services.kernel.suggestions import suggest
from services.log.logger import drop_below
from services.planning.checking import entry_of


class Tried(dict[str, pl.DataFrame]):
    """The rows of each query. dead_letters: records and rows that were refused. late: how many rows came too late."""

    def __init__(self, rows: Mapping[str, pl.DataFrame], dead_letters: pl.DataFrame, late: int) -> None:
        super().__init__(rows)
        self.dead_letters, self.late = dead_letters, late


def allowed_modules(spec: JobSpec) -> list[str]:
    """Modules that operators may come from: those of HOLDFAST_PLUGINS, else those that the job names."""
    named = [entry.split(":")[0] for entry in map(entry_of, spec.operators.values()) if entry]
    return plugins.modules_of(os.environ.get(plugins.VARIABLE, "")) or named


def attempt(spec: JobSpec, inputs: Mapping[str, Given], null: Sequence[str] = ()) -> Tried:
    """Runs a job to its end. See `holdfast.Job.try_`."""
    for name in inputs:
        if name not in spec.sources:
            raise UnusableFile(f"the job has no source '{name}'", suggest(name, spec.sources))
    drop_below(logging.ERROR)
    whole = of_files(complete(spec))
    feeds = {}
    for name, source in whole.sources.items():
        if name in inputs:
            feeds[name] = records(name, source, inputs[name], null)
        elif source.path is not None:
            feeds[name] = file_records(Path(source.path), source, null)
        else:
            raise UnusableFile(f"source '{name}' has no input", f"try_({{'{name}': ...}})")
    finished = LocalRun(whole, feeds, allowed_modules(spec)).run()
    late = sum(one.late for one in finished.progress.values())
    return Tried(frames(finished.plan, finished.rows), letters(finished.dead), late)


def frames(plan: Plan, rows: Mapping[str, Sequence[bytes]]) -> dict[str, pl.DataFrame]:
    """The rows of each query, given as JSON objects."""
    sinks = {one.params["query"]: one for one in plan.operators if one.kind == "sink"}
    return {query: rows_of(sinks[query], some) for query, some in rows.items()}


def letters(dead: Sequence[DeadLetter]) -> pl.DataFrame:
    """Dead letters as rows: where each comes from, and why."""
    columns = {"origin": pl.String, "topic": pl.String, "partition": pl.Int64, "offset": pl.Int64}
    rows = [(one.origin, one.topic, one.partition, one.offset, one.reason, one.row) for one in dead]
    return pl.DataFrame(rows, schema={**columns, "reason": pl.String, "row": pl.String}, orient="row")
