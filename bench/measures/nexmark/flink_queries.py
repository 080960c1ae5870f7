"""Nexmark's queries in the SQL of Flink, over the same rows: a table to write, and what is written to it.

A row of a query whose rows replace each other goes to an upsert table, by its key. Where a job of ours holds rows as
long as they may match, Flink keeps them for ever: that is how its users write these queries.
"""

from __future__ import annotations

from typing import NamedTuple

from bench.measures.nexmark.events import FIELDS
from bench.measures.nexmark.queries import READS

_KINDS = {"int": "BIGINT", "string": "STRING", "timestamp": "TIMESTAMP(3)"}
LEFT_OUT = {
    6: "Flink's OVER takes no rows that replace each other, and the highest bid of an auction does",
    13: "Flink reads a table at its side by connectors other than Kafka's",
}
"""Holdfast's queries without a counterpart for Flink."""


class FlinkQuery(NamedTuple):
    """A query for Flink.

    columns: names and types, comma separated.
    key: key by which rows replace each other; empty: they do not.
    select: text of the SELECT.
    """

    columns: str
    key: str
    select: str


def _counts(*counted: tuple[str, str]) -> str:
    parts = {
        "": "",
        "_low": "price < 10000",
        "_middle": "price >= 10000 AND price < 1000000",
        "_high": "price >= 1000000",
    }
    found = [
        f"{what} {f'FILTER (WHERE {condition}) ' if condition else ''}AS {name}{part}"
        for name, what in counted
        for part, condition in parts.items()
    ]
    return ", ".join(found)


def _numbers(*names: str) -> str:
    return ", ".join(f"{name}{part} BIGINT" for name in names for part in ("", "_low", "_middle", "_high"))


_STATISTICS = _counts(
    ("bids", "COUNT(*)"), ("bidders", "COUNT(DISTINCT bidder)"), ("auctions", "COUNT(DISTINCT auction)")
)
_DAY = "DATE_FORMAT(`at`, 'yyyy-MM-dd')"
_WON = "auctions a JOIN bids b ON a.id = b.auction AND b.`at` >= a.`at` AND b.`at` <= a.expires"
_BID = "auction BIGINT, bidder BIGINT, price BIGINT, `at` TIMESTAMP(3)"
_HOP = "TABLE(HOP(TABLE bids, DESCRIPTOR(`at`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))"


def _tumble(table: str) -> str:
    return f"TABLE(TUMBLE(TABLE {table}, DESCRIPTOR(`at`), INTERVAL '10' SECOND))"


_COUNTED = f"""(SELECT auction, COUNT(*) AS num, window_start, window_end FROM {_HOP}
  GROUP BY auction, window_start, window_end)"""

QUERIES = {
    0: FlinkQuery(f"{_BID}, extra STRING", "", "SELECT auction, bidder, price, `at`, extra FROM bids"),
    1: FlinkQuery(
        "auction BIGINT, bidder BIGINT, price DOUBLE, `at` TIMESTAMP(3), extra STRING",
        "",
        "SELECT auction, bidder, CAST(0.908 AS DOUBLE) * price, `at`, extra FROM bids",
    ),
    2: FlinkQuery("auction BIGINT, price BIGINT", "", "SELECT auction, price FROM bids WHERE MOD(auction, 123) = 0"),
    3: FlinkQuery(
        "name STRING, city STRING, state STRING, id BIGINT",
        "",
        """SELECT p.name, p.city, p.state, a.id FROM auctions a JOIN persons p ON a.seller = p.id
           WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')""",
    ),
    4: FlinkQuery(
        "category BIGINT, price DOUBLE",
        "category",
        f"""SELECT category, AVG(CAST(final AS DOUBLE)) FROM
            (SELECT MAX(b.price) AS final, a.category FROM {_WON} GROUP BY a.id, a.category) GROUP BY category""",
    ),
    5: FlinkQuery(
        "auction BIGINT, num BIGINT, ends TIMESTAMP(3)",
        "auction, ends",
        f"""SELECT c.auction, c.num, c.window_end FROM {_COUNTED} c JOIN
            (SELECT MAX(num) AS most, window_start, window_end FROM {_COUNTED} GROUP BY window_start, window_end) m
            ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.num = m.most""",
    ),
    7: FlinkQuery(
        _BID,
        "",
        f"""SELECT b.auction, b.bidder, b.price, b.`at` FROM bids b JOIN
            (SELECT MAX(price) AS most, window_start, window_end, window_time FROM {_tumble("bids")}
             GROUP BY window_start, window_end, window_time) m
            ON b.price = m.most AND b.`at` BETWEEN m.window_time - INTERVAL '10' SECOND AND m.window_time
            WHERE b.`at` >= m.window_start AND b.`at` < m.window_end""",
    ),
    8: FlinkQuery(
        "id BIGINT, name STRING, starts TIMESTAMP(3)",
        "",
        f"""SELECT p.id, p.name, p.window_start FROM
            (SELECT id, name, window_start, window_end FROM {_tumble("persons")}
             GROUP BY id, name, window_start, window_end) p JOIN
            (SELECT seller, window_start, window_end FROM {_tumble("auctions")}
             GROUP BY seller, window_start, window_end) a
            ON p.id = a.seller AND p.window_start = a.window_start AND p.window_end = a.window_end""",
    ),
    9: FlinkQuery(
        """id BIGINT, bid_at TIMESTAMP(3), bidder BIGINT, price BIGINT, seller BIGINT, category BIGINT, item STRING,
           expires TIMESTAMP(3)""",
        "id",
        f"""SELECT id, bid_at, bidder, price, seller, category, item, expires FROM
            (SELECT a.id, b.`at` AS bid_at, b.bidder, b.price, a.seller, a.category, a.item, a.expires,
             ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.`at` ASC) AS place FROM {_WON})
            WHERE place <= 1""",
    ),
    11: FlinkQuery(
        "bidder BIGINT, bids BIGINT, starts TIMESTAMP(3), ends TIMESTAMP(3)",
        "",
        """SELECT bidder, COUNT(*), window_start, window_end FROM
           TABLE(SESSION(TABLE bids PARTITION BY bidder, DESCRIPTOR(`at`), INTERVAL '10' SECOND))
           GROUP BY bidder, window_start, window_end""",
    ),
    12: FlinkQuery(
        "bidder BIGINT, bids BIGINT, starts TIMESTAMP(3), ends TIMESTAMP(3)",
        "",
        """SELECT bidder, COUNT(*), window_start, window_end FROM
           TABLE(TUMBLE(TABLE arriving, DESCRIPTOR(arrived), INTERVAL '10' SECOND))
           GROUP BY bidder, window_start, window_end""",
    ),
    14: FlinkQuery(
        "auction BIGINT, bidder BIGINT, price DOUBLE, bid_time STRING, `at` TIMESTAMP(3), c_counts INT",
        "",
        """SELECT auction, bidder, CAST(0.908 AS DOUBLE) * price, CASE WHEN HOUR(`at`) >= 8 AND HOUR(`at`) <= 18
           THEN 'dayTime' WHEN HOUR(`at`) <= 6 OR HOUR(`at`) >= 20 THEN 'nightTime' ELSE 'otherTime' END, `at`,
           CHAR_LENGTH(extra) - CHAR_LENGTH(REPLACE(extra, 'c', '')) FROM bids
           WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    ),
    15: FlinkQuery(
        f"`day` STRING, {_numbers('bids', 'bidders', 'auctions')}",
        "`day`",
        f"SELECT {_DAY} AS `day`, {_STATISTICS} FROM bids GROUP BY {_DAY}",
    ),
    16: FlinkQuery(
        f"channel STRING, `day` STRING, {_numbers('bids', 'bidders', 'auctions')}, minutes STRING",
        "channel, `day`",
        f"""SELECT channel, {_DAY} AS `day`, {_STATISTICS}, MAX(DATE_FORMAT(`at`, 'HH:mm')) FROM bids
            GROUP BY channel, {_DAY}""",
    ),
    17: FlinkQuery(
        f"auction BIGINT, `day` STRING, {_numbers('bids')}, least BIGINT, most BIGINT, average DOUBLE, total BIGINT",
        "auction, `day`",
        f"""SELECT auction, {_DAY} AS `day`, {_counts(("bids", "COUNT(*)"))}, MIN(price), MAX(price),
            AVG(CAST(price AS DOUBLE)), SUM(price) FROM bids GROUP BY auction, {_DAY}""",
    ),
    18: FlinkQuery(
        f"{_BID}, channel STRING, url STRING, extra STRING",
        "bidder, auction",
        """SELECT auction, bidder, price, `at`, channel, url, extra FROM (SELECT *, ROW_NUMBER() OVER
           (PARTITION BY bidder, auction ORDER BY `at` DESC) AS place FROM bids) WHERE place <= 1""",
    ),
    19: FlinkQuery(
        f"{_BID}, channel STRING, url STRING, extra STRING, place BIGINT",
        "auction, place",
        """SELECT auction, bidder, price, `at`, channel, url, extra, place FROM (SELECT *, ROW_NUMBER() OVER
           (PARTITION BY auction ORDER BY price DESC) AS place FROM bids) WHERE place <= 10""",
    ),
    20: FlinkQuery(
        f"""{_BID}, channel STRING, url STRING, extra STRING, item STRING, description STRING, initial_bid BIGINT,
            reserve BIGINT, opened TIMESTAMP(3), expires TIMESTAMP(3), seller BIGINT, category BIGINT""",
        "",
        """SELECT b.auction, b.bidder, b.price, b.`at`, b.channel, b.url, b.extra, a.item, a.description, a.initial_bid,
           a.reserve, a.`at`, a.expires, a.seller, a.category FROM bids b JOIN auctions a ON b.auction = a.id
           WHERE a.category = 10""",
    ),
    21: FlinkQuery(
        "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, channel_id STRING",
        "",
        """SELECT * FROM (SELECT auction, bidder, price, channel, CASE LOWER(channel) WHEN 'apple' THEN '0'
           WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
           ELSE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id FROM bids)
           WHERE channel_id IS NOT NULL""",
    ),
    22: FlinkQuery(
        "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, dir1 STRING, dir2 STRING, dir3 STRING",
        "",
        """SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 3), SPLIT_INDEX(url, '/', 4),
           SPLIT_INDEX(url, '/', 5) FROM bids""",
    ),
}  # fmt: skip


def statements(query: int, servers: str, sink: str) -> list[str]:
    """Statements that make the tables of a query, and last the one that runs it.

    Args:
        servers: of Kafka. sink: the topic that is written.
    """
    one = QUERIES[query]
    to = f"'topic' = '{sink}', 'properties.bootstrap.servers' = '{servers}'"
    if one.key:
        columns = f"{one.columns}, PRIMARY KEY ({one.key}) NOT ENFORCED"
        options = f"'connector' = 'upsert-kafka', {to}, 'key.format' = 'json', 'value.format' = 'json'"
    else:
        columns, options = one.columns, f"'connector' = 'kafka', {to}, 'format' = 'json'"
    out = f"CREATE TABLE `out` ({columns}) WITH ({options})"
    return [*(_source(name, servers) for name in READS[query]), out, f"INSERT INTO `out` {one.select}"]


def _source(name: str, servers: str) -> str:
    topic, time = (name, "`at`") if name != "arriving" else ("bids", "arrived")
    columns = ", ".join(f"`{column}` {_KINDS[kind]}" for column, kind in FIELDS[topic].items())
    if name == "arriving":
        columns += ", arrived TIMESTAMP_LTZ(3) METADATA FROM 'timestamp'"
    return f"""CREATE TABLE {name} ({columns}, WATERMARK FOR {time} AS {time}) WITH (
      'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{servers}',
      'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', 'format' = 'json',
      'json.timestamp-format.standard' = 'ISO-8601')"""
