"""The settings of a sink in a plan: `params` of its operator, decoded once."""

from __future__ import annotations

import msgspec

POSITIONS = "holdfast_positions"
"""The table in each database that holds, by sink task, the last batch whose rows are there."""


class FolderPlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """The files of a sink."""

    path: str
    """The folder."""
    partition_by: tuple[str, ...] = ()
    """The columns that name sub-folders."""


class TablePlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """The table of a sink."""

    database: str
    """Its name in the workers' file of databases."""
    table: str
    """The table, perhaps behind its schema and a dot."""
    key: tuple[str, ...] = ()
    """The columns by which a row replaces the one that is there; none: rows are appended."""


class SinkPlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """A sink, with the words of the job file. The defaults are those of plans of former versions."""

    query: str = ""
    topic: str = ""
    partitions: int = 1
    """The number of partitions of the topic."""
    format: str = "json"
    key: str = "json"
    commit_interval_ms: int | None = 0
    """The time for which rows gather between two transactions; 0 for none."""
    parquet: FolderPlan | None = None
    """The files of a sink without a topic."""
    sql: TablePlan | None = None
    """The table of a sink without a topic."""
    tentative: bool = False
    """True if the query has tentative results."""
    updates: bool = False
    """True if each row is a running total, which the next one replaces."""
    headers: dict[str, str] = {}
    """Column by header."""
    schema_id: int = 0
    field_numbers: dict[str, int] = {}
    key_format: str | None = None
    key_schema_id: int = 0
    delete_when: str | None = None
    for_spark: bool = False
    """True if the sink writes the rows that a Spark operator reads."""


NO_SINK = SinkPlan()
"""The settings for an operator that is no sink."""
