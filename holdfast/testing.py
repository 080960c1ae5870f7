"""Tests of a job with pytest: feed rows, let time pass, expect rows, kill the worker and restore it, all in memory.

The conftest.py at the root of the tests brings the fixture `run_job`:

    pytest_plugins = ["holdfast.testing"]

A test:

    def test_delays_are_counted_by_day(run_job):
        run = run_job(delays)
        run.feed("flights", [{"carrier": "UA", "dep_delay": 20, "time_hour": "2026-01-01T05:00:00Z"}])
        run.kill()
        run.restore()
        run.finish()
        run.expect("delays", [{"carrier": "UA", "n": 1}])

The job runs on the cores of the services, as under `holdfast try`: a test needs no Kafka and no cluster, and waits for
nothing, because the clock is the run's own.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import polars as pl
import pytest

from holdfast.schemas.dead_letters import DeadLetter
from holdfast.schemas.dead_letters import decode as decode_dead
from holdfast.schemas.jobs import JobSpec
from holdfast.schemas.progress import decode as decode_progress
from holdfast.schemas.topics import Partition
from holdfast.services.client.frames import Given, records
from holdfast.services.client.in_memory_cluster import InMemoryCluster
from holdfast.services.client.local_run import complete, of_files
from holdfast.services.client.trials import allowed_modules, frames, letters
from holdfast.services.diagnostics.logger import drop_below
from holdfast.services.kernel import lazy_modules
from holdfast.services.kernel.operators.python import restrict
from holdfast.services.kernel.operators.user_maps import dicts_of
from holdfast.services.kernel.suggestions import suggest

__all__ = ["JobRun", "run_job"]

QUIET_TURNS = 120
"""Turns without work, a millisecond each, after which only rows that wait for their commit are under way. Fewer than
between two batches of a job at rest."""
CHECK_EVERY_TURNS = 200
"""Turns after which it is looked whether a copy has failed."""
MOST_STEPS = 100
"""Turns in which time passes, however much."""


class JobRun:
    """A job that runs in this process, and only while a method of it is called.

    Args:
        job: the job. Sources of records that name a schema of a registry are fed with rows.
        at: the time of day when it starts; None: the present.

    Raises:
        JobRejected: with every problem of the job.
    """

    def __init__(self, job: JobSpec, at: datetime | None = None) -> None:
        drop_below(logging.ERROR)
        lazy_modules.resolve(load=False)  # the process of the tests may have threads
        restrict(None)  # another run in this process may have allowed its own modules alone
        self._spec = of_files(complete(job))
        self._cluster = InMemoryCluster(self._spec, allowed_modules(self._spec), at=at)
        sinks = [query.sink for query in self._spec.queries.values() if query.sink is not None]
        self._commit_ms = max((sink.commit_interval_ms for sink in sinks), default=0)
        self._fed: dict[str, int] = {}
        self._seen: dict[str, dict[Partition, int]] = {}
        self._dead: list[DeadLetter] = []
        self._late = 0
        self._cluster.create_topics()
        self._cluster.submit()
        self._plan = self._cluster.until(self._cluster.plan)
        self._ended = False
        self._wait_until_it_runs()

    # -- what happens to the job --------------------------------------------------------------------------------------

    def feed(self, source: str, given: Given, for_ms: int | None = None) -> None:
        """Appends records to the topic of a source, and lets the job process them, if its worker is not killed.

        Args:
            given: a polars frame, the path of a file, or records: mappings, or their bytes.
            for_ms: how long the job works on them, so that `kill` meets it in the middle; None: until it has finished.
        """
        if source not in self._spec.sources:
            raise KeyError(f"the job has no source '{source}'. {suggest(source, self._spec.sources)}")
        self._check_runs()
        blocks = records(source, self._spec.sources[source], given)
        self._fed[source] = self._cluster.feed(source, blocks, self._fed.get(source, 0))
        if for_ms is None:
            self._settle()
        else:
            self._pass(for_ms)

    def advance(self, seconds: float) -> None:
        """Lets time of day pass, as `close_after_idle_s`, `idle_after_s`, records without an event time and timers
        by the time of day see it. A watermark follows event times, so a newer record advances it, or `finish`.
        """
        self._check_runs()
        self._pass(round(seconds * 1000))
        self._settle()

    def kill(self) -> None:
        """Ends the worker as SIGKILL does: what it had in memory is lost."""
        self._check_runs()
        if self._cluster.worker is None:
            raise RuntimeError("the worker is killed already: restore() starts the next one")
        self._cluster.kill_worker()

    def restore(self) -> None:
        """Starts the next worker, which restores the state from checkpoints and reads again what came since."""
        self._check_runs()
        if self._cluster.worker is not None:
            raise RuntimeError("the worker runs: kill() ends it")
        restrict(None)
        self._cluster.start_worker()
        self._wait_until_it_runs()
        self._settle()

    def finish(self) -> None:
        """Ends the stream: every window closes, everything is delivered, and the job ends."""
        self._check_runs()
        if self._cluster.worker is None:
            self.restore()
        self._cluster.drain(self._plan)
        self._cluster.until(lambda: self._cluster.all_are(self._plan, "ended") or None)
        self._dead, self._late, self._ended = self._letters(), self._count_late(), True

    # -- what the job gave --------------------------------------------------------------------------------------------

    def rows(self, query: str) -> pl.DataFrame:
        """All rows that a query has delivered, in the order of its topic, one partition after the other."""
        return self._rows(query, {})

    def new_rows(self, query: str) -> pl.DataFrame:
        """The rows that a query has delivered since this, or `expect`, was asked for them last."""
        found = self._rows(query, self._seen.get(query, {}))
        self._seen[query] = self._cluster.delivered(query)
        return found

    def _rows(self, query: str, seen: Mapping[Partition, int]) -> pl.DataFrame:
        if query not in self._spec.queries:
            raise KeyError(f"the job has no query '{query}'. {suggest(query, self._spec.queries)}")
        return frames(self._plan, self._cluster.rows(self._plan, seen))[query]

    def expect(self, query: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Fails unless the new rows of a query are these, in any order. Columns that no row names are not compared."""
        __tracebackhide__ = True
        found = self.new_rows(query)
        columns = [name for name in found.columns if any(name in row for row in rows)] if rows else found.columns
        if unknown := sorted({name for row in rows for name in row} - set(columns)):
            raise KeyError(f"query '{query}' has no column {', '.join(unknown)}: it has {', '.join(found.columns)}")
        plain = {name: dicts_of(found[name]) for name in columns}
        left = [dict(zip(plain, values, strict=True)) for values in zip(*plain.values(), strict=True)]
        missing = []
        for row in ({name: row.get(name) for name in columns} for row in rows):
            if row in left:
                left.remove(row)
            else:
                missing.append(row)
        if missing or left:
            raise AssertionError(_difference(query, missing, left))

    @property
    def dead_letters(self) -> pl.DataFrame:
        """Records and rows that were refused, and why."""
        return letters(self._dead if self._ended else self._letters())

    @property
    def late(self) -> int:
        """Number of rows that came too late, as of the last batch of which every row was delivered."""
        return self._late if self._ended else self._count_late()

    # -- turns --------------------------------------------------------------------------------------------------------

    def _letters(self) -> list[DeadLetter]:
        kept = self._cluster.log.scan(Partition(self._cluster.topics_of(self._plan).dead_letters, 0))
        return [decode_dead(message.value() or b"") for message in kept]

    def _count_late(self) -> int:
        kept = self._cluster.log.scan(Partition(self._cluster.topics_of(self._plan).progress, 0))
        known = [decode_progress(message.value() or b"") for message in kept]
        return sum({one.unit: one.late for one in known}.values())

    def _wait_until_it_runs(self) -> None:
        self._cluster.until(lambda: self._cluster.all_are(self._plan, "running") or None)

    def _pass(self, left_ms: int) -> None:
        """Lets time pass, in few enough turns."""
        step_ms = max(1, -(-left_ms // MOST_STEPS))
        while left_ms > 0:
            self._cluster.turn(min(step_ms, left_ms))
            left_ms -= step_ms

    def _settle(self) -> None:
        """Takes turns until all records are processed and nothing is under way."""
        if self._cluster.worker is None:
            return
        self._cluster.until(lambda: self._cluster.all_taken() or None)
        self._until_quiet()
        if self._commit_ms:
            self._pass(self._commit_ms)
            self._until_quiet()
        self._cluster.check_copies()

    def _until_quiet(self) -> None:
        quiet = turns = 0
        while quiet < QUIET_TURNS:
            quiet = 0 if self._cluster.turn() else quiet + 1
            turns += 1
            if turns % CHECK_EVERY_TURNS == 0:  # where a job has failed, recovery and its worker are never quiet
                self._cluster.check_copies()

    def _check_runs(self) -> None:
        if self._ended:
            raise RuntimeError("the job has ended: finish() ends it")


@pytest.fixture
def run_job() -> type[JobRun]:
    """Starts a job in memory: `run = run_job(job)`. See JobRun."""
    return JobRun


def _difference(query: str, missing: Sequence[object], left: Sequence[object]) -> str:
    lines = [f"query '{query}' gave other rows"]
    lines += [f"  missing:    {row}" for row in missing]
    lines += [f"  unexpected: {row}" for row in left]
    return "\n".join(lines)
