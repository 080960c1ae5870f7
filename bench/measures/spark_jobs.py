"""Four jobs with state on Spark that read one topic, its records, and the rows by an independent computation. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from string import Template
from typing import Any

import msgspec

USERS, APART_MS, WINDOW_MS = 20, 40, 10_000
BEGIN_MS = 1_700_000_000_000
"""Event time of the first record, at the begin of a window."""
CLOSING_MS = BEGIN_MS + 366 * 86_400_000
"""Event time from which on records only move watermarks: no row of theirs is compared."""

_SOURCE = """
name: $name
sources:
  events:
    topic: $topic
    fields: {id: int, number: int, user: string, amount: int, at: timestamp}
    event_time: at
    unit: ms
    allowed_lateness_s: 1
fault_tolerance: {default: {scheme: hybrid}}
"""
_QUERY = "\nqueries: {q: {input: h, sink: {topic: $name-out}}}\n"


def _sql(text: str) -> Template:
    return Template(f'{_SOURCE}operators: {{h: {{spark: {{sql: "{text}"}}, input: events}}}}{_QUERY}')


def _function(name: str) -> Template:
    return Template(f'{_SOURCE}operators: {{h: {{spark: "bench.rig.on_spark:{name}", input: events}}}}{_QUERY}')


_JOINED = (
    "SELECT orders.id AS id, paid.amount AS amount, orders.at AS at FROM orders LEFT JOIN paid ON orders.id = paid.id "
    "AND paid.at BETWEEN orders.at AND orders.at + INTERVAL 1 SECOND"
)
JOBS: Mapping[str, Template] = {
    "windows": _sql(
        "SELECT window(at, '10 seconds'), user, count(*) AS n, sum(amount) AS total FROM input GROUP BY 1, 2"
    ),
    "join": Template(
        _SOURCE
        + "operators:\n"
        + '  paid: {filter: "amount % 2 = 0", input: events}\n'
        + f'  h: {{spark: {{sql: "{_JOINED}"}}, input: {{orders: events, paid: paid}}}}'
        + _QUERY
    ),
    "once": _function("once"),
    "totals": _function("totals"),
}
"""Windowed aggregates, a stream-stream join with outer rows, deduplication, and Python functions with state."""

Row = tuple[Any, ...]


def event(index: int) -> dict[str, Any]:
    """The record with that index; each number comes twice."""
    number = index // 2
    user, amount = f"user-{number % USERS}", index * 7 % 101
    return {"id": index, "number": number, "user": user, "amount": amount, "at": BEGIN_MS + number * APART_MS}


def closing(index: int) -> dict[str, Any]:
    """A record that moves watermarks behind all others."""
    return event(index) | {"at": CLOSING_MS + index * 1000}


def expected(job: str, count: int) -> Counter[Row]:
    """Rows of the job for the first `count` records."""
    events = [event(index) for index in range(count)]
    if job == "windows":
        found: dict[tuple[int, str], list[int]] = {}
        for one in events:
            found.setdefault((one["at"] // WINDOW_MS * WINDOW_MS, one["user"]), []).append(one["amount"])
        return Counter((*key, len(amounts), sum(amounts)) for key, amounts in found.items())
    if job == "join":
        return Counter((one["id"], one["amount"] if one["amount"] % 2 == 0 else None, one["at"]) for one in events)
    if job == "once":
        return Counter({(one["number"], one["user"], one["at"]) for one in events})
    sums, rows = Counter[str](), Counter[Row]()
    for one in events:
        sums[one["user"]] += one["amount"]
        rows[one["id"], one["user"], sums[one["user"]], one["at"]] += 1
    return rows


COLUMNS: Mapping[str, tuple[str, ...]] = {
    "windows": ("window_start", "user", "n", "total"),
    "join": ("id", "amount", "at"),
    "once": ("number", "user", "at"),
    "totals": ("id", "user", "total", "at"),
}
TIMES = ("window_start", "at")


def made(job: str, rows: Iterable[Mapping[str, Any]]) -> Counter[Row]:
    """Rows of a job's output, without those of closing records."""
    found = Counter[Row]()
    for row in rows:
        values = {name: _ms(row[name]) if name in TIMES else row[name] for name in COLUMNS[job]}
        if max(values[name] for name in TIMES if name in values) < CLOSING_MS:
            found[tuple(values.values())] += 1
    return found


def _ms(moment: Any) -> int:
    return round(msgspec.convert(moment, type=datetime).timestamp() * 1000)


def counted(rows: Counter[Row], wanted: Counter[Row]) -> dict[str, int]:
    """Differences between the rows of a job and the independent computation."""
    return {
        "rows": rows.total(),
        "lost": (wanted - rows).total(),
        "duplicated": sum(count - 1 for row, count in rows.items() if row in wanted),
        "wrong": sum(count for row, count in rows.items() if row not in wanted),
    }
