"""Sinks of one unit whose rows go to files or tables: they are written before the transaction in Kafka.

Source: PROTOCOL 9, docs/decisions/0241 and 0239.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.schemas.delivered import Delivered
from holdfast.schemas.topics import JobTopics
from holdfast.services.kernel.plans.layout import UnitLayout
from holdfast.services.worker.sinks.meter import Meter
from holdfast.services.worker.sinks.portions import Batch
from holdfast.services.worker.sinks.sql_tables import SqlTables
from holdfast.services.worker.sinks.staged_files import StagedFiles


class OutsideKafka:
    """Files and tables of one delivery. Blocks. Raises the errors of both."""

    def __init__(self, files: StagedFiles | None = None, tables: SqlTables | None = None) -> None:
        self._files = files or StagedFiles()
        self._tables = tables or SqlTables()

    @staticmethod
    def of(layout: UnitLayout, topics: JobTopics) -> OutsideKafka:
        return OutsideKafka(StagedFiles.of(layout, topics), SqlTables.of(layout, topics))

    def open(self, position: Delivered | None) -> None:
        """Finishes the files of the last position. Databases are connected with the first rows, so a takeover does not
        wait for them."""
        self._files.open({} if position is None else position.staged)

    def write(self, batches: Sequence[Batch], meter: Meter) -> int:
        """Writes the rows of the batches before their transaction, and returns the number of rows. Files count when the
        position names them; rows of tables count by their batches."""
        rows = self._tables.write(batches, meter)  # first: while a database is away no file is staged again and again
        return rows + self._files.stage(batches, meter)

    def publish(self) -> None:
        """Publishes the files after the commit."""
        self._files.publish()

    def named_in(self, position: Delivered) -> Delivered:
        return self._files.named_in(position)

    def leave(self, last: Callable[[], Delivered | None]) -> None:
        """Ends a copy's work: closes its connections, and publishes the files in the last position.

        Args:
            last: reads the last position of the unit.
        """
        self._tables.close()
        if self._files.places:
            self._files.leave(last)

    @property
    def places(self) -> list[str]:
        return [*self._files.places, *self._tables.places]
