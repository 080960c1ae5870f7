"""The jobs of a campaign: what each is fed, and what must come out of it, computed here in a few plain lines.

A record follows from its number alone, so a campaign says how many it has fed and no more. Of every number each source
of a job gets one record; the times are a minute apart, so that no pause makes any of them late.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from string import Template
from typing import Any

START_MS = 1_600_000_000_000
STEP_MS = 60_000
KEYS = 150
BAD = 41
"""Every so many, a record that cannot be decoded."""
Row = dict[str, Any]
Rows = Callable[[str], list[Row]]
"""The rows of a query: those of one key in the order of the log."""


@dataclass(frozen=True, slots=True)
class Job:
    """sources, queries: by their names; their topics are `<job>-<name>`. check: raises AssertionError."""

    kind: str
    text: Template
    sources: tuple[str, ...]
    queries: tuple[str, ...]
    check: Callable[[Rows, int], None]


def value(source: str, number: int) -> bytes:
    """The record with this number."""
    if number % BAD == BAD - 1:
        return b"{not json"
    if source == "ordered":
        k = number % KEYS  # KEYS is even: every key is in one partition only, so its records have one order
    else:
        k = mixed(number) % KEYS if source == "events" else mixed(number + 7) % KEYS
    row = {"k": f"k{k}", "n": mixed(number) % 5, "at": START_MS + number * STEP_MS}
    return json.dumps(row).encode()


def mixed(number: int) -> int:
    return (number * 2_654_435_761 >> 7) % 1_000_003


def good(source: str, count: int) -> Iterator[Row]:
    return (json.loads(value(source, number)) for number in range(count) if number % BAD != BAD - 1)


def same(what: str, found: Mapping[Any, Any], expected: Mapping[Any, Any]) -> None:
    """Says what differs; `assert` alone says nothing outside of a test."""
    different = {key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key)}
    shown = [f"{key}: {found.get(key)}, not {expected.get(key)}" for key in sorted(different, key=str)[:5]]
    assert not different, f"{what}: {len(different)} of {len(expected)} differ: {'; '.join(shown)}"


HEAD = """
name: $name
keep_cuts: true
batch_interval_ms: 25
fault_tolerance: {default: {scheme: none}, checkpoint: {interval_ms: 100}}
"""
SOURCE = """{topic: $name-%s, parallelism: 2, fields: {k: string, n: int, at: timestamp}, event_time: at, unit: ms,
    idle_after_s: %s}"""
EVENTS = "sources:\n  events: " + SOURCE % ("events", "null")
"""Never idle: a source that is, and then gets records a moment after another got later ones, gets them late."""
SOMETIMES_IDLE = "sources:\n  events: " + SOURCE % ("events", "1")

COUNTS = f"""{HEAD}{SOMETIMES_IDLE}
operators:
  some: {{filter: "n < 3", input: events}}
  totals: {{aggregate: {{c: "count()", s: "sum(n)"}}, key: [k], input: some, parallelism: 2}}
queries:
  some: {{input: some, sink: {{topic: $name-some}}}}
  totals: {{input: totals, sink: {{topic: $name-totals}}}}
"""


def check_counts(rows: Rows, count: int) -> None:
    some = [row for row in good("events", count) if row["n"] < 3]
    same("some", Counter((r["k"], r["n"]) for r in rows("some")), Counter((r["k"], r["n"]) for r in some))
    totals: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for row in some:
        c, s = totals[row["k"]]
        totals[row["k"]] = (c + 1, s + row["n"])
    same("totals", {row["k"]: (row["c"], row["s"]) for row in rows("totals")}, totals)


WINDOWS = f"""{HEAD}{EVENTS}
operators:
  hours: {{aggregate: {{c: "count()", s: "sum(n)"}}, key: [k], input: events, window: {{size_s: 36000}}, emit: final,
          parallelism: 2}}
  each: {{aggregate: {{c: "count()"}}, key: [n], input: events, window: {{size_s: 7200, slide_s: 3600}}, emit: final}}
queries:
  hours: {{input: hours, sink: {{topic: $name-hours}}}}
  each: {{input: each, sink: {{topic: $name-each}}}}
"""


def check_windows(rows: Rows, count: int) -> None:
    hours: dict[tuple[str, int], tuple[int, int]] = defaultdict(lambda: (0, 0))
    sliding: Counter[tuple[int, int]] = Counter()
    for row in good("events", count):
        c, s = hours[row["k"], row["at"] // 36_000_000]
        hours[row["k"], row["at"] // 36_000_000] = (c + 1, s + row["n"])
        sliding[row["n"], row["at"] // 3_600_000] += 1
        sliding[row["n"], row["at"] // 3_600_000 - 1] += 1
    found = Counter((r["k"], r["c"], r["s"]) for r in rows("hours"))
    same("hours", found, Counter((k, *v) for (k, _), v in hours.items()))
    same("each", Counter((r["n"], r["c"]) for r in rows("each")), Counter((n, c) for (n, _), c in sliding.items()))
    ids = Counter((r["k"], r["window_start"]) for r in rows("hours"))
    assert set(ids.values()) <= {1}, "each window and key once"


JOINED = f"""{HEAD}sources:
  events: {SOURCE % ("events", "null")}
  others: {SOURCE % ("others", "null")}
operators:
  beside: {{join: {{left: events, right: others, "on": [k], within_s: 18000, kind: left}}, parallelism: 2}}
  daily: {{aggregate: {{c: "count()"}}, key: [k], input: beside, window: {{size_s: 86400}}, parallelism: 2}}
queries:
  beside: {{input: beside, sink: {{topic: $name-beside}}}}
  daily: {{input: daily, sink: {{topic: $name-daily}}}}
"""


def check_joined(rows: Rows, count: int) -> None:
    near: dict[str, list[int]] = defaultdict(list)
    for row in good("others", count):
        near[row["k"]].append(row["at"])
    partners = [
        (row["k"], row["at"], max(1, sum(abs(row["at"] - at) <= 18_000_000 for at in near[row["k"]])))
        for row in good("events", count)
    ]
    expected, days = Counter[str](), Counter[str]()
    for key, _, number in partners:
        expected[key] += number
    for row in rows("daily"):
        days[row["k"]] += row["c"]
    same("beside", Counter(r["k"] for r in rows("beside")), expected)
    same("daily", days, expected)


CHANGES = f"""{HEAD}{SOMETIMES_IDLE}
operators:
  changes: {{python: "tests.campaign.operators:Changes", key: [k], input: events, parallelism: 2}}
  counted: {{aggregate: {{c: "count()", m: "max(changes)"}}, key: [n], input: changes}}
queries:
  changes: {{input: changes, sink: {{topic: $name-changes}}}}
  counted: {{input: counted, sink: {{topic: $name-counted}}}}
"""


def check_changes(rows: Rows, count: int) -> None:
    """In which order the two partitions meet is the cut log's to say; each key is in both."""
    fed: Counter[str] = Counter()
    for row in good("events", count):
        fed[row["k"]] += row["n"]
    by_key: dict[str, list[Row]] = defaultdict(list)
    for row in rows("changes"):
        by_key[row["k"]].append(row)
    for key, some in by_key.items():
        found = [row["changes"] for row in some]
        assert found == list(range(1, len(some) + 1)), f"changes of {key}, each once and in order: {found}"
        assert some[-1]["total"] <= fed[key], f"{key}: {some[-1]['total']} of {fed[key]}"
    newest = {row["n"]: row["c"] for row in rows("counted")}
    same("counted", newest, Counter(row["n"] for row in rows("changes")))


SEQUENCES = f"""
name: $name
keep_cuts: true
batch_interval_ms: 25
fault_tolerance: {{default: {{scheme: $scheme}}, checkpoint: {{interval_ms: 500}}}}
sources:
  ordered: {SOURCE % ("ordered", "1")}
operators:
  some: {{filter: "n < 4", input: ordered}}
  totals: {{aggregate: {{c: "count()", s: "sum(n)"}}, key: [k], input: some, emit: each, parallelism: 2}}
queries:
  totals: {{input: totals, sink: {{topic: $name-totals}}}}
"""


def check_sequences(rows: Rows, count: int) -> None:
    """Every key's running totals, each once and in order: known from the input alone, whatever the cut log says."""
    expected: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in good("ordered", count):
        if row["n"] < 4:
            c, s = expected[row["k"]][-1] if expected[row["k"]] else (0, 0)
            expected[row["k"]].append((c + 1, s + row["n"]))
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in rows("totals"):
        found[row["k"]].append((row["c"], row["s"]))
    same("totals", found, expected)


JOBS: dict[str, Job] = {
    job.kind: job
    for job in (
        Job("counts", Template(COUNTS), ("events",), ("some", "totals"), check_counts),
        Job("windows", Template(WINDOWS), ("events",), ("hours", "each"), check_windows),
        Job("joined", Template(JOINED), ("events", "others"), ("beside", "daily"), check_joined),
        Job("changes", Template(CHANGES), ("events",), ("changes", "counted"), check_changes),
    )
}
PROTECTED = replace(
    JOBS["counts"],
    text=Template(COUNTS.replace("scheme: none", "scheme: hybrid")),
)
"""The job that counts, under the scheme that deployed jobs have."""
