"""A unit that delivers to a table of a database and to a topic of the log in memory, and copies that are killed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from holdfast.schemas.dead_letters import decode
from holdfast.schemas.plans import OperatorPlan
from holdfast.schemas.topics import ClusterTopics, Partition, TopicSpec
from holdfast.services.hosting.blocking import Inline
from holdfast.services.kernel.codecs.fields import schema
from holdfast.services.kernel.dataflow.unit import SinkRows
from holdfast.services.kernel.plans.layout import TaskLayout
from holdfast.services.log.memory import MemoryLog, MemoryTransactor
from holdfast.services.worker.core.spent import Spent
from holdfast.services.worker.sinks import databases, sql_database
from holdfast.services.worker.sinks.delivery import Delivery, History
from holdfast.services.worker.sinks.meter import Meter
from holdfast.services.worker.sinks.outside_kafka import OutsideKafka
from holdfast.services.worker.sinks.portions import Batch
from holdfast.services.worker.sinks.position import Positions
from holdfast.services.worker.sinks.refusals import Refusals
from holdfast.services.worker.sinks.sql_database import Connected, connect
from holdfast.services.worker.sinks.sql_tables import SqlTables
from holdfast.services.worker.sinks.unit_sinks import UnitSinks

TOPICS = ClusterTopics().job("job", "0-abcdef")
FIELDS = {"n": "int", "carrier": "string?"}
BATCHES = range(1, 6)
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


class Killed(BaseException):
    """The process is gone, in the middle of what it did."""


def layout(name: str, params: dict[str, Any], fields: dict[str, str] | None = None) -> TaskLayout:
    operator = OperatorPlan(
        f"sink-{name}", "sink", 1, ("s",), {"query": name, "partitions": 1, **params}, fields or FIELDS
    )
    return TaskLayout(f"sink-{name}-0", 0, operator, (), (), (), None)


def table(*key: str, fields: dict[str, str] | None = None, **more: Any) -> TaskLayout:
    return layout("q", {"topic": "", "sql": {"database": "shop", "table": "delays", "key": list(key)}, **more}, fields)


def rows_of(number: int) -> pl.DataFrame:
    """The rows of a batch: a function of its number. Every third has none."""
    count = 3 if number % 3 else 0
    return pl.DataFrame(
        {"n": [10 * number + one for one in range(count)], "carrier": ["UA", 'A"A%', None][:count]},
        schema=schema(FIELDS),
    )


EXPECTED = sorted(one for number in BATCHES for one in rows_of(number)["n"].to_list())


class Site:
    """A unit with a sink of a table, and one of a topic, whose copies follow each other. url: of the database; empty: a
    file of SQLite in the folder."""

    def __init__(self, folder: Path, of_table: TaskLayout | None = None, url: str = "") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.url = url or f"sqlite:///{folder}/rows.db"
        named = folder / "databases.toml"
        named.write_text(f'shop = "{self.url}"\n')
        databases.use(str(named))
        self.tasks = [of_table or table(), layout("t", {"topic": "out"})]
        self.log, self.beside = MemoryLog(lambda: 0), Inline()
        self.log.create([TopicSpec("out"), TopicSpec(TOPICS.dead_letters), TopicSpec(TOPICS.delivered)])
        self.errors: list[Exception] = []
        self.spent, self.now_ms, self.refusals = Spent(), 0.0, Refusals()

    def copy(self, dead_letters: bool = True) -> Delivery:
        """A copy that has opened its outputs, so that it has fenced those before."""
        at = Partition(TOPICS.delivered, 0)
        positions = Positions(self.log, "u", at, Partition(TOPICS.cuts, 0), (), lambda: 100, lambda *_: None)
        meter = Meter(self.spent, lambda: self.now_ms, lambda: 0.0)
        outside = OutsideKafka(tables=SqlTables(self.tasks[:1], "job.0-abcdef"))
        made = Delivery(
            self.log, self.beside, UnitSinks(TOPICS, "u", dead_letters=dead_letters, outside=outside), positions,
            failed=self.errors.append, meter=meter, history=History(self.refusals),
        )  # fmt: skip
        made.open(lambda _: None)
        self.beside.poll()
        return made

    def deliver(self, copy: Delivery, *numbers: int, rows: Callable[[int], pl.DataFrame] = rows_of) -> None:
        copy.deliver(*(Batch(one, [SinkRows(task, rows(one), 0) for task in self.tasks], []) for one in numbers))
        while self.beside.poll():
            pass

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

    def letters(self) -> list[tuple[str, str]]:
        found = [decode(one.value() or b"") for one in self.log.scan(Partition(TOPICS.dead_letters, 0))]
        return [(one.reason, one.row) for one in found]


class Steps:
    """A connection that kills its process before and behind the statement of a number."""

    def __init__(self, connection: Any, step: Callable[[str, Callable[[], Any]], Any]) -> None:
        self._connection, self._step = connection, step

    def execute(self, statement: str, values: tuple[Any, ...] = ()) -> Any:
        return self._step(statement, lambda: self._connection.execute(statement, values))

    def executemany(self, statement: str, values: Any) -> Any:
        return self._step(statement, lambda: self._connection.cursor().executemany(statement, values))

    def cursor(self) -> Steps:
        return self

    def close(self) -> None:
        self._connection.close()


def killing_at(number: int, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], Callable[[], None]]:
    """What was done, and a function that does what the system does for a process that is gone: closes its
    connections."""
    done, opened, true, commit = list[str](), list[Any](), connect, MemoryTransactor.commit

    def step(name: str, call: Callable[[], Any]) -> Any:
        found: Any = None
        for when in ("before", "behind"):
            if len(done) == number:
                raise Killed(f"{when} {name}")
            done.append(f"{when} {name}")
            found = call() if when == "before" else found
        return found

    def connected(url: str) -> Connected:
        made = true(url)
        opened.append(made.connection)
        return made._replace(connection=Steps(made.connection, step))

    monkeypatch.setattr(sql_database, "connect", connected)
    monkeypatch.setattr(MemoryTransactor, "commit", lambda self, rows: step("commit", lambda: commit(self, rows)))

    def gone() -> None:
        for one in opened:
            one.close()

    return done, gone


def killed_everywhere(site_of: Callable[[int], Site], monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills a copy before and behind every statement and commit, each time on a new site, and lets another one deliver
    the same batches: each is there once."""
    kills = 0
    for number in range(100):
        site = site_of(number)
        copy = site.copy()
        with monkeypatch.context() as patched:
            done, gone = killing_at(number, patched)
            try:
                site.deliver(copy, *BATCHES[:2])
                site.deliver(copy, *BATCHES[2:4])
            except Killed:
                kills += 1
            gone()
        site.beside = Inline()
        site.deliver(site.copy(), *BATCHES)
        assert site.errors == [], done[-1:]
        assert site.numbers() == EXPECTED, done[-1:]
        assert len(list(site.log.scan(Partition("out", 0)))) == len(EXPECTED)
        if kills == number:  # this one was not reached
            break
    assert kills > 20
