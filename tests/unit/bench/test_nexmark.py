"""Nexmark's queries, as job files, give the rows that DuckDB gives over the same events."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from bench.measures.nexmark import flink
from bench.measures.nexmark.events import Events
from bench.measures.nexmark.flink_queries import LEFT_OUT, QUERIES, statements
from bench.measures.nexmark.measure import Run, arriving, side_rows
from bench.measures.nexmark.queries import NOT_WRITTEN, READS
from bench.rig.followed import MeasureFailed
from holdfast.services.kernel.codecs.fields import TIME

duckdb: Any = pytest.importorskip("duckdb")

EVENTS, PER_S, BATCH = 2_000, 20, 300
"""A hundred seconds of event time: ten windows of ten seconds."""
KEYS = {
    4: ["category"],
    9: ["id", "rank"],
    15: ["day"],
    16: ["channel", "day"],
    17: ["auction", "day"],
    18: ["bidder", "auction"],
    19: ["auction", "rank"],
}
"""Columns by which a row replaces the one before, of queries whose rows do."""
DAY = """strftime("at", '%Y-%m-%d') AS day"""


def split(name: str, what: str) -> str:
    low, middle, high = "price < 10000", "price >= 10000 AND price < 1000000", "price >= 1000000"
    filtered = {"low": low, "middle": middle, "high": high}
    return ", ".join(
        [f"{what} AS {name}", *(f"{what} FILTER (WHERE {cond}) AS {name}_{part}" for part, cond in filtered.items())]
    )


STATISTICS = ", ".join(
    split(name, what)
    for name, what in (
        ("bids", "count(*)"),
        ("bidders", "count(DISTINCT bidder)"),
        ("auctions", "count(DISTINCT auction)"),
    )
)
WON = "auctions a JOIN bids b ON a.id = b.auction AND b.at BETWEEN a.at AND a.expires"
SQL = {
    0: 'SELECT auction, bidder, price, "at", extra FROM bids',
    1: 'SELECT auction, bidder, 0.908::DOUBLE * price AS price, "at", extra FROM bids',
    2: "SELECT auction, price FROM bids WHERE auction % 123 = 0",
    3: """SELECT name, city, state, a.id FROM auctions a JOIN persons p ON a.seller = p.id
          WHERE category = 10 AND state IN ('OR', 'ID', 'CA')""",
    4: f"""SELECT category, avg(final) AS price FROM
           (SELECT max(b.price) AS final, a.id, category FROM {WON} GROUP BY a.id, category) GROUP BY category""",
    5: """WITH counts AS (
            SELECT auction, count(*) AS num, (epoch_us("at") // 2000000 + 1 + i) * 2000000 AS ends
            FROM bids, range(5) AS hops(i) GROUP BY auction, ends)
          SELECT auction, num, make_timestamp(ends) AS ends FROM counts
          QUALIFY num = max(num) OVER (PARTITION BY ends)""",
    6: f"""SELECT seller, id, avg(final) OVER (PARTITION BY seller ORDER BY newest, id
             ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS price FROM
           (SELECT a.id, seller, max(b.price) AS final, max(b.at) AS newest FROM {WON} GROUP BY a.id, seller)""",
    7: """SELECT auction, bidder, price, "at" FROM bids
          QUALIFY price = max(price) OVER (PARTITION BY epoch_us("at") // 10000000)""",
    8: """SELECT DISTINCT p.id, p.name, make_timestamp(epoch_us(p.at) // 10000000 * 10000000) AS starts
          FROM persons p JOIN auctions a
          ON a.seller = p.id AND epoch_us(p.at) // 10000000 = epoch_us(a.at) // 10000000""",
    9: f"""SELECT a.id, b.at AS bid_at, bidder, price, seller, category, item, expires,
           row_number() OVER (PARTITION BY a.id ORDER BY price DESC, b.at) AS rank FROM {WON} QUALIFY rank = 1""",
    11: """WITH begun AS (
             SELECT bidder, "at", coalesce("at" - lag("at") OVER w >= INTERVAL 10 SECOND, true)::INT AS starts
             FROM bids WINDOW w AS (PARTITION BY bidder ORDER BY "at")),
           numbered AS (SELECT *, sum(starts) OVER (PARTITION BY bidder ORDER BY "at") AS session FROM begun)
           SELECT bidder, min("at") AS window_start, max("at") + INTERVAL 10 SECOND AS window_end, count(*) AS bids
           FROM numbered GROUP BY bidder, session""",
    12: """SELECT bidder, make_timestamp(epoch_us(arrived) // 10000000 * 10000000) AS window_start,
             make_timestamp((epoch_us(arrived) // 10000000 + 1) * 10000000) AS window_end, count(*) AS bids
           FROM arriving GROUP BY bidder, window_start, window_end""",
    13: 'SELECT auction, bidder, price, "at", value FROM bids JOIN side ON auction % 10000 = key',
    14: """SELECT auction, bidder, 0.908::DOUBLE * price AS price,
             CASE WHEN hour("at") BETWEEN 8 AND 18 THEN 'dayTime' WHEN hour("at") <= 6 OR hour("at") >= 20
             THEN 'nightTime' ELSE 'otherTime' END AS bid_time, "at",
             len(extra) - len(replace(extra, 'c', '')) AS c_counts
           FROM bids WHERE 0.908::DOUBLE * price > 1000000 AND 0.908::DOUBLE * price < 50000000""",
    15: f"SELECT {DAY}, {STATISTICS} FROM bids GROUP BY day",
    16: f"""SELECT channel, {DAY}, {STATISTICS}, max(strftime("at", '%H:%M')) AS minute
            FROM bids GROUP BY channel, day""",
    17: f"""SELECT auction, {DAY}, {split("bids", "count(*)")}, min(price) AS least, max(price) AS most,
            avg(price) AS average, sum(price)::BIGINT AS total FROM bids GROUP BY auction, day""",
    18: """SELECT * FROM bids
           QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY "at" DESC) = 1""",
    19: """SELECT *, row_number() OVER
           (PARTITION BY auction ORDER BY price DESC, bidder, channel, url, "at", extra) AS rank
           FROM bids QUALIFY rank <= 10""",
    20: """SELECT b.*, a.item, a.description, a.initial_bid, a.reserve, a.at AS opened, a.expires, a.seller, a.category
           FROM bids b JOIN auctions a ON b.auction = a.id WHERE a.category = 10""",
    21: """SELECT auction, bidder, price, channel,
             CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2'
             WHEN 'baidu' THEN '3' ELSE nullif(regexp_extract(url, '(&|^)channel_id=([^&]*)', 2), '') END AS channel_id
           FROM bids WHERE channel_id IS NOT NULL""",
    22: """SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1, split_part(url, '/', 5) AS dir2,
             split_part(url, '/', 6) AS dir3 FROM bids""",
}


@pytest.fixture(scope="module")
def events() -> Events:
    return Events(8, EVENTS, PER_S)


@pytest.fixture(scope="module")
def duck(events: Events) -> Iterator[Any]:
    connection = duckdb.connect()
    for name, rows in {**events.frames, "arriving": arriving(events.frames["bids"]), "side": side_rows()}.items():
        connection.register(name, plain(rows).to_arrow())
    yield connection
    connection.close()


def plain(rows: pl.DataFrame) -> pl.DataFrame:
    """The columns of users, with times as DuckDB has them."""
    shown = rows.drop(TIME, "_deleted", strict=False)
    return shown.with_columns(pl.col(pl.Datetime("us", "UTC")).dt.replace_time_zone(None))


@pytest.mark.slow
@pytest.mark.parametrize("query", READS)
def test_the_rows_of_a_query_are_those_of_duckdb(query: int, events: Events, duck: Any) -> None:
    found = plain(pl.concat(Run(query, events).rows(BATCH)))
    if query in KEYS:
        found = found.unique(KEYS[query], keep="last", maintain_order=True)
    expected = pl.DataFrame(duck.sql(SQL[query]).to_arrow_table()).select(found.columns)
    assert expected.height > 0
    assert_frame_equal(found, expected, check_row_order=False, check_dtypes=False, rel_tol=1e-12)


def test_prices_of_a_seller_are_kept_for_the_next_batch(events: Events, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.measures.nexmark.events.HELD_EVENTS", 200)
    few, many = (pl.concat(Run(6, events).rows(size)) for size in (BATCH, EVENTS))
    assert few["seller"].is_duplicated().any()
    assert_frame_equal(plain(few), plain(many), check_row_order=False)


def test_fifty_events_hold_one_person_and_three_auctions_as_the_seed_draws_them(events: Events) -> None:
    assert {kind: rows.height * 50 // EVENTS for kind, rows in events.frames.items()} == {
        "persons": 1,
        "auctions": 3,
        "bids": 46,
    }
    again, other = Events(8, EVENTS, PER_S).frames, Events(9, EVENTS, PER_S).frames
    for kind, rows in events.frames.items():
        assert rows.equals(again[kind])
        assert not rows.equals(other[kind])
        assert rows[TIME].is_sorted()


def test_each_query_is_written_or_the_reason_is_named() -> None:
    assert sorted([*READS, *NOT_WRITTEN]) == list(range(23))


def test_flink_is_asked_for_every_query_or_the_reason_is_given() -> None:
    assert sorted(set(QUERIES) | set(LEFT_OUT)) == sorted(READS)
    *tables, run = statements(9, "localhost:9092", "q9-flink")
    assert [one.split("(")[0].strip() for one in tables] == [
        "CREATE TABLE auctions", "CREATE TABLE bids", "CREATE TABLE `out`"
    ]  # fmt: skip
    assert "PRIMARY KEY (id) NOT ENFORCED" in tables[-1]
    assert run.startswith("INSERT INTO `out` SELECT")


@pytest.mark.parametrize("program", ["import time; time.sleep(60)", "print('ready')"])
def test_a_query_of_flink_that_fails_or_hangs_ends_with_its_cause(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flink, "FLINK_S", 0.3)
    log = tmp_path / "log"
    log.write_text("java.io.IOException: Size of the state is larger than the maximum\n")
    cause = "before it was done: java.io.IOException: Size of the state"
    with (
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as child,
        pytest.raises(MeasureFailed, match=re.escape(cause)),
    ):
        flink._await(child, "done", log)
