"""Queries in SQL: the operators that each becomes, and what is refused, with its place."""

# ruff: noqa: E501 - a query stands in a line

from __future__ import annotations

import re
from typing import Any

import pytest

from holdfast import Job, JobRejected, query, sink, source, sql
from holdfast.schemas.decided import Id
from holdfast.schemas.plans import Plan
from holdfast.services.client.trials import attempt
from holdfast.services.kernel.functions import catalogue as functions
from holdfast.services.planning.conversion import to_python, to_yaml
from holdfast.services.planning.description import became, written_out
from holdfast.services.planning.drawing import svg
from holdfast.services.planning.loader import interpret
from holdfast.services.planning.plain_data import read
from holdfast.services.planning.plan import make_plan
from tests.unit.planning.jobs import GENERATION

SOURCES = read(
    """
clicks:
  topic: clicks
  fields: {user: string, page: string?, ms: int, cost: float, at: timestamp, tags: list<string>,
    geo: "struct<city: string>"}
  event_time: at
orders: {topic: orders, fields: {id: int, user: string, item: string, at: timestamp, until: timestamp}, event_time: at}
prices: {topic: prices, fields: {item: string, price: float, at: timestamp}, event_time: at}
users: {topic: users, fields: {user: string, country: string}, table: [user]}
regions: {topic: regions, fields: {country: string, region: string}, table: [country]}
untimed: {topic: untimed, fields: {k: string, v: int}}
""",
    "sources",
)

BECOMES = {
    "SELECT * FROM clicks": "x: {select: [user, page, ms, cost, at, tags, geo], input: clicks}",
    "SELECT user, ms / 1000 AS s FROM clicks AS c WHERE c.ms > 5 -- not the fast ones": """
x-where: {filter: '"ms" > 5', input: clicks}
x: {select: [user, ms / 1000 AS s], input: x-where}""",
    "SELECT * EXCEPT (tags, geo) REPLACE (ms * 2 AS ms) FROM clicks": """
x: {select: [user, page, ms * 2 AS ms, cost, at], input: clicks}""",
    "SELECT c.geo.city, geo.city AS again FROM clicks c": """
x: {select: ['"geo".city AS city', geo.city AS again], input: clicks}""",
    "SELECT user, count(*) AS n FROM clicks GROUP BY user": """
x: {aggregate: {n: count(*)}, key: [user], input: clicks}""",
    "SELECT user, window_start, window_end, sum(ms) AS ms FROM clicks GROUP BY user, TUMBLE(at, INTERVAL '1 minute')": """
x: {aggregate: {ms: sum(ms)}, key: [user], input: clicks, window: {size_s: 60}}""",
    "SELECT user, TUMBLE_END(at, '1 day') AS day, count(*) FILTER (WHERE ms > 3) / count(*) AS slow FROM clicks"
    " GROUP BY user, TUMBLE(at, '1 day')": """
x-group:
  aggregate: {slow_1: count(*) FILTER (WHERE ms > 3), slow_2: count(*)}
  key: [user]
  input: clicks
  window: {size_s: 86400}
x: {select: [user, window_end AS day, '"slow_1" / "slow_2" AS slow'], input: x-group}""",
    "SELECT LOWER(page) AS p, count(*) AS n FROM clicks GROUP BY 1": """
x-keys: {select: ['*', LOWER(page) AS p], input: clicks}
x: {aggregate: {n: count(*)}, key: [p], input: x-keys}""",
    "SELECT user, count(*) AS n FROM clicks GROUP BY user HAVING count(*) > 2": """
x-group: {aggregate: {n: count(*)}, key: [user], input: clicks}
x: {filter: '"n" > 2', input: x-group}""",
    "SELECT max(ms) AS ms FROM clicks GROUP BY HOP(ROWTIME, INTERVAL '5' MINUTE, INTERVAL '1 hour 30 minutes')": """
x-group: {aggregate: {ms: max(ms)}, key: [], input: clicks, window: {size_s: 5400, slide_s: 300}}
x: {select: [ms], input: x-group}""",
    "SELECT user, window_end, count(*) AS n FROM clicks GROUP BY user, CUMULATE(at, '1 hour', '1 day')": """
x-group: {aggregate: {n: count(*)}, key: [user], input: clicks, window: {size_s: 86400, step_s: 3600}}
x: {select: [user, window_end, n], input: x-group}""",
    "SELECT user, window_start, window_end, count(*) AS n FROM clicks GROUP BY user, SESSION(at, '30 minutes')": """
x: {aggregate: {n: count(*)}, key: [user], input: clicks, window: {gap_s: 1800}}""",
    "SELECT user, window_start, window_end, count(*) AS n FROM clicks GROUP BY user, TUMBLE(at, '1 day', 'Europe/Vienna')": """
x: {aggregate: {n: count(*)}, key: [user], input: clicks, window: {calendar: day, zone: Europe/Vienna}}""",
    "SELECT count(*) AS n, window_start, window_end FROM clicks GROUP BY TUMBLE(at, INTERVAL '1 month')": """
x: {aggregate: {n: count(*)}, key: [], input: clicks, window: {calendar: month}}""",
    "SELECT v, k, window_start, window_end, count(*) AS n FROM untimed GROUP BY v, k, TUMBLE(ROWTIME, '7 days', '3 days')": """
x: {aggregate: {n: count(*)}, key: [v, k], input: untimed, window: {size_s: 604800, offset_s: 259200}}""",
    "SELECT o.id, p.page FROM orders o JOIN clicks p ON o.user = p.user"
    " AND p.at BETWEEN o.at - INTERVAL '1 minute' AND o.at + INTERVAL '1 hour' WHERE p.ms > 3": """
x-join: {join: {left: orders, right: clicks, "on": [user], between: [-60, 3600], kind: inner}}
x-where: {filter: '"ms" > 3', input: x-join}
x: {select: [id, page], input: x-where}""",
    "SELECT o.id, c.at AS clicked FROM orders o, clicks c WHERE o.user = c.user AND c.at > o.at"
    " AND c.at < o.at + INTERVAL '1 second' AND c.at <= o.until": """
x-join: {join: {left: orders, right: clicks, "on": [user], between: [0.000001, 0.999999], kind: inner}}
x-on: {filter: '"at_right" <= "until"', input: x-join}
x: {select: [id, at_right AS clicked], input: x-on}""",
    "SELECT o.id FROM orders o ANTI JOIN clicks c ON o.user = c.user AND c.page = 'paid'"
    " AND c.at >= o.at AND c.at <= o.at + INTERVAL '1 hour'": """
x-on: {filter: "\\"page\\" = 'paid'", input: clicks}
x-join: {join: {left: orders, right: x-on, "on": [user], between: [0, 3600], kind: anti}}
x: {select: [id], input: x-join}""",
    "SELECT * FROM clicks c JOIN orders o ON c.ms + 1 = o.id AND o.at BETWEEN c.at AND c.at + INTERVAL '1 minute'": """
x-keys: {select: ['*', '"ms" + 1 AS key1'], input: clicks}
x-join: {join: {left: x-keys, right: orders, "on": [key1 = id], between: [0, 60], kind: inner}}
x:
  select: [user, page, ms, cost, at, tags, geo, key1 AS id, user_right, item, at_right, until]
  input: x-join""",
    "SELECT c.page, u.country FROM clicks c LEFT JOIN users u ON c.user = u.user": """
x-join: {join: {left: clicks, right: users, "on": [user], kind: left}}
x: {select: [page, country], input: x-join}""",
    "SELECT c.page, u.country, u.user FROM users u JOIN clicks c ON LOWER(c.user) = u.user": """
x-keys: {select: ['*', 'LOWER("user") AS key1'], input: clicks}
x-join: {join: {left: x-keys, right: users, "on": [key1 = user], kind: inner}}
x: {select: [page, country, key1 AS user], input: x-join}""",
    "SELECT user, country, region FROM users JOIN regions USING (country) WHERE region <> 'x'": """
x-join: {join: {left: users, right: regions, "on": [country], kind: inner}}
x: {select: ["* REPLACE (CASE WHEN region <> 'x' THEN op ELSE 'd' END AS op)"], input: x-join}""",
    "SELECT o.id, p.price FROM orders o ASOF LEFT JOIN prices p ON o.item = p.item AND o.at >= p.at"
    " AND p.at >= o.at - INTERVAL '1 day'": """
x-asof: {asof_join: {left: orders, right: prices, "on": [item], within_s: 86400, kind: left}}
x: {select: [id, price], input: x-asof}""",
    "SELECT o.id, p.price FROM orders o JOIN prices FOR SYSTEM_TIME AS OF o.at AS p ON o.item = p.item": """
x-asof: {asof_join: {left: orders, right: prices, "on": [item], kind: inner}}
x: {select: [id, price], input: x-asof}""",
    "SELECT user, ms, ROW_NUMBER() OVER (PARTITION BY user ORDER BY ms) AS rank FROM clicks QUALIFY rank <= 3": """
x-top: {top: {k: 3, by: ms, order: ascending}, key: [user], input: clicks}
x: {select: [user, ms, rank], input: x-top}""",
    "SELECT * FROM (SELECT user, ms, ROW_NUMBER() OVER (ORDER BY ms * cost DESC) AS rank FROM clicks) WHERE rank < 4": """
x-ranked: {select: ['*', ms * cost AS by1], input: clicks}
x-top: {top: {k: 3, by: by1}, input: x-ranked}
x: {select: [user, ms, rank], input: x-top}""",
    "SELECT user, n, window_end FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC)"
    " AS place FROM (SELECT user, count(*) AS n, window_start, window_end FROM clicks GROUP BY user, TUMBLE(at, '1 hour')))"
    " WHERE place = 1": """
x-group: {aggregate: {n: count(*)}, key: [user], input: clicks, window: {size_s: 3600}}
x-top: {top: {k: 1, by: n}, input: x-group}
x-select: {select: [user, n, window_start, window_end, rank AS place], input: x-top}
x: {select: [user, n, window_end], input: x-select}""",
    "SELECT user, ms FROM clicks ORDER BY ms DESC LIMIT 5": """
x-select: {select: [user, ms], input: clicks}
x: {top: {k: 5, by: ms}, input: x-select}""",
    "SELECT DISTINCT user FROM clicks": """
x-select: {select: [user], input: clicks}
x-distinct: {aggregate: {occurrences: count()}, key: [user], emit: each, input: x-select}
x-first: {filter: occurrences = 1, input: x-distinct}
x: {select: [user], input: x-first}""",
    "SELECT user, at FROM clicks UNION ALL SELECT user, at FROM orders UNION ALL SELECT item, at FROM prices": """
x-select: {select: [user, at], input: clicks}
x-select2: {select: [user, at], input: orders}
x-select3: {select: [item, at], input: prices}
x-named: {select: [item AS user, at], input: x-select3}
x: {union: [x-select, x-select2, x-named]}""",
    "SELECT user, tag, nth FROM clicks CROSS JOIN UNNEST(tags) WITH ORDINALITY AS t(tag, nth)": """
x-unnest: {unnest: {column: tags, into: tag, keep_empty: false, position: nth}, input: clicks}
x: {select: [user, tag, nth], input: x-unnest}""",
    "SELECT d.user FROM DEDUP(clicks, INTERVAL '1 hour', user, page) AS d": """
x-dedup: {dedup: {within_s: 3600}, key: [user, page], input: clicks}
x: {select: [user], input: x-dedup}""",
    """WITH counts AS (SELECT user, count(*) AS n, window_start, window_end FROM clicks
              GROUP BY user, HOP(at, '2 seconds', '9 seconds')),
            most AS (SELECT max(n) AS n, window_start, window_end FROM counts GROUP BY window_start, window_end)
       SELECT c.user, c.n, c.window_end FROM counts c JOIN most m ON c.window_end = m.window_end AND c.n = m.n""": """
x-group: {aggregate: {n: count(*)}, key: [user], input: clicks, window: {size_s: 9, slide_s: 2}}
x-keys: {select: ['*', window_start AS window_start_key, window_end AS window_end_key], input: x-group}
x-group2: {aggregate: {n: max(n)}, key: [window_start_key, window_end_key], input: x-keys, window: {size_s: 2, offset_s: 1}}
x-select: {select: [n, window_start_key AS window_start, window_end_key AS window_end], input: x-group2}
x-join: {join: {left: x-group, right: x-select, "on": [window_end, n], between: [0, 0], kind: inner}}
x: {select: [user, n, window_end], input: x-join}""",
}
"""The operators of a query by its text; None: it is refused, and stands below."""

REFUSED = {
    "SELECT\n  page FROM clickz": "line 2, column 13: there is no source or operator 'clickz' (did you mean 'clicks'?)",
    "SELECT c.pag FROM clicks c": "line 1, column 8: c has no column 'pag' (did you mean 'page'?)",
    "SELECT pag,\n ms + 'x' AS y FROM clicks": (
        "line 1, column 8: there is no column 'pag'",
        "line 2, column 2: ms is a whole number and 'x' is text",
    ),
    "SELECT user, avgg(ms) AS m FROM clicks GROUP BY user": "line 1, column 14: there is no function AVGG (did you mean",
    "SELECT count(*) AS n FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(at), INTERVAL '1' DAY)) GROUP BY window_start": (
        "line 1, column 27: a window is no table: TABLE(TUMBLE(...)) is not there (write GROUP BY ..., TUMBLE(...))"
    ),
    "SELECT window_start FROM TABLE(HOP(TABLE clicks, DESCRIPTOR(at), INTERVAL '1 minute', INTERVAL '5 minutes'))": (
        "line 1, column 26: a window is no table: TABLE(HOP(...)) is not there (write GROUP BY ..., HOP(...))"
    ),
    "SELECT * FROM clicks FOR SYSTEM_TIME AS OF at": "FOR SYSTEM_TIME AS OF a time is there in a join alone",
    "SELECT o.id FROM orders o RIGHT JOIN prices FOR SYSTEM_TIME AS OF o.at p ON o.item = p.item": (
        "FOR SYSTEM_TIME is there as AS OF a time alone"
    ),
    "SELECT o.id FROM orders o JOIN prices FOR SYSTEM_TIME AS OF o.id p ON o.item = p.item": (
        "'o.id' is not the event time of its rows (write at"
    ),
    "SELECT FROM clicks WHERE": "line 1, column 20: something is missing, at 'WHERE'",
    "SELECT user FROM clicks WHERE user = 'a' AND": "something is missing",
    "INSERT INTO y SELECT user FROM clicks": "line 1, column 1: INSERT is no query",
    "SELECT 1 AS a FROM clicks; SELECT 2 AS b FROM clicks": "is 2 statements (write an operator for each)",
    "SELECT ms + 1 FROM clicks": "line 1, column 8: 'ms + 1' has no name (write `ms + 1 AS name`)",
    "SELECT user, user FROM clicks": "line 1, column 14: there are two columns 'user'",
    "SELECT user, sum(ms) OVER (PARTITION BY user) AS s FROM clicks": "line 1, column 14: OVER is there for ROW_NUMBER()",
    "SELECT user FROM clicks WHERE user IN (SELECT user FROM orders)": "`SEMI JOIN t ON x = y`",
    "SELECT page, count(*) AS n FROM clicks GROUP BY user": "line 1, column 8: 'page' is neither in GROUP BY nor inside",
    "SELECT count(*) AS n FROM clicks GROUP BY user": "rows replace each other by user, and user is left out or renamed",
    "SELECT user, count(*) AS n FROM clicks GROUP BY user HAVING sum(ms) > 9": (
        "line 1, column 61: may hold for a row and not for the one that replaces it"
    ),
    "SELECT count(*) AS n FROM clicks GROUP BY TUMBLE(ms, '1 day')": "'ms' is not the event time of its rows (write at;",
    "SELECT count(*) AS n FROM untimed GROUP BY TUMBLE(v, '1 day')": "write ROWTIME, which stands for it",
    "SELECT count(*) AS n FROM clicks GROUP BY TUMBLE(at, 'soon')": "line 1, column 54: ''soon'' is no length of time",
    "SELECT count(*) AS n FROM clicks GROUP BY TUMBLE(at)": "TUMBLE is given other arguments than it takes",
    "SELECT count(*) AS n FROM clicks GROUP BY HOP(at, '1 month', '1 year')": "months have no fixed length",
    "SELECT count(*) AS n FROM clicks GROUP BY TUMBLE(at, '5 months')": "is no window of a calendar",
    "SELECT count(*) AS n FROM clicks GROUP BY HOP(at, '2 hours', '1 hour')": "slide_s is larger than size_s",
    "SELECT user FROM clicks GROUP BY CUBE (user)": "GROUPING SETS, ROLLUP and CUBE are not there",
    "SELECT o.id FROM orders o JOIN clicks c ON o.user = c.user": (
        "line 1, column 32: does not say how far apart in time rows of the two streams are at most "
        "(add `AND c.at BETWEEN o.at - INTERVAL '1 hour' AND o.at + INTERVAL '1 hour'`)"
    ),
    "SELECT o.id FROM orders o JOIN clicks c ON c.at > o.at AND c.ms > 3": "has no columns that are equal",
    "SELECT user FROM orders o JOIN clicks c ON o.user = c.user AND c.at = o.at": (
        "line 1, column 8: 'user' is a column of o and of c"
    ),
    "SELECT o.id FROM orders o JOIN clicks c ON o.user = c.user AND c.at > o.at AND c.at < o.at": "nothing lies between",
    "SELECT c.page, u.user FROM clicks c LEFT JOIN users u ON c.user = u.user": "a left join does not keep 'user'",
    "SELECT c.page FROM clicks c JOIN users u ON c.user = u.user AND c.at < ROWTIME": "",
    "SELECT c.page FROM clicks c JOIN users u ON c.page = u.country": "but the key of table users is user",
    "SELECT c.page FROM clicks c LEFT JOIN users u ON c.user = u.user AND c.ms > 3": "a left join cannot have",
    "SELECT c.page FROM clicks c NATURAL JOIN users u": "NATURAL JOIN is not there",
    "SELECT user FROM users": "users is a table, which only a join with a table reads",
    "SELECT user, ROW_NUMBER() OVER (ORDER BY ms) AS rank FROM clicks": "ROW_NUMBER() needs a bound",
    "SELECT user, ms FROM clicks QUALIFY ROW_NUMBER() OVER (ORDER BY ms) <= 3": "write ROW_NUMBER() OVER (...) AS rank",
    "SELECT user, ROW_NUMBER() OVER (ORDER BY ms, user) AS rank FROM clicks QUALIFY rank = 1": "orders by one value",
    "SELECT user FROM clicks ORDER BY user": "a stream has no end at which it could be sorted",
    "SELECT user FROM clicks LIMIT 3": "LIMIT needs an order",
    "SELECT DISTINCT ON (user) user, page FROM clicks": "line 1, column 8: DISTINCT ON is not there",
    "SELECT user FROM clicks INTERSECT SELECT user FROM orders": "INTERSECT is not there",
    "SELECT user FROM clicks UNION ALL SELECT user, at FROM orders": "has 1 column in the first SELECT and 2 here",
    "SELECT user FROM clicks UNION ALL SELECT id FROM orders": "'user' is int? here and string in the first",
    "WITH RECURSIVE r AS (SELECT user FROM clicks) SELECT * FROM r": "WITH RECURSIVE is not there",
    "WITH a AS (SELECT * FROM b), b AS (SELECT * FROM a) SELECT * FROM a": "line 1, column 50: a reads itself",
    "SELECT user FROM clicks TABLESAMPLE 10%": "TABLESAMPLE is not there (leave it out)",
    "SELECT user FROM clicks FOR UPDATE": "is not there",
    "WITH a AS (SELECT user FROM clicks), a AS (SELECT id FROM orders) SELECT * FROM a": "'a' is there twice",
    "SELECT user, ms FROM clicks ORDER BY ms NULLS FIRST LIMIT 3": "NULLS FIRST is not there",
    "SELECT sum(ms) AS s FROM clicks HAVING sum(ms) > 3": "may hold for a row and not for the one that replaces it",
    "SELECT count(*) AS n FROM (SELECT sum(ms) AS s FROM clicks)": "an aggregate counts each as one more",
    "SELECT user FROM FIRST(clicks)": "there is no table function FIRST",
    "SELECT c.ms FROM orders o JOIN clicks c ON o.user = c.user AND c.at BETWEEN SYMMETRIC o.at AND o.at": (
        "does not say how far apart in time"
    ),
    "SELECT sum(DISTINCT ms) AS s FROM clicks": "line 1, column 8: sum(DISTINCT ...) is not there",
    "SELECT string_agg(page, ',' ORDER BY ms) AS s FROM clicks": (
        "string_agg(... ORDER BY ...) is not there: its values are in the order of event time"
    ),
    "SELECT count(DISTINCT (user, page)) AS n FROM clicks": "several values in brackets are no value",
    "SELECT TOP 3 user FROM clicks": "line 1, column 8: TOP 3 is not there (write ORDER BY value DESC LIMIT 10",
    "SELECT user FROM clicks GROUP BY user)": "line 1, column 38: cannot be read, at ')'",
    "SELECT LOWER(page) AS page, max(page) AS p FROM clicks GROUP BY 1": "rows replace each other by page_key",
    "SELECT user FROM clicks UNION ALL BY NAME SELECT user FROM orders": "line 1, column 8: UNION BY NAME is not there",
    "SELECT user FROM (SELECT user FROM clicks) TABLESAMPLE 10%": "line 1, column 26: TABLESAMPLE is not there",
    "SELECT a FROM (SELECT user FROM clicks) AS s(a, b)": "line 1, column 44: names 2 columns, and there are 1",
    "SELECT a FROM orders AS o(item)": "there are two columns 'item'",
    "SELECT user FROM clicks SEMI JOIN UNNEST(tags) AS t(tag) ON t.tag = 'x'": "takes one list, in a CROSS JOIN or a LEFT",
    "SELECT user FROM clicks LEFT JOIN UNNEST(tags) AS t(tag) ON t.tag = 'x'": "a LEFT JOIN of a list cannot have",
    "SELECT user FROM clicks, UNNEST(tags) AS t(tag, nth)": "an item is one column, and there are names for 2",
    "SELECT one FROM (SELECT user, collect_list(page) AS pages FROM clicks GROUP BY user) CROSS JOIN UNNEST(pages) AS t(one)": (
        "items of a former row would stay"
    ),
    "SELECT user, country, region, ROW_NUMBER() OVER (PARTITION BY user ORDER BY region) AS rank"
    " FROM users JOIN regions USING (country) QUALIFY rank <= 3": "come once more, with op d, and would stay ranked",
    "SELECT c.user FROM clicks c POSITIONAL JOIN orders o ON o.user = c.user": "POSITIONAL JOIN is not there",
    "SELECT o.user FROM clicks c RIGHT SEMI JOIN orders o ON o.user = c.user": "RIGHT SEMI JOIN is not there",
    "SELECT c.ms AS a, o.id AS ms FROM clicks c JOIN orders o ON o.user = c.user AND o.at = c.at ORDER BY c.at LIMIT 3": (
        "is no column of SELECT"
    ),
    "SELECT * FROM (SELECT user, ROW_NUMBER() OVER (PARTITION BY user ORDER BY ms) AS rank FROM clicks ORDER BY user LIMIT 9)"
    " WHERE rank <= 3": "ROW_NUMBER() needs a bound",
    "SELECT o.id FROM orders o LEFT JOIN (SELECT user, ROW_NUMBER() OVER (ORDER BY ms) AS rank FROM clicks) c"
    " ON o.user = c.user WHERE c.rank <= 3": "ROW_NUMBER() needs a bound",
    "SELECT window_start, sum(n) AS s FROM (SELECT window_start, window_end, count(*) AS n FROM clicks"
    " GROUP BY CUMULATE(at, '1 minute', '1 hour')) GROUP BY window_start": "windows of CUMULATE begin together",
    "SELECT x.user FROM x": "x",
    "SELECT user, n FROM (SELECT user, count(*) AS n FROM clicks GROUP BY user) GROUP BY user, n": (
        "replace each other, and an aggregate counts each as one more"
    ),
}
"""A part of each mistake of a query."""


def job(text: str, operators: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "name": "job",
        "sources": SOURCES,
        "operators": {**(operators or {}), "x": {"sql": text, **more}},
        "queries": {"out": {"input": "x", "sink": {"topic": "out"}}},
    }


def plan(raw: dict[str, Any]) -> Plan:
    given: dict[str, Any] = {"prefix": "holdfast", "versions": {}, "allow": []}
    return make_plan(interpret(raw), generation=GENERATION, id=Id("me", 1), topics=None, first={}, **given)


def problems(raw: dict[str, Any]) -> list[str]:
    with pytest.raises(JobRejected) as rejected:
        plan(raw)
    return [str(one) for one in rejected.value.problems]


@pytest.mark.parametrize("text", BECOMES)
def test_a_query_is_planned_as_the_operators_that_do_the_same(text: str) -> None:
    written = read(BECOMES[text], "query")
    by_hand = {**job(text), "operators": written}
    planned, same = plan(job(text)), plan(by_hand)
    made = became(interpret(job(text)), planned)["x"]
    assert interpret({**by_hand, "operators": made}).operators == interpret(by_hand).operators
    assert planned.operators == same.operators
    assert planned.edges == same.edges
    assert planned.units == same.units


@pytest.mark.parametrize("text", [one for one, said in REFUSED.items() if said])
def test_a_query_that_is_not_there_is_refused_with_its_place(text: str) -> None:
    found = problems(job(text))
    said = REFUSED[text]
    expected = (said,) if isinstance(said, str) else said
    assert len(found) == len(expected)
    for one, part in zip(found, expected, strict=True):
        assert one.startswith("operators.x.sql")
        assert part in one


@pytest.mark.parametrize("text", [one for one in REFUSED if "FROM x" not in one and "clickz" not in one])
def test_every_refusal_names_line_and_column(text: str) -> None:
    for one in problems(job(text)):
        assert re.match(r"operators\.x\.sql: line \d+, column \d+: ", one), one


@pytest.mark.parametrize("one", functions.OF_ONE_ROW, ids=lambda one: one.name)
def test_every_function_may_stand_in_a_query(one: Any) -> None:
    for name in one.names:
        example = re.sub(rf"^{one.name}\b", name, one.example)
        by_hand = {**job(""), "operators": {"x": {"select": [f"{example} AS value"], "input": "clicks"}}}
        try:
            expected = plan(by_hand).operators
        except JobRejected:
            continue  # the example has no form under this name
        assert plan(job(f"SELECT {example} AS value FROM clicks")).operators == expected


EXPRESSIONS = (
    "ms // 2", "ms % 2", "ms & 3", "ms | 1", "ms XOR 1", "page IS DISTINCT FROM 'x'", "page LIKE 'a%'", "page ILIKE 'a%'",
    "ms NOT BETWEEN 1 AND 3", "page NOT IN ('a', 'b')", "page || '!' || page", "CAST(ms AS FLOAT)", "ms::VARCHAR",
    "TRY_CAST(page AS INT)", "at + INTERVAL '1 day'", "EXTRACT(HOUR FROM at)", "at AT TIME ZONE 'Europe/Vienna'",
    "tags[1]", "geo.city", "CASE page WHEN 'a' THEN 1 ELSE 2 END", "ms > 1 IS TRUE", "NOT (ms > 3 OR cost < 2)", "-ms",
    "at > '2024-02-29'", "'it''s -- no comment'", "COALESCE(page, 'none')", "IF(ms > 3, 'a', 'b')",
)  # fmt: skip


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_an_expression_is_handed_on_as_it_stands(text: str) -> None:
    by_hand = {**job(""), "operators": {"x": {"select": [f"{text} AS value"], "input": "clicks"}}}
    assert plan(job(f"SELECT {text} AS value FROM clicks")).operators == plan(by_hand).operators


def test_a_query_reads_queries_and_outputs_and_is_read() -> None:
    operators = {
        "late": {"sql": "SELECT user, ms, at FROM clicks WHERE ms > 3"},
        "by-user": {
            "sql": "SELECT user, window_start, window_end, count(*) AS n FROM late GROUP BY user, TUMBLE(at, '1 h')"
        },
    }
    raw = job('SELECT user, n FROM "by-user" WHERE n > 3', operators)
    planned = plan(raw)
    assert [one.name for one in planned.operators if one.kind not in ("source", "sink")] == [
        "late-where", "late", "by-user", "x-where", "x",
    ]  # fmt: skip
    made = became(interpret(raw), planned)
    assert {name: list(one) for name, one in made.items()} == {
        "late": ["late-where", "late"],
        "by-user": ["by-user"],
        "x": ["x-where", "x"],
    }
    assert ("x", "x-where: {filter: n > 3, input: by-user}") in written_out(made).rows


def test_a_refused_query_is_the_only_problem_of_a_job_whose_queries_read_it() -> None:
    (problem,) = problems(job("SELECT nope FROM clicks"))
    assert "there is no column 'nope'" in problem
    with pytest.raises(JobRejected) as rejected:
        attempt(interpret(job("SELECT nope FROM clicks")), {one: [] for one in SOURCES})
    assert len(rejected.value.problems) == 1


def test_mistakes_behind_a_refused_query_do_not_hide_others() -> None:
    operators = {
        "bad": {"sql": "SELECT nope FROM clicks"},
        "behind": {"filter": "nope > 3", "input": "bad"},
        "apart": {"filter": "nothing > 3", "input": "clicks"},
    }
    raw = job("SELECT nope FROM behind", operators)
    raw["queries"]["apart"] = {"input": "apart"}
    assert [one.partition(" (")[0] for one in problems(raw)] == [
        "operators.bad.sql: line 1, column 8: there is no column 'nope'",
        "operators.apart.filter: there is no column 'nothing'",
    ]


def test_a_query_that_reads_itself_is_refused() -> None:
    assert problems(job("SELECT user FROM x")) == [
        "operators.x.sql: reads itself (an operator reads only what comes before it)"
    ]


def test_names_that_are_taken_are_left_alone() -> None:
    operators = {"x-where": {"filter": "ms > 100", "input": "clicks"}}
    raw = job("SELECT user, ms FROM clicks WHERE ms > 5", operators)
    raw["queries"]["other"] = {"input": "x-where"}
    kinds = {one.name: one.params.get("filter") for one in plan(raw).operators}
    assert (kinds["x-where"], kinds["x-where2"]) == ("ms > 100", "ms > 5")


def test_parallelism_holds_for_every_operator_that_may_have_tasks() -> None:
    text = (
        "SELECT user, count(*) AS n, window_start, window_end FROM clicks WHERE ms > 3 GROUP BY user, TUMBLE(at, '1 h')"
    )
    tasks = {one.name: one.parallelism for one in plan(job(text, parallelism=3)).operators}
    assert (tasks["x-where"], tasks["x"]) == (3, 3)


def test_a_placement_holds_what_a_query_became() -> None:
    raw = job("SELECT user FROM clicks WHERE ms > 3")
    raw["placement"] = {"units": [["clicks", "x"]]}
    assert ("clicks", "x-where", "x") in [one.operators[:3] for one in plan(raw).units]


def test_a_job_in_python_may_be_a_query_and_runs() -> None:
    counted = Job(
        name="counted",
        sources={"clicks": source(topic="clicks", fields={"user": "string", "ms": "int"})},
        operators={"slow": sql(sql="SELECT user, count(*) AS n FROM clicks WHERE ms > 3 GROUP BY user")},
        queries={"slow": query(input="slow", sink=sink(topic="slow"))},
    )
    tried = counted.try_({"clicks": [{"user": "a", "ms": 5}, {"user": "b", "ms": 1}, {"user": "a", "ms": 9}]})
    assert tried["slow"].select("user", "n").rows()[-1] == ("a", 2)
    assert "sql(sql=" in to_python(counted)
    assert "sql: SELECT user" in to_yaml(counted)
    assert "slow" in svg(counted)
    with pytest.raises(JobRejected, match=r"operators\.slow\.sql"):
        Job(
            name="counted",
            sources={"clicks": source(topic="clicks", fields={"user": "string"})},
            operators={"slow": sql(sql="SELECT usr FROM clicks")},
            queries={"slow": query(input="slow", sink=sink(topic="slow"))},
        ).try_({"clicks": [{"user": "a"}]})
