"""Rows that go to Parquet files and to a table, on processes that die around their transactions: each is there once.

Every moment at which a copy can die is tried on the log in memory: tests/unit/worker/test_parquet_sink.py and
test_sql_sink.py.
"""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path
from string import Template

import polars as pl
import pytest

from holdfast.schemas.topics import Partition
from tests.campaign.jobs import Job
from tests.support.commands import DEADLINE_S
from tests.support.doomed_worker import Doom
from tests.support.struck import Struck, StruckJob

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
KEYS = 3
FILES = """
name: $name
batch_interval_ms: 50
fault_tolerance: {default: {scheme: hybrid}}
sources: {events: {topic: $name-events, fields: {k: string, n: int}}}
queries:
  files: {input: events, sink: {commit_interval_ms: 200, parquet: {path: FOLDER, partition_by: [k]}}}
  table: {input: events, sink: {commit_interval_ms: 200, sql: {database: shop, table: numbers}}}
"""
UNIT = "events-0"


class Numbered(StruckJob):
    def feed(self, count: int = 40) -> None:
        for number in range(self.fed, self.fed + count):
            record = json.dumps({"k": f"k{number % KEYS}", "n": number}).encode()
            self.cluster.appender.append(Partition(f"{self.name}-events", number % 2), record)
        self.cluster.appender.flush(DEADLINE_S)
        self.fed += count


def test_every_row_is_in_the_files_and_in_the_table_once_when_workers_die_around_a_commit(struck: Struck) -> None:
    folder = Path(os.environ["HOLDFAST_FILES"]) / "numbers"
    job = Numbered(
        struck,
        Job("files", Template(FILES.replace("FOLDER", str(folder))), ("events",), (), lambda rows, count: None),
        "files",
    )
    try:
        job.begin()
        for moment in ("before", "after"):
            struck.cluster.arm(Doom("commit", moment, 2, worker=struck.leader_of(UNIT)))
            job.under_load(lambda: struck.cluster.fired, f"a worker dies {moment} a commit")
            job.under_load(struck.protected, "every unit is protected again")
        job.drain()
        job.await_end()
    except BaseException:
        job.give_up()
        raise
    finally:
        struck.cluster.disarm()
    found = pl.read_parquet(folder / "*" / "*.parquet", hive_partitioning=True)
    assert sorted(found["n"].to_list()) == list(range(job.fed))
    assert found.filter(pl.col("k") != pl.format("k{}", pl.col("n") % KEYS)).is_empty()
    with sqlite3.connect(folder.parent.with_name("rows.db")) as database:
        assert database.execute("SELECT n FROM numbers ORDER BY n").fetchall() == [(n,) for n in range(job.fed)]
    job.forget()
