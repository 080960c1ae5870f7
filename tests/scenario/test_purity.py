"""Whole jobs are pure functions of their batches: what every unit sends and delivers is the same to the byte.

In another process with another hash seed, with the frames of several writers in any order and some of them twice, and
restored before every batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st

from holdfast.services.kernel.codecs.fields import DELETED
from holdfast.services.planning.graph import sink_name
from tests.support.examples import examples
from tests.support.other_process import OtherProcess
from tests.support.purity import Rows, job_sends, planned

SOURCES = """
sources:
  orders:
    topic: orders
    fields: {shop: string?, item: string, amount: int, price: float, at: timestamp}
    event_time: at
    late: topic
    unit: s
    parallelism: 2
  visits:
    topic: visits
    fields: {shop: string?, host: string, src: int, id: int, at: timestamp}
    event_time: at
    unit: s
    parallelism: 2
"""
SHOPS = """
  shops:
    topic: shops
    fields: {shop: string, city: string?, rent: float}
    table: [shop]
    parallelism: 2
"""
JOBS = {
    "totals": """
name: totals
operators:
  priced: {select: [shop, item, amount, "price / amount AS piece", "CAST(item AS INT) AS number"], input: orders}
  large: {filter: "amount > 1", input: priced}
  per_shop:
    aggregate: {n: "count()", total: "sum(piece)", mean: "mean(piece)", newest: "last(item)"}
    key: [shop]
    input: large
    parallelism: 2
  best: {top: {k: 2, by: total}, input: per_shop}
  each: {aggregate: {n: "count()", total: "sum(piece)"}, key: [item], input: large, emit: each, parallelism: 2}
  parted:
    python: "tests.golden.sessions:Parted"
    outputs: [small, large, seen]
    params: {least: 5}
    key: [shop]
    input: orders
    parallelism: 2
  smalls: {aggregate: {n: "count()"}, key: [amount], input: parted.small, parallelism: 3}
  lots: {filter: "nth > 1", input: parted.large}
queries:
  best: {input: best}
  each: {input: each}
  large: {input: large}
  smalls: {input: smalls}
  lots: {input: lots}
  seen: {input: parted.seen}
""",
    "replacing": """
name: replacing
operators:
  sums: {aggregate: {n: "count()", total: "sum(price)"}, key: [shop], input: orders, parallelism: 2}
  paced: {pace: {every_s: 2}, input: sums, parallelism: 2}
  dearest: {top: {k: 2, by: price}, key: [shop], forget_after_s: 3, input: orders}
  asked:
    sql: |
      SELECT shop, count(*) AS n, max(price) AS most FROM orders WHERE amount > 1
      GROUP BY shop, TUMBLE(ROWTIME, INTERVAL '3 seconds') HAVING count(*) > 1
  different: {sql: "SELECT DISTINCT item FROM orders"}
queries: {paced: {input: paced}, dearest: {input: dearest}, asked: {input: asked}, different: {input: different}}
""",
    "windows": """
name: windows
operators:
  recent:
    aggregate: {n: "count()", mean: "mean(price)", items: "count_distinct(item)", middle: "quantile(price, 0.5)"}
    key: [shop]
    window: {size_s: 5, slide_s: 2}
    emit: final
    input: orders
    parallelism: 2
  busiest: {top: {k: 2, by: n}, input: recent}
  touched: {aggregate: {n: "count()"}, key: [item], window: {size_s: 3}, input: orders, parallelism: 3}
  calls: {aggregate: {n: "count()", sum: "sum(price)"}, key: [item], window: {gap_s: 2}, input: orders, parallelism: 2}
queries: {busiest: {input: busiest}, touched: {input: touched}, calls: {input: calls}}
""",
    "joins": """
name: joins
operators:
  both: {join: {left: orders, right: visits, "on": [shop], within_s: 2, kind: left}, parallelism: 2}
  bought: {join: {left: visits, right: orders, "on": [shop], between: [-1, 3], kind: full}, parallelism: 2}
  shops: {select: [shop], input: orders}
  visited: {select: [shop], input: visits}
  either: {union: [shops, visited]}
  counted: {aggregate: {n: "count()"}, key: [shop], input: either, parallelism: 2}
  gaps: {python: "tests.golden.sessions:Gaps", key: [src], input: visits, parallelism: 2}
  quiet:
    python: "tests.golden.sessions:Quiet"
    params: {after_s: 2, every_s: 4}
    key: [src]
    input: visits
    parallelism: 2
  firsts: {dedup: {within_s: 3}, key: [shop], input: either, parallelism: 2}
queries:
  both: {input: both}
  bought: {input: bought}
  counted: {input: counted}
  gaps: {input: gaps}
  quiet: {input: quiet}
  firsts: {input: firsts}
""",
    "tables": """
name: tables
operators:
  per_item: {aggregate: {n: "count()", shop: "last(shop)"}, key: [item], input: orders, parallelism: 2}
  placed: {join: {left: orders, right: shops, "on": [shop], kind: left}, parallelism: 2}
  newest: {join: {left: per_item, right: shops, "on": [shop]}, parallelism: 2}
  per_city: {aggregate: {n: "count()", rent: "sum(rent)"}, key: [city], window: {size_s: 3}, input: placed}
queries: {placed: {input: placed}, newest: {input: newest}, per_city: {input: per_city}}
""",
}
NAMES = st.sampled_from([None, "", "a", "b", "c", "ä"])
AT = st.integers(0, 12)
ORDER: dict[str, st.SearchStrategy[Any]] = {
    "shop": NAMES,
    "item": st.sampled_from(["1", "2", "x"]),
    "amount": st.integers(0, 9),
    "price": st.sampled_from([0.0, -0.0, 0.1, 0.2, 0.7, 1e17, -1e17]),
    "at": AT,
}
VISIT: dict[str, st.SearchStrategy[Any]] = {
    "shop": NAMES,
    "host": st.sampled_from(["a.example", "b.example"]),
    "src": st.integers(0, 3),
    "id": st.integers(0, 9),
    "at": AT,
}


SHOP: dict[str, st.SearchStrategy[Any]] = {
    "shop": st.sampled_from(["", "a", "b"]),
    "city": st.sampled_from([None, "x", "y"]),
    "rent": st.floats(0, 9),
}


def rows(columns: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Rows]:
    return st.lists(st.fixed_dictionaries(columns), max_size=10)


changes = st.lists(st.fixed_dictionaries(SHOP) | st.sampled_from([{DELETED: b"a"}, {DELETED: b'["b"]'}]), max_size=6)
batches = st.lists(
    st.fixed_dictionaries({"orders": rows(ORDER), "visits": rows(VISIT), "shops": changes}), min_size=1, max_size=4
)


def job(name: str) -> str:
    """With those of the sources that it reads."""
    sources = SOURCES if "visits" in JOBS[name] else SOURCES[: SOURCES.index("  visits:")]
    return JOBS[name] + sources + (SHOPS if "right: shops" in JOBS[name] else "")


@pytest.fixture(scope="module")
def other() -> Iterator[OtherProcess]:
    process = OtherProcess(hash_seed=4321)
    yield process
    process.close()


@pytest.mark.parametrize("name", JOBS)
# A smaller example would take minutes.
@examples(each_run=4, with_long=60, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(some=batches, disorder=st.integers(0, 2**16))
def test_payloads_do_not_depend_on_process_order_of_frames_or_restores(
    other: OtherProcess, name: str, some: list[dict[str, Rows]], disorder: int
) -> None:
    here = job_sends(job(name), some, disorder=None, restore=False)
    assert here == job_sends(job(name), some, disorder=disorder, restore=False), "frames in another order"
    assert here == job_sends(job(name), some, disorder=disorder, restore=True), "restored before every batch"
    assert here == other.call(job_sends, job(name), some, disorder, True), "in another process"


@pytest.mark.parametrize("name", JOBS)
def test_every_query_of_these_jobs_delivers_rows(name: str) -> None:
    order = {"shop": "a", "item": "1", "amount": 2, "price": 0.5, "at": 3}
    visit = {"shop": "a", "host": "a.example", "src": 0, "id": 0, "at": 3}
    shop = {"shop": "a", "city": "x", "rent": 0.5}
    batch: dict[str, Rows] = {"orders": [order, {**order, "amount": 7}] * 2, "visits": [visit], "shops": [shop]}
    lines = job_sends(job(name), [batch], disorder=1, restore=True)
    delivering = {line.split(",")[0].rpartition("-")[0] for line in lines if "Row(value=" in line}
    assert delivering == {sink_name(query) for query in planned(job(name)).spec["queries"]}
