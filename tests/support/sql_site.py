"""A unit that delivers to a table of a database and to a topic of the log in memory, and copies that are killed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from holdfast.services.kernel.codecs.fields import schema
from holdfast.services.kernel.plans.layout import TaskLayout
from holdfast.services.log.memory import MemoryTransactor
from holdfast.services.worker.sinks import databases, sql_database
from holdfast.services.worker.sinks.delivery import Delivery
from holdfast.services.worker.sinks.outside_kafka import OutsideKafka
from holdfast.services.worker.sinks.sql_database import Connected, connect
from holdfast.services.worker.sinks.sql_tables import SqlTables
from tests.support.outside_site import OutsideSite, Steps, layout

ODD_FIELDS = {
    "n": "int",
    "day": "date?",
    "flag": "bool",
    "d": "decimal(20,2)?",
    "t": "timestamp?",
    "b": "bytes",
    "f": "float",
    'odd "%s" ?': "string",
}
ODD_ROWS = pl.DataFrame(
    {
        "n": [-(2**63), 2**63 - 1],
        "day": [date(2026, 1, 31), None],
        "flag": [True, False],
        "d": [Decimal("123456789012345678.25"), None],
        "t": [1, None],
        "b": [b"\xff\0", b""],
        "f": [0.1, float("inf")],
        'odd "%s" ?': ["ü'", ""],
    },
    schema=schema(ODD_FIELDS),
)
"""Values of each type that a table takes, and a column whose name must be quoted."""


def table(*key: str, fields: dict[str, str] | None = None, **more: Any) -> TaskLayout:
    return layout("q", {"sql": {"database": "shop", "table": "delays", "key": list(key)}, **more}, fields)


class Site(OutsideSite):
    """A unit with a sink of a table. url: of the database; empty: a file of SQLite in the folder."""

    def __init__(self, folder: Path, of_table: TaskLayout | None = None, url: str = "") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.url = url or f"sqlite:///{folder}/rows.db"
        named = folder / "databases.toml"
        named.write_text(f'shop = "{self.url}"\n')
        databases.use(str(named))
        super().__init__(of_table or table())

    def outside(self) -> OutsideKafka:
        return OutsideKafka(tables=SqlTables(self.tasks[:1], "job.0-abcdef"))

    def look(self, copy: Delivery) -> None:
        """The time of the next attempt has come."""
        copy.look_again(self.now_ms)
        self.now_ms = max(self.now_ms, copy.again_ms)
        copy.look_again(self.now_ms)
        while self.beside.poll():
            pass

    def asked(self, query: str = "SELECT * FROM delays ORDER BY n") -> list[tuple[Any, ...]]:
        connection = connect(self.url).connection
        try:
            found = connection.execute(query)
            return found.fetchall() if found.description else []
        finally:
            connection.close()

    def numbers(self) -> list[int]:
        return [row[0] for row in self.asked()]

    def patch(self, steps: Steps, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
        opened = list[Any]()

        def connected(url: str) -> Connected:
            made = connect(url)
            opened.append(made.connection)
            return made._replace(connection=Stepped(made.connection, steps))

        monkeypatch.setattr(sql_database, "connect", connected)
        monkeypatch.setattr(MemoryTransactor, "commit", steps.around(MemoryTransactor.commit))

        def gone() -> None:
            for one in opened:
                one.close()

        return gone


class Stepped:
    """A connection whose statements are steps."""

    def __init__(self, connection: Any, steps: Steps) -> None:
        self._connection, self._steps = connection, steps

    def execute(self, statement: str, values: tuple[Any, ...] = ()) -> Any:
        return self._steps.take(statement, self._connection.execute, statement, values)

    def executemany(self, statement: str, values: Any) -> Any:
        return self._steps.take(statement, lambda: self._connection.cursor().executemany(statement, values))

    def cursor(self) -> Stepped:
        return self

    def close(self) -> None:
        self._connection.close()
