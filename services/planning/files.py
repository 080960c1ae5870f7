"""Checks sinks that write Parquet files: their settings, and the intervals between their files.

Source: JOBS "queries", docs/decisions/0241.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from holdfast.schemas.jobs import JobSpec, Sink
from holdfast.schemas.plans import Problem, UnitPlan
from holdfast.services.kernel.codecs.fields import dtype
from holdfast.services.kernel.operators.kind import Stream
from holdfast.services.kernel.plurals import with_article
from holdfast.services.kernel.suggestions import suggest
from holdfast.services.planning.graph import sink_name

COMMIT_INTERVAL_MS = 10_000
"""Default time between two transactions of a sink of files. Few readers want one file for each batch."""
OF_RECORDS = ("format", "subject", "subject_strategy", "record", "key_format", "key_schema_id", "schema_id",
              "headers", "field_numbers", "partitions", "topic_by")  # fmt: skip
"""Settings of a sink that describe records of a topic and nothing else."""
OF_KEYS = ("key", "delete_when")
"""Settings of a sink that a sink of files does not have either: it never replaces a row."""
NAMES_FOLDERS = (pl.String(), pl.Int64(), pl.Boolean(), pl.Date())
"""Types of columns that may name folders: every reader restores the same value from the name."""


def commit_interval_ms(sink: Sink) -> int:
    """The time between two transactions of the sink, in milliseconds; 0 for a transaction with each batch."""
    return sink.commit_interval_ms or (0 if sink.parquet is None else COMMIT_INTERVAL_MS)


def problems(path: str, sink: Sink, rows: Stream) -> Iterator[Problem]:
    """Problems of one sink of files.

    Args:
        path: path of the sink in the job file.
        rows: the stream that its query delivers.
    """
    assert sink.parquet is not None
    for name in (*OF_RECORDS, *OF_KEYS):
        if getattr(sink, name) != Sink.model_fields[name].default:
            yield Problem(f"{path}.{name}", "says how a row becomes a record, and files have none", "leave it out")
    given = sink.parquet.partition_by
    for index, column in enumerate(given):
        at = f"{path}.parquet.partition_by[{index}]"
        if column not in rows.fields:
            yield Problem(at, f"there is no column '{column}'", suggest(column, rows.fields))
        elif column in given[:index]:
            yield Problem(at, f"'{column}' is named twice", "name it once")
        elif dtype(rows.fields[column]) not in NAMES_FOLDERS:
            message = f"'{column}' is {with_article(rows.fields[column])}, which names no folder"
            yield Problem(at, message, "a column of type string, int, bool or date; a select makes one")
    if set(given) == set(rows.fields):
        yield Problem(f"{path}.parquet.partition_by", "are all columns, so the files have none", "fewer columns")


def warnings(spec: JobSpec, units: Sequence[UnitPlan]) -> Iterator[str]:
    """Warnings about files that become smaller than their sinks ask for. A unit has one transaction for all its sinks,
    so the sink with the shortest interval determines the interval of all."""
    sinks = {name: query.sink for name, query in spec.queries.items() if query.sink is not None}
    for unit in units:
        here = {name: one for name, one in sinks.items() if sink_name(name) in unit.operators}
        if not here or unit.name.rpartition("-")[2] != "0":
            continue
        soonest = min(here, key=lambda name: commit_interval_ms(here[name]))
        every_ms = commit_interval_ms(here[soonest])
        for name, one in here.items():
            if one.parquet is not None and commit_interval_ms(one) > every_ms:
                rhythm = f"every {every_ms} ms" if every_ms else "each batch"
                yield (
                    f"queries.{name}.sink.parquet: query {soonest} lies in the same unit and commits {rhythm}, so "
                    f"files are made as often; a larger commit_interval_ms of {soonest} makes larger ones"
                )


def shared(spec: JobSpec) -> Iterator[Problem]:
    """Problems of folders that two queries write to."""
    written: dict[str, str] = {}
    for name, query in spec.queries.items():
        if query.sink is not None and query.sink.parquet is not None:
            folder = query.sink.parquet.path.rstrip("/")
            if folder in written:
                message = f"is the folder of query {written[folder]}, too"
                yield Problem(f"queries.{name}.sink.parquet.path", message, "one folder a query")
            written.setdefault(folder, name)
