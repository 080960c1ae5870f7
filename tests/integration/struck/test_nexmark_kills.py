"""Queries of Nexmark as one job whose workers and Kafka are killed: replay and DuckDB find the same rows."""

from __future__ import annotations

from string import Template
from typing import Any

import polars as pl
import pytest
import yaml
from polars.testing import assert_frame_equal

from bench.measures.nexmark.events import Events
from bench.measures.nexmark.flink import lines
from bench.measures.nexmark.queries import READS, job_file
from holdfast.schemas.topics import Partition
from tests.campaign.jobs import Job, Rows
from tests.support.commands import DEADLINE_S
from tests.support.struck import Struck, StruckJob
from tests.unit.bench.test_nexmark import KEYS, SQL, duckdb, plain

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.long]
QUERIES = (3, 4, 5, 7, 8, 9, 11, 18, 19, 20)
"""Queries with state. The Python operator of query 6 needs a cluster that may load it."""
EVENTS = Events(8, 6_000, 20)
KILLS = 3
HEAD = "name: $name\nkeep_cuts: true\nbatch_interval_ms: 50\nfault_tolerance: {default: {scheme: hybrid}}\n"
FORMAT = "%Y-%m-%dT%H:%M:%S%.fZ"


def together() -> Template:
    """The job with all queries, whose operators are named by their queries."""
    sources: dict[str, Any] = {}
    operators: dict[str, Any] = {}
    queries: dict[str, Any] = {}
    for query in QUERIES:
        one = yaml.safe_load(job_file(query, EVENTS.held_s))
        names = {name: f"{name}_{query}" for name in one["operators"]}
        for source, described in one["sources"].items():
            sources[source] = described | {"topic": f"$name-{source}"}
        operators |= {names[name]: _renamed(operator, names) for name, operator in one["operators"].items()}
        queries[f"q{query}"] = {"input": names["out"], "sink": {"topic": f"$name-q{query}"}}
    return Template(HEAD + yaml.safe_dump({"sources": sources, "operators": operators, "queries": queries}))


def _renamed(operator: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    found = operator | {"input": names.get(operator.get("input", ""), operator.get("input"))}
    if "join" in operator:
        sides = {side: names.get(operator["join"][side], operator["join"][side]) for side in ("left", "right")}
        return {"join": operator["join"] | sides}
    return found


def check(rows: Rows, count: int) -> None:
    """Compares the rows of each query with DuckDB's over the events that were fed."""
    connection = duckdb.connect()
    for name, frame in fed(count).items():
        sent = plain(frame).with_columns(pl.col(pl.Datetime("us")).dt.truncate("1ms"))
        connection.register(name, sent.to_arrow())
    for query in QUERIES:
        expected = pl.DataFrame(connection.sql(SQL[query]).to_arrow_table())
        times = [name for name, kind in expected.schema.items() if isinstance(kind, pl.Datetime)]
        found = pl.DataFrame(rows(f"q{query}"), infer_schema_length=None).with_columns(
            pl.col(times).str.to_datetime(FORMAT)
        )
        if query in KEYS:
            found = found.unique(KEYS[query], keep="last", maintain_order=True)
        assert expected.height > 0, f"q{query} has no rows"
        wanted = expected.select(found.columns)
        assert_frame_equal(found, wanted, check_row_order=False, check_dtypes=False, rel_tol=1e-12)
    connection.close()


def fed(count: int) -> dict[str, pl.DataFrame]:
    """The rows of the first events, by kind."""
    return {kind: rows.head(int((EVENTS.numbers[kind] < count).sum())) for kind, rows in EVENTS.frames.items()}


class Nexmark(StruckJob):
    def feed(self, count: int = 40) -> None:
        before, self.fed = fed(self.fed), min(self.fed + count, EVENTS.count)
        for kind, rows in fed(self.fed).items():
            seen = before[kind].height
            for number, line in enumerate(lines(rows.slice(seen)), seen):
                self.cluster.appender.append(Partition(f"{self.name}-{kind}", number % 2), line)
        self.cluster.appender.flush(DEADLINE_S)


def test_queries_of_nexmark_are_exact_through_kills_of_workers_and_kafka(struck: Struck) -> None:
    kinds = tuple(sorted({source for query in QUERIES for source in READS[query]}))
    job = Nexmark(struck, Job("nexmark", together(), kinds, tuple(f"q{query}" for query in QUERIES), check), "nexmark")
    try:
        job.begin()
        for _ in range(KILLS):
            struck.kill(*{struck.leader_of(unit) for unit in job.units})
            job.under_load(struck.protected, "every unit is protected again")
        struck.restart_kafka()
        job.under_load(struck.protected, "every unit is protected again")
        while job.fed < EVENTS.count:
            job.feed(500)
        job.end_exact()
    except BaseException:
        job.give_up()
        raise
