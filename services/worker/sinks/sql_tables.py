"""Sinks of one unit whose rows go to tables of databases, before the transaction in Kafka.

A batch is in its table once the database has committed it, and its number with it: a copy that delivers it again finds
the number. What a batch holds is decided by the cut log, so whichever copy writes it writes the same.
Source: PROTOCOL 9, docs/decisions/0239.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from holdfast.schemas.topics import JobTopics
from holdfast.services.kernel.plans.layout import TaskLayout, UnitLayout
from holdfast.services.worker.sinks.meter import Meter
from holdfast.services.worker.sinks.portions import Batch
from holdfast.services.worker.sinks.sql_database import SqlDatabase, SqlTable
from holdfast.services.worker.sinks.sql_rows import split_unstorable


class SqlTables:
    """Tables of one delivery. Blocks.

    Args:
        tasks: sink tasks with a table.
        owner: job and generation.
    """

    def __init__(self, tasks: Sequence[TaskLayout] = (), owner: str = "") -> None:
        self._tasks = {task.name: task.operator for task in tasks}
        by_database = dict[str, dict[str, SqlTable]]()
        for name, sink in self._tasks.items():
            assert sink.sink.sql is not None
            table = SqlTable(sink.sink.sql, sink.fields, sink.sink.delete_when)
            by_database.setdefault(table.plan.database, {})[name] = table
        self._databases = [(SqlDatabase(one, tables, owner), tables) for one, tables in by_database.items()]

    @staticmethod
    def of(layout: UnitLayout, topics: JobTopics) -> SqlTables:
        return SqlTables([one for one in layout.tasks if one.operator.table], f"{topics.job}.{topics.generation}")

    def write(self, batches: Sequence[Batch], meter: Meter) -> int:
        """Writes the rows that their tables lack, and returns the number of all rows.

        Raises:
            SinkUnready: a database is away, or a table cannot be written until a person mends it.
            Refused: a database does not take a row.
        """
        if not self._tasks:
            return 0
        found = dict[str, list[tuple[int, pl.DataFrame]]]()
        for batch in batches:
            for sink in batch.sinks:
                if sink.task.name in self._tasks and (rows := split_unstorable(sink, batch.number)[0].rows).height:
                    found.setdefault(sink.task.name, []).append((batch.number, rows))
        for database, tables in self._databases:
            if some := {task: found[task] for task in tables if task in found}:
                database.write(some)
        for task, numbered in found.items():
            meter.wrote_bytes(self._tasks[task].name, sum(int(rows.estimated_size()) for _, rows in numbered))
        return sum(rows.height for numbered in found.values() for _, rows in numbered)

    def close(self) -> None:
        for database, _ in self._databases:
            database.close()

    @property
    def places(self) -> list[str]:
        return sorted({one.table for one in self._tasks.values()})
