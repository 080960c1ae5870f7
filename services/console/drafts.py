"""Drafts: a job file in the editor: its problems with their lines, its plan, and a try on a sample."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from holdfast.schemas.plans import Plan, Problem
from holdfast.services.client import planned_job
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.planning.loader import interpret
from holdfast.services.planning.places import line_of
from holdfast.services.planning.plain_data import read

NAME = "job.yaml"
TRY_S = 30.0
MOST_CHARACTERS = 1024 * 1024
MOST_ROWS = 200
EXAMPLE = """\
name: carriers
sources:
  flights:
    topic: flights
    fields: {carrier: string, dep_delay: int?, time_hour: timestamp}
    event_time: time_hour
operators:
  delayed: {filter: "dep_delay > 15", input: flights}
  by_carrier:
    aggregate: {n: "count()", mean_delay: "mean(dep_delay)"}
    key: [carrier]
    window: {size_s: 3600}
    input: delayed
queries:
  delays: {input: by_carrier, sink: {topic: carrier-delays}}
"""
SAMPLE = """\
{"carrier": "UA", "dep_delay": 22, "time_hour": "2013-01-01T05:00:00Z"}
{"carrier": "UA", "dep_delay": 40, "time_hour": "2013-01-01T05:10:00Z"}
{"carrier": "B6", "dep_delay": null, "time_hour": "2013-01-01T05:20:00Z"}
"""


@dataclass(frozen=True, slots=True)
class Draft:
    """Result of a check.

    problems: each with its line, from 1; None: not known.
    plan: None while there are problems.
    """

    problems: tuple[tuple[int | None, Problem], ...]
    plan: Plan | None = None
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tried:
    """Result of a try.

    rows: rows as JSON.
    said: counts, dead letters and errors, as `holdfast try` prints them.
    well: true if the try succeeded.
    """

    rows: tuple[str, ...]
    said: str
    well: bool


def check(written: str, present: dict[str, int] | None, prefix: str, allow: list[str]) -> Draft:
    """Checks a job file.

    present: number of partitions, by topic of the cluster; None: all topics are assumed to exist.
    """
    try:
        spec = interpret(read(written, NAME), NAME)
        plan = planned_job.plan(spec, present, prefix, allow)
    except JobRejected as rejected:
        return Draft(tuple((line_of(written, one), one) for one in rejected.problems))
    return Draft((), plan, tuple(spec.sources))


def try_on(written: str, source: str, sample: str) -> Tried:
    """Runs the job on a pasted sample, NDJSON, in a process of its own that is ended after TRY_S."""
    if len(sample) > MOST_CHARACTERS:
        return Tried((), "The sample is larger than a mebibyte: paste fewer records.", False)
    with tempfile.TemporaryDirectory(prefix="holdfast-try-") as folder:
        job, records = Path(folder, NAME), Path(folder, "sample.ndjson")
        job.write_text(written)
        records.write_text(sample.strip() + "\n")
        program = [sys.executable, "-P", "-m", "holdfast.services.cli"]
        command = [*program, "try", str(job), "--input", f"{source}={records}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=TRY_S, check=False)
        except subprocess.TimeoutExpired:
            return Tried((), f"The job did not end within {TRY_S:g} s.", False)
    rows = [line for line in done.stdout.splitlines() if line]
    return Tried(tuple(rows[:MOST_ROWS]), done.stderr.replace(f"{folder}/", "").strip(), done.returncode == 0)


def pretty(row: str) -> str:
    """JSON with spaces between its parts, for people; other text unchanged."""
    try:
        return json.dumps(json.loads(row), ensure_ascii=False)
    except ValueError:
        return row
