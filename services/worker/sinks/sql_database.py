"""Connection of one unit's sinks to one database: rows and positions in one transaction.

The position of a sink task is the last batch whose rows are in the database. A transaction locks the position first,
writes rows of later batches alone, and moves the position, so each batch is there once, whoever writes it. Source:
docs/decisions/0239.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

import polars as pl

from holdfast.schemas.sink_plans import POSITIONS, TablePlan
from holdfast.services.hosting.blocking_calls import further
from holdfast.services.kernel.errors import Refused, SinkUnready
from holdfast.services.worker.sinks.databases import url_of
from holdfast.services.worker.sinks.sql_rows import changes
from holdfast.services.worker.sinks.sql_statements import POSTGRESQL, SQLITE, Dialect, TableStatements

CONNECT_S = 5
LOCKED_S = 5
"""Time for which our transaction waits for a position or a row that another one holds, before it is tried again."""
STATEMENT_S = 30
ROWS = 5_000
"""Number of rows in one call of the driver."""
FROZEN_S = 10
"""Time after which PostgreSQL ends an idle transaction: a frozen leader holds the row of its position."""
MOST_TEXT = 500
"""Number of characters kept of an answer of a database: some answers hold a whole row."""
_KEEPALIVE = {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3, "tcp_user_timeout": 15_000}


class Connected(NamedTuple):
    """An open connection and its driver. Outside BEGIN and COMMIT each statement is a transaction."""

    connection: Any
    dialect: Dialect
    driver: Any


class SqlTable(NamedTuple):
    """Table of a sink task, and the rows that go there."""

    plan: TablePlan
    fields: Mapping[str, str]
    delete_when: str | None


Batches = Sequence[tuple[int, pl.DataFrame]]
"""Number and rows, in order."""


class SqlDatabase:
    """A database. Connects with the first rows, and again after each error.

    Args:
        name: name of the database in the file of the worker.
        tables: tables by sink task.
        owner: job and generation.
    """

    def __init__(self, name: str, tables: Mapping[str, SqlTable], owner: str) -> None:
        self._name = name
        self._tables = tables
        self._owner = owner
        self._connected: Connected | None = None
        self._ready: dict[str, TableStatements] = {}

    def write(self, rows: Mapping[str, Batches]) -> None:
        """Writes the batches that the database lacks. `rows` holds them by sink task.

        Raises:
            SinkUnready: nothing was written, or the commit has no answer; the next call finds out.
            Refused: nothing was written, because the database does not take a row.
        """
        with self._explained():
            found = self._connected = self._connected or connect(url_of(self._name))
            for task in rows:
                if task not in self._ready:
                    self._ready[task] = self._prepared(found, task)
            _run(found, found.dialect.begin)
            for task, batches in rows.items():
                self._advance(found, task, batches)
            _run(found, "COMMIT")

    def close(self) -> None:
        found, self._connected = self._connected, None
        self._ready.clear()
        if found is not None:
            with suppress(Exception):  # the connection is of no further use
                found.connection.close()

    def _advance(self, found: Connected, task: str, batches: Batches) -> None:
        mark, sink = found.dialect.mark, f"{self._owner}.{task}"
        look = f"SELECT batch FROM {POSITIONS} WHERE sink = {mark}{found.dialect.lock}"
        position = _run(found, look, sink).fetchone()
        if position is None:
            raise SinkUnready(f"the row of {sink} in {POSITIONS} was deleted")
        new = [rows for number, rows in batches if number > position[0]]
        if not new:
            return
        table, text = self._tables[task], self._ready[task]
        kept, gone = changes(new, table.fields, table.plan.key, table.delete_when)
        for statement, some in ((text.delete, gone), (text.write, kept)):
            for part in some.iter_slices(ROWS) if some.height else ():
                found.connection.cursor().executemany(statement, text.values(part))
                further()  # many rows may take longer than the patience with a call
        _run(found, f"UPDATE {POSITIONS} SET batch = {mark} WHERE sink = {mark}", batches[-1][0], sink)

    def _prepared(self, found: Connected, task: str) -> TableStatements:
        """Makes the table, the table of positions and the task's position where they are missing."""
        table, sink = self._tables[task], f"{self._owner}.{task}"
        text = TableStatements(found.dialect, table.plan.table, table.fields, table.plan.key)
        positions = TableStatements(found.dialect, POSITIONS, {"sink": "string", "batch": "int"}, ["sink"])
        _looked(found, positions)
        given = f"{POSITIONS} (sink, batch) VALUES ({found.dialect.mark}, 0)"
        _run(found, f"INSERT INTO {given} ON CONFLICT DO NOTHING", sink)
        if mends := text.missing(_looked(found, text)):
            raise SinkUnready(f"table {table.plan.table} lacks a column of the query: {mends}")
        return text

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Drops the connection after any error, and names the database in it."""
        try:
            yield
        except SinkUnready as error:
            self.close()
            raise SinkUnready(f"database {self._name}: {error}") from error
        except Exception as error:
            found = self._connected
            self.close()
            if found is None or not isinstance(error, found.driver.Error):
                raise
            of_rows = isinstance(error, found.driver.IntegrityError | found.driver.DataError)
            raise (Refused if of_rows else SinkUnready)(f"database {self._name}: {_words(error)}") from error


def _run(found: Connected, statement: str, *values: Any) -> Any:
    return found.connection.execute(statement, values)


def _looked(found: Connected, text: TableStatements) -> list[str]:
    """Columns of the table, which is made if it is missing."""
    try:
        cursor = _run(found, text.look)
    except found.driver.Error:  # the driver of each database has an error of its own for that
        _run(found, text.create)
        cursor = _run(found, text.look)
    return [column[0] for column in cursor.description]


def _words(error: Exception) -> str:
    return " ".join(str(error).split())[:MOST_TEXT] or type(error).__name__


# -- drivers ----------------------------------------------------------------------------------------------------------


def connect(url: str) -> Connected:
    """Raises SinkUnready, without the password."""
    scheme = url.partition("://")[0]
    if scheme not in DRIVERS:
        raise SinkUnready(f"its URL begins with none of {', '.join(f'{one}://' for one in DRIVERS)}")
    try:
        return DRIVERS[scheme](url)
    except SinkUnready:
        raise
    except Exception as error:
        raise SinkUnready(_hidden(_words(error), url)) from None  # a traceback would show the URL


def _hidden(message: str, url: str) -> str:
    """The message without the URL and its passwords."""
    try:
        parts = urlsplit(url)
        secrets = [url, parts.password or "", *(one for name, one in parse_qsl(parts.query) if "password" in name)]
    except ValueError:
        return "its URL cannot be read"
    for one in sorted({*filter(None, secrets), *map(unquote, filter(None, secrets))}, key=len, reverse=True):
        message = message.replace(one, "***")
    return message


def _sqlite(url: str) -> Connected:
    import sqlite3

    path = unquote(url.removeprefix("sqlite://"))
    if not path.startswith("//") or path == "//":
        raise SinkUnready("a file of SQLite is named by an absolute path, behind four slashes: sqlite:////data/rows.db")
    connection = sqlite3.connect(path[1:], timeout=LOCKED_S, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA synchronous = FULL")
    return Connected(connection, SQLITE, sqlite3)


def _postgresql(url: str) -> Connected:
    try:
        psycopg: Any = import_module("psycopg")
    except ImportError as error:
        needs = "PostgreSQL needs psycopg 3: `pip install 'holdfast-streams[sql]'` for each worker"
        raise SinkUnready(f"{needs} ({error})") from error
    connection = psycopg.connect(
        url, autocommit=True, connect_timeout=CONNECT_S, application_name="holdfast", **_KEEPALIVE
    )
    limits = {"statement": STATEMENT_S, "lock": LOCKED_S, "idle_in_transaction_session": FROZEN_S}
    for name, seconds in limits.items():
        connection.execute(f"SET {name}_timeout = '{seconds}s'")
    return Connected(connection, POSTGRESQL, psycopg)


DRIVERS: Mapping[str, Callable[[str], Connected]] = {
    "sqlite": _sqlite,
    "postgresql": _postgresql,
    "postgres": _postgresql,
}
"""By the scheme of a URL."""
