"""A job whose results are known: orders, counted in several ways, and the check of every row.

Shared by the tests on a log in memory and those on real processes.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

JOB = """
name: orders
sources:
  orders:
    topic: orders
    fields: {shop: string, item: string, amount: int, at: timestamp}
    event_time: at
    unit: ms
    parallelism: 2
    idle_after_s: 1
operators:
  large: {filter: "amount >= 10", input: orders}
  per_shop: {aggregate: {n: "count()", total: "sum(amount)"}, key: [shop], input: large, parallelism: 2}
  hourly:
    aggregate: {n: "count()", mean: "mean(amount)"}
    key: [item]
    input: orders
    window: {size_s: 3600}
    emit: final
    parallelism: 2
queries:
  shops: {input: per_shop, sink: {topic: shops}}
  hours: {input: hourly, sink: {topic: hours}}
  big: {input: large, sink: {topic: big}}
"""
PATIENT = JOB.replace("idle_after_s: 1", "idle_after_s: 60") + "fault_tolerance: {default: {scheme: none}}\n"
"""Job for machines or brokers that may hang: there a record that came a second later than the other partition would be
late.
"""
START_MS = 1_600_000_000_000
Order = dict[str, Any]


def orders(count: int, seed: int = 0) -> list[Order]:
    """In the order of time, a minute apart."""
    return list(_made(count, seed))


@cache
def _made(count: int, seed: int) -> list[Order]:
    """Many tests ask for thousands."""
    chance = random.Random(seed)
    return [
        {
            "shop": chance.choice("abc"),
            "item": chance.choice("xyz"),
            "amount": chance.randrange(20),
            "at": START_MS + index * 60_000,
        }
        for index in range(count)
    ]


def check(rows: Callable[[str], list[dict[str, Any]]], fed: list[Order]) -> None:
    """Every row of every query against the same query in one piece. rows(query): in the order of its log."""
    large = [order for order in fed if order["amount"] >= 10]
    newest = {row["shop"]: (row["n"], row["total"]) for row in rows("shops")}
    assert newest == {
        shop: (len(some), sum(some))
        for shop in {o["shop"] for o in large}
        if (some := [o["amount"] for o in large if o["shop"] == shop])
    }
    big = Counter((r["shop"], r["item"], r["amount"], r["at"]) for r in rows("big"))
    assert sum(big.values()) == len(large)
    assert Counter((shop, item, amount) for shop, item, amount, _ in big.elements()) == Counter(
        (o["shop"], o["item"], o["amount"]) for o in large
    )
    hours: dict[tuple[int, str], list[int]] = {}
    for order in fed:
        hours.setdefault((order["at"] // 3_600_000, order["item"]), []).append(order["amount"])
    got = [(row["item"], row["n"], row["mean"], row["window_start"]) for row in rows("hours")]
    want = [(item, len(some), sum(some) / len(some)) for (_, item), some in hours.items()]
    assert Counter(row[:3] for row in got) == Counter(want)
    assert len({(row[0], row[3]) for row in got}) == len(got), "each window and key once"
    totals = [row["total"] for row in rows("shops") if row["shop"] == "a"]
    assert totals == sorted(totals), "running totals never go back"
