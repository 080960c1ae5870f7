"""A job on frames, in memory: what `Job.try_` and the command `try` do with a job and its inputs.

Source: JOBS "Jobs in Python".
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from holdfast.schemas.dead_letters import DeadLetter
from holdfast.schemas.jobs import REGISTERED, JobSpec
from holdfast.schemas.plans import Plan
from holdfast.services.client.frames import Given, file_records, records, rows_of
from holdfast.services.client.local_run import LocalRun, complete, of_files
from holdfast.services.client.unusable import UnusableFile
from holdfast.services.diagnostics.logger import drop_below
from holdfast.services.hosting import plugins
from holdfast.services.kernel.codecs.registered import Schemas, WriterSchema, ids
from holdfast.services.kernel.errors import HoldfastError
from holdfast.services.kernel.suggestions import suggest
from holdfast.services.log.kafka.registry import of_this_process
from holdfast.services.planning.check import entry_of


class Tried(dict[str, pl.DataFrame]):
    """The rows of each query.

    dead_letters: refused records and rows.
    late: number of rows that came too late.
    """

    def __init__(self, rows: Mapping[str, pl.DataFrame], dead_letters: pl.DataFrame, late: int) -> None:
        super().__init__(rows)
        self.dead_letters = dead_letters
        self.late = late


def allowed_modules(spec: JobSpec) -> list[str]:
    """Modules that operators may come from: those of HOLDFAST_PLUGINS, or else those in the job."""
    named = [entry.split(":")[0] for entry in map(entry_of, spec.operators.values()) if entry]
    return plugins.modules_of(os.environ.get(plugins.VARIABLE, "")) or named


def attempt(spec: JobSpec, inputs: Mapping[str, Given], null: Sequence[str] = ()) -> Tried:
    """Runs a job to its end. See `holdfast.Job.try_`."""
    for name in inputs:
        if name not in spec.sources:
            raise UnusableFile(f"the job has no source '{name}'", suggest(name, spec.sources))
    drop_below(logging.ERROR)
    framed = _framed(spec, inputs)
    inputs = {**inputs, **framed}
    whole = of_files(complete(spec), framed)
    feeds = {}
    for name, source in whole.sources.items():
        if name in inputs:
            feeds[name] = records(name, source, inputs[name], null)
        elif source.path is not None:
            feeds[name] = file_records(Path(source.path), source, null)
        else:
            raise UnusableFile(f"source '{name}' has no input", f"try_({{'{name}': ...}})")
    finished = LocalRun(whole, feeds, allowed_modules(spec), _schemas(framed), written=spec).run()
    late = sum(one.late for one in finished.progress.values())
    return Tried(frames(finished.plan, finished.rows), letters(finished.dead), late)


def _framed(spec: JobSpec, inputs: Mapping[str, Given]) -> dict[str, list[bytes]]:
    """The inputs that are records as a serializer of a registry writes them: bytes, of a source that reads such."""
    found = dict[str, list[bytes]]()
    for name, given in inputs.items():
        if spec.sources[name].format in REGISTERED and not isinstance(given, pl.DataFrame | Path | str):
            some = list(given)
            if kept := [one for one in some if isinstance(one, bytes)]:
                if len(kept) < len(some):
                    raise UnusableFile(f"source '{name}' is given bytes and mappings", "give one of the two")
                found[name] = kept
    return found


def _schemas(framed: Mapping[str, Sequence[bytes]]) -> Schemas:
    """Schemas that the records name, asked for once."""
    known = dict[int, WriterSchema]()
    for name, some in framed.items():
        for id in np.unique(ids(some)).tolist():
            try:
                schema = of_this_process().find(id) if id >= 0 else None
            except HoldfastError as error:
                raise UnusableFile(f"source '{name}': {error}") from None
            if schema is not None:
                known[id] = schema
    return _Known(known)


class _Known(NamedTuple):
    """Schemas of a registry that were asked for already."""

    schemas: Mapping[int, WriterSchema]

    def find(self, id: int) -> WriterSchema | None:
        return self.schemas.get(id)


def frames(plan: Plan, rows: Mapping[str, Sequence[bytes]]) -> dict[str, pl.DataFrame]:
    """The rows of each query, given as JSON objects."""
    sinks = {one.sink.query: one for one in plan.operators if one.kind == "sink"}
    return {query: rows_of(sinks[query], some) for query, some in rows.items()}


def letters(dead: Sequence[DeadLetter]) -> pl.DataFrame:
    """Dead letters as rows, with origin and reason."""
    columns = {"origin": pl.String, "topic": pl.String, "partition": pl.Int64, "offset": pl.Int64}
    rows = [(one.origin, one.topic, one.partition, one.offset, one.reason, one.row) for one in dead]
    return pl.DataFrame(rows, schema={**columns, "reason": pl.String, "row": pl.String}, orient="row")
