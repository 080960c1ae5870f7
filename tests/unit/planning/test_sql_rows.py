"""Rows of queries in SQL: those of DuckDB over the same rows, and those of the job that is written by hand."""

# ruff: noqa: E501 - a query stands in a line

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from holdfast import Job, query, source, sql
from holdfast.services.planning.description import became
from holdfast.services.planning.plain_data import read
from holdfast.services.planning.sql import whole

duckdb: Any = pytest.importorskip("duckdb")

EXAMPLE = Path(__file__).parents[3] / "compose" / "jobs" / "clicks-sql.yaml"
BEGIN = datetime(2026, 3, 28, 12, tzinfo=UTC)
"""The clocks of Vienna change in the night after."""
ROWS = 400
CLICKS = {"who": "string", "page": "string?", "ms": "int", "ts": "timestamp", "tags": "list<string>"}
ORDERS = {"id": "int", "who": "string", "v": "float", "ts": "timestamp"}
USERS = {"who": "string", "country": "string"}

MINUTES = "epoch_us(ts) // 60000000 * 60000000"
CASES: dict[str, tuple[str, str, list[str]]] = {
    "filter and select": (
        "SELECT who, ms / 7 AS s, LOWER(page) AS p FROM clicks c WHERE c.ms > 50 AND page IS NOT NULL",
        "SELECT who, ms / 7 AS s, lower(page) AS p FROM clicks WHERE ms > 50 AND page IS NOT NULL",
        [],
    ),
    "totals": (
        "SELECT who, count(*) AS n, sum(ms) / count(*) AS m, count(DISTINCT page) FILTER (WHERE ms > 9) AS pages FROM clicks"
        " GROUP BY who HAVING count(*) > 20",
        "SELECT who, count(*) AS n, sum(ms) / count(*) AS m, count(DISTINCT page) FILTER (WHERE ms > 9) AS pages FROM clicks"
        " GROUP BY who HAVING count(*) > 20",
        ["who"],
    ),
    "computed keys": (
        "SELECT ms % 5 AS rest, max(ms) - min(ms) AS spread FROM clicks GROUP BY ms % 5",
        "SELECT ms % 5 AS rest, max(ms) - min(ms) AS spread FROM clicks GROUP BY ms % 5",
        ["rest"],
    ),
    "tumbling": (
        "SELECT who, TUMBLE_START(ts, '1 minute') AS minute, count(*) AS n FROM clicks GROUP BY who, TUMBLE(ts, '1 minute')"
        " HAVING count(*) > 1",
        f"SELECT who, make_timestamp({MINUTES}) AS minute, count(*) AS n FROM clicks GROUP BY who, minute"
        " HAVING count(*) > 1",
        [],
    ),
    "hopping": (
        "SELECT who, window_end, sum(ms) AS ms FROM clicks GROUP BY who, HOP(ts, '1 minute', '3 minutes')",
        f"SELECT who, make_timestamp({MINUTES} + (i + 1) * 60000000) AS window_end, sum(ms) AS ms"
        " FROM clicks, range(3) AS hops(i) GROUP BY who, window_end",
        [],
    ),
    "days of a zone": (
        "SELECT window_start, count(*) AS n FROM clicks GROUP BY TUMBLE(ts, '1 day', 'Europe/Vienna')",
        "SELECT CASE WHEN ts < '2026-03-28 23:00:00' THEN TIMESTAMP '2026-03-27 23:00:00'"
        " WHEN ts < '2026-03-29 22:00:00' THEN TIMESTAMP '2026-03-28 23:00:00' ELSE '2026-03-29 22:00:00' END"
        " AS window_start, count(*) AS n FROM clicks GROUP BY 1",
        [],
    ),
    "sessions": (
        "SELECT who, window_start, count(*) AS n FROM clicks GROUP BY who, SESSION(ts, '3 minutes')",
        "WITH begun AS (SELECT who, ts, coalesce(ts - lag(ts) OVER w >= INTERVAL 3 MINUTE, true)::INT AS starts"
        " FROM clicks WINDOW w AS (PARTITION BY who ORDER BY ts)), numbered AS"
        " (SELECT *, sum(starts) OVER (PARTITION BY who ORDER BY ts) AS session FROM begun)"
        " SELECT who, min(ts) AS window_start, count(*) AS n FROM numbered GROUP BY who, session",
        [],
    ),
    "windows of windows": (
        """WITH counts AS (SELECT who, count(*) AS n, window_start, window_end FROM clicks
             GROUP BY who, HOP(ts, '2 minutes', '5 minutes')),
           most AS (SELECT max(n) AS n, window_start, window_end FROM counts GROUP BY window_start, window_end)
           SELECT c.who, c.n, c.window_end FROM counts c JOIN most m ON c.window_end = m.window_end AND c.n = m.n""",
        """WITH counts AS (SELECT who, count(*) AS n, window_end FROM (SELECT who, unnest(range(
             (epoch_us(ts) - 300000000) // 120000000 + 1, epoch_us(ts) // 120000000 + 1)) * 120000000 + 300000000
             AS window_end FROM clicks) GROUP BY ALL)
           SELECT who, n, make_timestamp(window_end) AS window_end FROM counts
           QUALIFY n = max(n) OVER (PARTITION BY window_end)""",
        [],
    ),
    "streams within a time": (
        "SELECT o.id, c.page, c.ts AS clicked, o.v * c.ms AS both FROM orders o JOIN clicks c ON o.who = c.who"
        " AND c.ts BETWEEN o.ts - INTERVAL '30 seconds' AND o.ts + INTERVAL '1 minute' WHERE c.ms > o.v",
        "SELECT o.id, c.page, c.ts AS clicked, o.v * c.ms AS both FROM orders o JOIN clicks c ON o.who = c.who"
        " AND c.ts BETWEEN o.ts - INTERVAL '30 seconds' AND o.ts + INTERVAL '1 minute' WHERE c.ms > o.v",
        [],
    ),
    "rows that meet none": (
        "SELECT o.id FROM orders o ANTI JOIN clicks c ON o.who = c.who AND c.ms > 20"
        " AND c.ts >= o.ts AND c.ts <= o.ts + INTERVAL '1 minute'",
        "SELECT o.id FROM orders o ANTI JOIN clicks c ON o.who = c.who AND c.ms > 20"
        " AND c.ts >= o.ts AND c.ts <= o.ts + INTERVAL '1 minute'",
        [],
    ),
    "rows of the left alone": (
        "SELECT o.id, c.page FROM orders o LEFT JOIN clicks c ON o.who = c.who AND c.ms > 60"
        " AND c.ts >= o.ts AND c.ts < o.ts + INTERVAL '1 minute'",
        "SELECT o.id, c.page FROM orders o LEFT JOIN clicks c ON o.who = c.who AND c.ms > 60"
        " AND c.ts >= o.ts AND c.ts < o.ts + INTERVAL '1 minute'",
        [],
    ),
    "as of a time": (
        "SELECT o.id, c.ms FROM orders o ASOF LEFT JOIN clicks c ON o.who = c.who AND o.ts >= c.ts",
        "SELECT o.id, c.ms FROM orders o ASOF LEFT JOIN clicks c ON o.who = c.who AND o.ts >= c.ts",
        [],
    ),
    "a table": (
        "SELECT c.page, c.ms, u.country FROM clicks c LEFT JOIN users u ON c.who = u.who",
        "SELECT c.page, c.ms, u.country FROM clicks c LEFT JOIN users u ON c.who = u.who",
        [],
    ),
    "ranks of windows": (
        """SELECT who, n, window_end, place FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end
             ORDER BY n DESC) AS place FROM (SELECT who, sum(ms) * 1000 + max(ms) AS n, window_start, window_end
             FROM clicks GROUP BY who, TUMBLE(ts, '2 minutes'))) WHERE place <= 2""",
        """SELECT who, n, make_timestamp(w) AS window_end, place FROM (SELECT *, row_number() OVER (PARTITION BY w
             ORDER BY n DESC, who) AS place FROM (SELECT who, sum(ms) * 1000 + max(ms) AS n,
             epoch_us(ts) // 120000000 * 120000000 + 120000000 AS w FROM clicks GROUP BY ALL)) WHERE place <= 2""",
        [],
    ),
    "ranks of all": (
        "SELECT who, id, v, ROW_NUMBER() OVER (PARTITION BY who ORDER BY v DESC) AS rank FROM orders QUALIFY rank <= 3",
        "SELECT who, id, v, row_number() OVER (PARTITION BY who ORDER BY v DESC) AS rank FROM orders QUALIFY rank <= 3",
        ["who", "rank"],
    ),
    "distinct": ("SELECT DISTINCT who, ms % 3 AS m FROM clicks", "SELECT DISTINCT who, ms % 3 AS m FROM clicks", []),
    "union": (
        "SELECT who, ts FROM clicks WHERE ms > 90 UNION ALL SELECT who, ts FROM orders WHERE v > 90",
        "SELECT who, ts FROM clicks WHERE ms > 90 UNION ALL SELECT who, ts FROM orders WHERE v > 90",
        [],
    ),
    "lists": (
        "SELECT who, t.tag FROM clicks CROSS JOIN UNNEST(tags) AS t(tag) WHERE t.tag <> 'a'",
        "SELECT who, tag FROM (SELECT who, unnest(tags) AS tag FROM clicks) WHERE tag <> 'a'",
        [],
    ),
}
"""Query, the same for DuckDB, and the columns by which rows replace each other."""

AS_WRITTEN = {
    "union by place": (
        "SELECT ms, ms % 7 AS m FROM clicks UNION ALL SELECT ms % 5 AS m, ms FROM clicks WHERE ms > 50",
        [],
    ),
    "a key in a larger expression": (
        "SELECT a, b, a + b AS s, 2 * a + b AS t, (a+b) * 2 AS u, count(*) AS n"
        " FROM (SELECT ms % 3 AS a, ms % 4 AS b FROM clicks) GROUP BY a, b, a + b",
        ["a", "b", "s"],
    ),
    "a key under the name of its column": (
        "SELECT LOWER(page) AS page, ms // 20 AS ms, count(*) AS n FROM clicks GROUP BY LOWER(page), ms // 20",
        ["page", "ms"],
    ),
    "a key that is a part of another one": (
        "SELECT who AS a, who || page AS b, CONCAT(who || page, '!') AS c, count(*) AS n FROM clicks"
        " GROUP BY who, who || page",
        ["a", "b"],
    ),
    "columns named behind the alias": (
        "SELECT m, s.n, s.ts FROM (SELECT ms % 3 AS n, ms AS m, ts FROM clicks) AS s(m, n) WHERE m < s.n",
        [],
    ),
    "columns of a source named behind its alias": ("SELECT a, c.page FROM clicks c(a, b, page) WHERE page > 9", []),
    "a list whose items are joined on a condition": (
        "SELECT who, t.tag FROM clicks JOIN UNNEST(tags) AS t(tag) ON t.tag <> 'a' AND ms > 30",
        [],
    ),
    "a text with a line end": ("SELECT who, 'a\n  b'\n || page AS p FROM clicks WHERE\n ms > 3", []),
    "ordered by a column under another name": (
        "SELECT c.ts AS ms, c.ms AS ts, c.who FROM clicks c ORDER BY c.ts DESC LIMIT 5",
        ["rank"],
    ),
    "a condition on rows that a later join adds to": (
        "SELECT o.id, o.v, c.ms, d.ms AS other FROM orders o JOIN clicks c ON o.who = c.who"
        " AND c.ts BETWEEN o.ts - INTERVAL 9 MINUTE AND o.ts RIGHT JOIN clicks d ON o.who = d.who AND d.ts = o.ts"
        " WHERE o.v > c.ms",
        [],
    ),
}
"""A query that DuckDB takes as it is, and the columns by which rows replace each other."""
CASES |= {name: (text, text, key) for name, (text, key) in AS_WRITTEN.items()}


def made_up(seed: int) -> dict[str, pl.DataFrame]:
    chance = Random(seed)
    times = sorted(BEGIN + timedelta(milliseconds=chance.randrange(36_000_000)) for _ in range(ROWS))
    clicks = [
        {
            "who": f"u{chance.randrange(6)}",
            "page": chance.choice(["A", "B", "C", None]),
            "ms": chance.randrange(100),
            "ts": time,
            "tags": [chance.choice("abc") for _ in range(chance.randrange(3))],
        }
        for time in times
    ]
    orders = [
        {"id": n, "who": f"u{chance.randrange(7)}", "v": chance.randrange(10_000) / 64, "ts": time}
        for n, time in enumerate(sorted(chance.sample(times, ROWS // 4)))
    ]
    users = [{"who": f"u{n}", "country": chance.choice(["AT", "DE"])} for n in range(4)]
    typed = {"ts": pl.Datetime("us", "UTC")}
    return {
        "clicks": pl.DataFrame(clicks, schema_overrides={**typed, "page": pl.String, "tags": pl.List(pl.String)}),
        "orders": pl.DataFrame(orders, schema_overrides=typed),
        "users": pl.DataFrame(users),
    }


def job(text: str) -> Job:
    return Job(
        name="job",
        sources={
            "clicks": source(topic="clicks", fields=CLICKS, event_time="ts"),
            "orders": source(topic="orders", fields=ORDERS, event_time="ts"),
            "users": source(topic="users", fields=USERS, table=["who"]),
        },
        operators={"x": sql(sql=text)},
        queries={"out": query(input="x")},
    )


def sources_of(job: Job) -> set[str]:
    return {name for one in job.operators.values() for name in one.inputs} & job.sources.keys()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("case", CASES)
def test_a_query_gives_the_rows_of_duckdb_and_of_the_job_by_hand(case: str, seed: int) -> None:
    text, reference, key = CASES[case]
    frames, written = made_up(seed), job(text)
    by_hand = Job(**{**written.as_written(), **whole.whole(written, []).spec.as_written()})
    assert all(one.kind != "sql" for one in by_hand.operators.values())
    inputs = {name: frames[name] for name in written.sources if name in sources_of(written)}
    given = {name: inputs.get(name, frames[name].head(0)) for name in frames}
    tried = written.try_(given)
    assert tried.dead_letters.is_empty()
    found = tried["out"]
    assert_frame_equal(found, by_hand.try_(given)["out"])
    if key:
        found = found.unique(key, keep="last")
    expected = of_duckdb(reference, frames)
    columns = expected.columns
    assert expected.height
    assert_frame_equal(
        found.select(columns), expected, check_dtypes=False, check_row_order=False, check_exact=False, rel_tol=1e-12
    )


def of_duckdb(text: str, frames: dict[str, pl.DataFrame]) -> pl.DataFrame:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, frame in frames.items():
            connection.register(f"{name}_frame", frame.to_arrow())
            times = "* REPLACE (ts::TIMESTAMP AS ts)" if "ts" in frame.columns else "*"
            connection.execute(f"CREATE TABLE {name} AS SELECT {times} FROM {name}_frame")
        found: pl.DataFrame = connection.sql(text).pl()
    naive = [name for name, kind in found.schema.items() if kind == pl.Datetime("us")]
    return found.with_columns(pl.col(naive).dt.replace_time_zone("UTC"))


def test_check_prints_what_the_query_became() -> None:
    from holdfast.services.client.planned_job import plan

    written = job(CASES["tumbling"][0])
    made = became(written, plan(written, None, "holdfast", []))
    assert list(made["x"]) == ["x-group", "x-having", "x"]
    assert made["x"]["x-group"] == {
        "aggregate": {"n": "count(*)"},
        "key": ["who"],
        "input": "clicks",
        "window": {"size_s": 60.0},
    }


def test_the_example_runs() -> None:
    spec = read(EXAMPLE.read_text(encoding="utf-8"), EXAMPLE.name)
    at = [f"2026-03-28T12:{minute:02}:00Z" for minute in range(60)]
    pages = [("a", 90), ("b", 200), ("c", 300), ("d", 400)]
    clicks = [{"user": "u", "page": page, "ms": ms, "at": at[0]} for page, ms in pages]
    tried = Job(**spec).try_({"clicks": clicks, "orders": [{"id": 7, "user": "u", "at": at[59]}]})
    assert tried["slowest"].select("page", "n", "rank").rows() == [("d", 1, 1), ("c", 1, 2), ("b", 1, 3)]
    assert sorted(tried["bought"].rows()) == [("u", "b", 7), ("u", "c", 7), ("u", "d", 7)]
