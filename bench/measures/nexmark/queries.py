"""Nexmark's queries as job files, and the reason for each one that the language of jobs does not say.

Source: the SQL of Nexmark (github.com/nexmark/nexmark). A join without a bound of time there has here the time within
which its rows come (`held_s`), so its pairs are the same. A result that is replaced there as rows come is here the
newest row of its key. In query 4 the bids on an auction are one session, so its price is counted once, when no further
bid can come. Query 6 ends in a Python operator. In query 12 the time of a bid is the one at which Kafka took its
record, so that a replay gives the same rows. Queries 15 and 16 count distinct values exactly up to 10,000 of a key.
"""

from __future__ import annotations

from string import Template

from bench.measures.nexmark.events import BIDS, FIELDS

SIDE = {"key": "int", "value": "string"}
"""Fields of the table that query 13 joins."""
ARRIVING = BIDS | {"arrived": "timestamp"}
"""Fields of bids with the time at which Kafka took their record, which is their time in query 12."""
NOT_WRITTEN = {10: "it writes files by day and minute, as a sink of Parquet does, and computes nothing"}
"""Queries that are not written."""

_LOWER_MIDDLE_UPPER = """
        {name}: "{what}"
        {name}_low: "{what} FILTER (WHERE price < 10000)"
        {name}_middle: "{what} FILTER (WHERE price >= 10000 AND price < 1000000)"
        {name}_high: "{what} FILTER (WHERE price >= 1000000)\""""


def _counts(**counted: str) -> str:
    return "".join(_LOWER_MIDDLE_UPPER.format(name=name, what=what) for name, what in counted.items())


_STATISTICS = _counts(bids="count()", bidders="count(DISTINCT bidder)", auctions="count(DISTINCT auction)")
_WON = """
  sold: {select: [id, category, seller, item, at, expires], input: auctions}
  offered: {select: [auction, bidder, price, "at AS bid_at"], input: bids}
  any: {join: {left: sold, right: offered, "on": ["id = auction"], between: [0, $held_s]}}
  valid: {filter: "bid_at >= at AND bid_at <= expires", input: any}"""

_OPERATORS = {
    0: """
  out: {select: [auction, bidder, price, at, extra], input: bids}""",
    1: """
  out: {select: [auction, bidder, "0.908 * price AS price", at, extra], input: bids}""",
    2: """
  few: {filter: "MOD(auction, 123) = 0", input: bids}
  out: {select: [auction, price], input: few}""",
    3: """
  near: {filter: "state IN ('OR', 'ID', 'CA')", input: persons}
  sellers: {select: ["id AS person", name, city, state], input: near}
  wanted: {filter: "category = 10", input: auctions}
  sold: {select: [id, seller], input: wanted}
  both: {join: {left: sold, right: sellers, "on": ["seller = person"], within_s: $held_s}}
  out: {select: [name, city, state, id], input: both}""",
    4: _WON
    + """
  final: {aggregate: {price: "max(price)"}, key: [id, category], window: {gap_s: $held_s}, input: valid}
  out: {aggregate: {price: "mean(price)"}, key: [category], input: final}""",
    5: """
  counts: {aggregate: {num: "count()"}, key: [auction], window: {size_s: 10, slide_s: 2}, input: bids}
  named: {select: [auction, num, "window_end AS ends"], input: counts}
  largest: {aggregate: {most: "max(num)"}, key: [ends], window: {size_s: 2}, input: named}
  most: {select: [ends, most], input: largest}
  hot: {join: {left: named, right: most, "on": [ends, "num = most"], within_s: 2}}
  out: {select: [auction, num, ends], input: hot}""",
    6: _WON
    + """
  final: {aggregate: {price: "max(price)"}, key: [id, seller], window: {gap_s: $held_s}, input: valid}
  out: {python: "bench.measures.nexmark.last_auctions:LastAuctions", key: [seller], input: final}""",
    7: """
  offered: {select: [auction, bidder, price, at], input: bids}
  largest: {aggregate: {most: "max(price)"}, window: {size_s: 10}, input: bids}
  both: {join: {left: offered, right: largest, "on": ["price = most"], between: [0, 10]}}
  within: {filter: "at >= window_start AND at < window_end", input: both}
  out: {select: [auction, bidder, price, at], input: within}""",
    8: """
  came: {aggregate: {n: "count()"}, key: [id, name], window: {size_s: 10}, input: persons}
  new: {select: [id, name, "window_start AS starts"], input: came}
  sold: {aggregate: {n: "count()"}, key: [seller], window: {size_s: 10}, input: auctions}
  sellers: {select: [seller, "window_start AS starts"], input: sold}
  both: {join: {left: new, right: sellers, "on": ["id = seller", starts], within_s: 1}}
  out: {select: [id, name, starts], input: both}""",
    9: _WON
    + """
  shown: {select: [id, bid_at, bidder, price, seller, category, item, expires], input: valid}
  out: {top: {k: 1, by: price}, key: [id], input: shown}""",
    11: """
  out: {aggregate: {bids: "count()"}, key: [bidder], window: {gap_s: 10}, input: bids}""",
    12: """
  out: {aggregate: {bids: "count()"}, key: [bidder], window: {size_s: 10}, input: arriving}""",
    13: """
  keyed: {select: [auction, bidder, price, at, "MOD(auction, 10000) AS key"], input: bids}
  both: {join: {left: keyed, right: side, "on": [key]}}
  out: {select: [auction, bidder, price, at, value], input: both}""",
    14: """
  shown:
    select:
      - auction
      - bidder
      - 0.908 * price AS price
      - CASE WHEN HOUR(at) >= 8 AND HOUR(at) <= 18 THEN 'dayTime'
        WHEN HOUR(at) <= 6 OR HOUR(at) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bid_time
      - at
      - REGEXP_COUNT(extra, 'c') AS c_counts
    input: bids
  out: {filter: "price > 1000000 AND price < 50000000", input: shown}""",
    15: f"""
  dated: {{select: ["STRFTIME(at, '%Y-%m-%d') AS day", price, bidder, auction], input: bids}}
  out:
    aggregate: {_STATISTICS}
    key: [day]
    input: dated""",
    16: f"""
  dated:
    select: [channel, "STRFTIME(at, '%Y-%m-%d') AS day", "STRFTIME(at, '%H:%M') AS minute", price, bidder, auction]
    input: bids
  out:
    aggregate: {_STATISTICS}
        minute: "max(minute)"
    key: [channel, day]
    input: dated""",
    17: f"""
  dated: {{select: ["STRFTIME(at, '%Y-%m-%d') AS day", price, auction], input: bids}}
  out:
    aggregate: {_counts(bids="count()")}
        least: "min(price)"
        most: "max(price)"
        average: "mean(price)"
        total: "sum(price)"
    key: [auction, day]
    input: dated""",
    18: """
  out:
    aggregate: {price: "last(price)", channel: "last(channel)", url: "last(url)", at: "last(at)", extra: "last(extra)"}
    key: [bidder, auction]
    input: bids""",
    19: """
  out: {top: {k: 10, by: price}, key: [auction], input: bids}""",
    20: """
  wanted: {filter: "category = 10", input: auctions}
  sold:
    select: [id, item, description, initial_bid, reserve, "at AS opened", expires, seller, category]
    input: wanted
  out: {join: {left: bids, right: sold, "on": ["auction = id"], within_s: $held_s}}""",
    21: """
  named:
    select:
      - auction
      - bidder
      - price
      - channel
      - CASE LOWER(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2'
        WHEN 'baidu' THEN '3' ELSE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id
    input: bids
  out: {filter: "channel_id IS NOT NULL", input: named}""",
    22: """
  out:
    select:
      - auction
      - bidder
      - price
      - channel
      - SPLIT_PART(url, '/', 4) AS dir1
      - SPLIT_PART(url, '/', 5) AS dir2
      - SPLIT_PART(url, '/', 6) AS dir3
    input: bids""",
}
READS = dict.fromkeys(_OPERATORS, ("bids",)) | {
    3: ("persons", "auctions"),
    4: ("auctions", "bids"),
    6: ("auctions", "bids"),
    8: ("persons", "auctions"),
    9: ("auctions", "bids"),
    12: ("arriving",),
    13: ("bids", "side"),
    20: ("auctions", "bids"),
}
"""Sources of each query that is written."""


def job_file(query: int, held_s: int) -> str:
    """A job file whose only query is `out`.

    Args:
        held_s: seconds of event time within which all rows that belong together arrive.
    """
    sources = "".join(_source(name) for name in READS[query])
    operators = Template(_OPERATORS[query]).substitute(held_s=held_s)
    sink = f"queries: {{out: {{input: out, sink: {{topic: q{query}}}}}}}"
    return f"name: nexmark-{query}\nsources:{sources}\noperators:{operators}\n{sink}\n"


def _source(name: str) -> str:
    if name == "side":
        return f"\n  side: {{topic: side, fields: {_flow(SIDE)}, table: [key]}}"
    if name == "arriving":
        fields = _flow(BIDS | {"arrived": "{type: timestamp, metadata: timestamp}"})
        return f"\n  arriving: {{topic: bids, fields: {fields}, event_time: arrived}}"
    return f"\n  {name}: {{topic: {name}, fields: {_flow(FIELDS[name])}, event_time: at}}"


def _flow(fields: dict[str, str]) -> str:
    return "{" + ", ".join(f"{name}: {kind}" for name, kind in fields.items()) + "}"
