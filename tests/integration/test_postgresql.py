"""Rows that go to a table of PostgreSQL, on a server of its own: each batch is there once, and values as they were.

Skipped where there is no server on the PATH, or no psycopg: `pip install 'holdfast-streams[sql]'`.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

from holdfast.services.kernel.codecs.fields import schema
from holdfast.services.worker.sinks import sql_database
from holdfast.services.worker.sinks.sql_database import connect
from tests.support.outside_site import FIELDS, killed_everywhere
from tests.support.sql_site import ODD_FIELDS, ODD_ROWS, Site, table

absent = importlib.util.find_spec("psycopg") is None or not all(map(shutil.which, ("initdb", "pg_ctl")))
pytestmark = [pytest.mark.slow, pytest.mark.skipif(absent, reason="no PostgreSQL, or no psycopg")]


class Server:
    """A server in a folder of its own, run by the user postgres where this process is root."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        if os.getuid() == 0:
            shutil.chown(folder, "postgres")
        self._run("initdb", "--no-sync", "--auth=trust", "--username=holdfast", "-D", str(folder / "data"))
        self.start()

    def start(self) -> None:
        given = f"-p {self._port} -k {self._folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        self._run(
            "pg_ctl", "-w", "-D", str(self._folder / "data"), "-l", str(self._folder / "log"), "-o", given, "start"
        )

    def stop(self) -> None:
        self._control("-m", "immediate", "stop")

    def url(self, database: str) -> str:
        return f"postgresql://holdfast@127.0.0.1:{self._port}/{database}"

    def create(self, database: str) -> str:
        connection = connect(self.url("postgres")).connection
        connection.execute(f'CREATE DATABASE "{database}"')
        connection.close()
        return self.url(database)

    def _control(self, *given: str) -> None:
        self._run("pg_ctl", "-w", "-D", str(self._folder / "data"), *given)

    def _run(self, *command: str) -> None:
        whose: Sequence[str] = ("runuser", "-u", "postgres", "--") if os.getuid() == 0 else ()
        subprocess.run([*whose, *command], check=True, stdout=subprocess.DEVNULL, cwd="/")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    folder = Path(tempfile.mkdtemp(prefix="holdfast-postgresql-"))
    made = Server(folder)
    yield made
    made.stop()
    shutil.rmtree(folder)


@pytest.fixture
def database(server: Server, request: pytest.FixtureRequest) -> Callable[[int], str]:
    """URL of a new database by number."""
    return lambda number: server.create(f"{abs(hash(request.node.name)) % 10**6}-{number}")


def test_every_batch_is_there_once_wherever_a_copy_is_killed(
    database: Callable[[int], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_everywhere(lambda number: Site(tmp_path, table("n"), database(number)), monkeypatch)


def test_values_come_back_as_they_were(database: Callable[[int], str], tmp_path: Path) -> None:
    site = Site(tmp_path, table("n", 'odd "%s" ?', fields=ODD_FIELDS), database(0))
    site.tasks = site.tasks[:1]
    copy = site.copy()
    site.deliver(copy, 1, rows=lambda _: ODD_ROWS)
    site.deliver(copy, 2, rows=lambda _: ODD_ROWS.with_columns(f=pl.lit(0.25)))
    assert (site.errors, copy.waits) == ([], "")
    moment = datetime(1970, 1, 1, microsecond=1, tzinfo=UTC)
    assert site.asked() == [
        (-(2**63), date(2026, 1, 31), True, Decimal("123456789012345678.25"), moment, b"\xff\0", 0.25, "ü'"),
        (2**63 - 1, None, False, None, None, b"", 0.25, ""),
    ]


def test_a_row_replaces_that_of_its_key_and_a_condition_deletes_it(
    database: Callable[[int], str], tmp_path: Path
) -> None:
    site = Site(tmp_path, table("carrier", delete_when="n < 0"), database(0))
    site.tasks = site.tasks[:1]
    given = {1: [(1, "UA"), (2, "AA"), (3, "UA")], 2: [(-1, "AA"), (4, "DL")]}
    copy = site.copy()
    for number in given:
        site.deliver(copy, number, rows=lambda one: pl.DataFrame(given[one], schema=schema(FIELDS), orient="row"))
    assert (site.errors, copy.waits, site.asked()) == ([], "", [(3, "UA"), (4, "DL")])


def test_a_server_that_is_away_or_a_position_that_is_locked_is_waited_for(
    server: Server, database: Callable[[int], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_database, "LOCKED_S", 1)
    site = Site(tmp_path, table(), database(0))
    copy = site.copy()
    site.deliver(copy, 1)
    frozen = connect(site.url).connection  # as a leader that is frozen within its transaction
    frozen.execute("BEGIN")
    frozen.execute("UPDATE holdfast_positions SET batch = batch")
    copy.close()
    copy = site.copy()
    site.deliver(copy, 2)
    assert copy.waits.startswith("database shop: canceling statement due to lock timeout")
    frozen.close()
    site.look(copy)
    assert (copy.waits, site.numbers()) == ("", [10, 11, 12, 20, 21, 22])
    server.stop()
    site.deliver(copy, 4)
    assert copy.waits.startswith("database shop: ")
    site.look(copy)
    assert "refused" in copy.waits
    server.start()
    site.look(copy)
    assert (copy.waits, site.numbers()) == ("", [10, 11, 12, 20, 21, 22, 40, 41, 42])
    assert site.errors == []
