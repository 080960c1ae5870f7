"""Rows that go to a table of a database: each batch is there once, wherever a copy is killed."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pytest

from holdfast.services.kernel.codecs.fields import schema
from holdfast.services.kernel.errors import Fenced, InvalidRecord, Refused, SinkUnready
from holdfast.services.log.memory import MemoryTransactor
from holdfast.services.worker.sinks import databases
from holdfast.services.worker.sinks.delivery import LAST_LOOK_MS
from holdfast.services.worker.sinks.refusals import MOST_REFUSALS
from holdfast.services.worker.sinks.sql_database import SqlDatabase, connect
from holdfast.services.worker.sinks.sql_statements import POSTGRESQL, TableStatements
from tests.support.outside_site import BATCHES, EXPECTED, FIELDS, ODD, killed_everywhere
from tests.support.sql_site import ODD_FIELDS, ODD_ROWS, Site, table


@pytest.mark.parametrize("key", [(), ("n",)])
def test_every_batch_is_there_once_wherever_a_copy_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: tuple[str, ...]
) -> None:
    killed_everywhere(lambda number: Site(tmp_path / str(number), table(*key)), monkeypatch)


@pytest.mark.parametrize(("target", "call"), [(SqlDatabase, "write"), (MemoryTransactor, "commit")])
def test_a_copy_that_was_thought_dead_adds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: type, call: str
) -> None:
    """It has rows to write, or has written them, and continues once its successor has delivered more."""
    site = Site(tmp_path)
    continues = site.frozen(target, call, monkeypatch)
    successor = site.copy()
    site.deliver(successor, 1)
    site.deliver(successor, *BATCHES[1:])
    with pytest.raises(Fenced) if call == "commit" else nullcontext():
        continues()
    assert site.numbers() == EXPECTED


def test_a_late_copy_may_write_what_its_successor_then_leaves_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path)
    late, successor = site.copy(), site.copy()
    site.deliver(late, *BATCHES[:2])
    assert [type(one) for one in site.errors] == [Fenced]
    assert site.numbers() == [10, 11, 12, 20, 21, 22]
    site.deliver(successor, 1)
    site.deliver(successor, *BATCHES[1:])
    assert site.numbers() == EXPECTED


def test_a_row_replaces_that_of_its_key_and_a_condition_deletes_it(tmp_path: Path) -> None:
    site = Site(tmp_path, table("carrier", delete_when="n < 0"))
    given = {
        1: [(1, "UA"), (2, "AA"), (3, "UA")],
        2: [(-1, "AA"), (4, "DL")],
        3: [(5, "AA"), (-1, "AA"), (-1, "DL"), (6, "DL")],
    }
    copy = site.copy()
    for number in given:
        site.deliver(copy, number, rows=lambda one: pl.DataFrame(given[one], schema=schema(FIELDS), orient="row"))
    assert site.errors == []
    assert site.asked() == [(3, "UA"), (6, "DL")]
    assert site.asked("SELECT * FROM holdfast_positions") == [("job.0-abcdef.sink-q-0", 3)]


def test_values_come_back_as_they_were(tmp_path: Path) -> None:
    site = Site(tmp_path, table(fields=ODD_FIELDS))
    site.tasks = site.tasks[:1]
    site.deliver(site.copy(), 1, rows=lambda _: ODD_ROWS)
    assert site.errors == []
    assert site.asked() == [
        (-(2**63), "2026-01-31", 1, "123456789012345678.25", "1970-01-01T00:00:00.000001Z", b"\xff\0", 0.1, "ü'"),
        (2**63 - 1, None, 0, None, None, b"", float("inf"), ""),
    ]


def test_a_row_that_no_table_takes_is_a_dead_letter(tmp_path: Path) -> None:
    given = pl.DataFrame({"n": [1, 2, 3], "carrier": ["UA", "U\0A", None]}, schema=schema(FIELDS))
    site = Site(tmp_path, table("carrier"))
    site.tasks = site.tasks[:1]
    copy = site.copy()
    site.deliver(copy, 1, rows=lambda _: given)
    assert sorted((one.reason, one.row) for one in site.letters()) == [
        ("its value of carrier has a NUL, which tables do not take", '{"n":2,"carrier":"U\\u0000A"}'),
        ("its value of carrier is null, and it is part of the key", '{"n":3,"carrier":null}'),
    ]
    assert (site.numbers(), copy.too_large, copy.rows) == ([1], 2, 3)
    strict = Site(tmp_path / "strict", table("carrier"))
    strict.deliver(strict.copy(dead_letters=False), 1, rows=lambda _: given)
    assert isinstance(strict.errors[0], InvalidRecord)


def test_a_database_that_is_away_is_waited_for_without_an_end(tmp_path: Path) -> None:
    site = Site(tmp_path)
    named = tmp_path / "databases.toml"
    (text,) = [named.read_text()]
    named.write_text(f'shop = "sqlite:///{tmp_path}/away/rows.db"\n')
    copy = site.copy()
    site.deliver(copy, 1, 2)
    for _ in range(2 * MOST_REFUSALS):
        before_ms = site.now_ms
        site.look(copy)
    assert (site.errors, copy.waits) == ([], "database shop: unable to open database file")
    assert site.now_ms - before_ms == LAST_LOOK_MS
    named.write_text(text)
    site.look(copy)
    site.deliver(copy, 4)
    assert (copy.waits, site.numbers()) == ("", [10, 11, 12, 20, 21, 22, 40, 41, 42])


def test_a_table_without_a_column_is_waited_for_and_the_mending_statement_named(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.asked("CREATE TABLE delays (n INTEGER, other TEXT)")
    copy = site.copy()
    site.deliver(copy, 1)
    mends = 'ALTER TABLE "delays" ADD COLUMN "carrier" TEXT'
    assert copy.waits == f"database shop: table delays lacks a column of the query: {mends}"
    site.asked(mends)
    site.look(copy)
    assert (copy.waits, site.asked()) == ("", [(10, None, "UA"), (11, None, ODD), (12, None, None)])


def test_a_row_that_the_database_refuses_ends_the_job_in_the_end(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.asked("CREATE TABLE delays (n INTEGER, carrier TEXT NOT NULL)")
    copy = site.copy()
    for _ in range(MOST_REFUSALS - 1):
        site.deliver(copy, 1)
        site.look(copy)
        assert isinstance(site.errors.pop(), Refused)
        copy.close()
        site.beside.poll()
        copy = site.copy()
    site.deliver(copy, 1)
    (error,) = site.errors
    assert isinstance(error, InvalidRecord)
    assert str(error).startswith("batch 1 cannot be delivered to out, shop.delays: it was refused 20 times")
    assert str(error).endswith("database shop: NOT NULL constraint failed: delays.carrier")
    assert site.numbers() == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "HOLDFAST_DATABASES names no file here"),
        ("shop = ", "cannot be read: Invalid value (at end of document)"),
        ('other = "sqlite:////x"', "has no line for it: it has other; add a line shop = "),
        ('shop = "mysql://u:secret@h/d"', "its URL begins with none of sqlite://, postgresql://, postgres://"),
        ('shop = "sqlite://rows.db"', "behind four slashes: sqlite:////data/rows.db"),
    ],
)
def test_a_database_that_is_not_named_well_is_said_with_what_to_do(tmp_path: Path, text: str | None, said: str) -> None:
    site = Site(tmp_path)
    if text is None:
        databases.use("")
    else:
        (tmp_path / "databases.toml").write_text(text)
    copy = site.copy()
    site.deliver(copy, 1)
    assert said in copy.waits
    assert "secret" not in copy.waits


def test_an_error_of_postgresql_shows_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(SinkUnready, match="needs psycopg 3: `pip install 'holdfast-streams"):
        connect("postgresql://u:p@h/d")
    driver = ModuleType("psycopg")

    def refused(url: str, **_: Any) -> None:
        raise ValueError(f'invalid token "s%zcret" of {url}: s3 cret')

    monkeypatch.setattr(driver, "connect", refused, raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", driver)
    for url in ("postgresql://u:s%zcret@h/d", "postgresql://u:s3%20cret@h/d", "postgresql://h/d?password=s%zcret"):
        with pytest.raises(SinkUnready) as raised:
            connect(url)
        assert "invalid token" in str(raised.value)
        assert url not in str(raised.value)
        assert url.rpartition("s")[2][:4] not in str(raised.value)


def test_statements_of_postgresql_have_its_marks_types_and_names() -> None:
    fields = {"a%": "int", 'b"': "decimal(10,2)?", "t": "timestamp"}
    text = TableStatements(POSTGRESQL, "public.delays", fields, ["a%"])
    assert text.create == (
        'CREATE TABLE IF NOT EXISTS "public"."delays" '
        '("a%%" BIGINT, "b""" NUMERIC(10, 2), "t" TIMESTAMPTZ, PRIMARY KEY ("a%%"))'
    )
    assert text.write == (
        'INSERT INTO "public"."delays" ("a%%", "b""", "t") VALUES (%s, %s, %s) '
        'ON CONFLICT ("a%%") DO UPDATE SET "b""" = excluded."b""", "t" = excluded."t"'
    )
    assert text.delete == 'DELETE FROM "public"."delays" WHERE "a%%" = %s'
    assert TableStatements(POSTGRESQL, "d", {"k": "int"}, ["k"]).write.endswith('ON CONFLICT ("k") DO NOTHING')
