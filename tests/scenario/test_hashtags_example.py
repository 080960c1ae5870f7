"""The example of fifteen queries over hashtags: its units, and that each query counts what plain polars counts."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import polars as pl

from bench.model.hashtags import READS, SUBSETS, TASKS, WINDOWS
from holdfast.schemas.decided import Id
from holdfast.services.client.local_run import LocalRun, complete
from holdfast.services.kernel.plans.priorities import needed
from holdfast.services.planning.loader import load
from holdfast.services.planning.plan import make_plan

JOB = (Path(__file__).parents[2] / "compose" / "jobs" / "hashtags.yaml").read_text()
ALLOW = ["compose.jobs.hashtags"]
HOURS = {"o0": 1, "o1": 6, "o2": 24, "o3": 168}
SLIDES = {"o0": 15, "o1": 60, "o2": 360, "o3": 1440}
"""Minutes."""


def posts() -> list[bytes]:
    """One each 20 minutes, in order."""
    random = Random(1)
    times = pl.datetime_range(pl.datetime(2020, 12, 12), pl.datetime(2020, 12, 14), "20m", eager=True)
    tags = ["vaccine", "FDA", "Pfizer", "COVID19"]
    return [
        json.dumps({"event_time": str(at), "hashtags": sorted({random.choice(tags) for _ in range(3)})}).encode()
        for at in times
    ]


def test_the_job_has_the_units_and_queries_of_the_paper() -> None:
    spec = load(JOB, "hashtags.yaml")
    plan = make_plan(
        spec, generation="0-abcdef", id=Id("test", 1), topics=None, first={}, prefix="t", versions={}, allow=ALLOW
    )
    assert len(plan.units) == 1 + TASKS * (1 + len(READS)) == 81
    for query, units in needed(plan).items():
        own = f"o{query[1:]}"
        reads = () if own in WINDOWS else READS[own]
        # A union in front of an operator is in its unit, and gives that its name.
        names = {unit.rpartition("-")[0].replace("all", "o") for unit in units}
        assert names == {"posts", "parser", own, *reads}, query


def test_the_queries_count_hashtags_in_windows_and_hold_the_newest_counts() -> None:
    records = posts()
    rows = LocalRun(complete(load(JOB, "hashtags.yaml")), {"posts": [records]}, ALLOW).run().rows
    frame = pl.read_ndjson(b"\n".join(records)).with_columns(pl.col("event_time").str.to_datetime())
    each = frame.explode("hashtags").rename({"hashtags": "hashtag"})
    for number, window in enumerate(WINDOWS):
        found = pl.DataFrame([json.loads(row) for row in rows[f"q{number}"]])
        newest = found.group_by("hashtag", "window_start").agg(pl.max("n"))
        at = {row["window_start"][:16]: row["n"] for row in newest.filter(pl.col("hashtag") == "FDA").to_dicts()}
        plain = _counted(each.filter(pl.col("hashtag") == "FDA"), HOURS[window], SLIDES[window])
        assert at == plain, window
    for number, reads in enumerate(SUBSETS, len(WINDOWS)):
        pairs = {(row["hashtag"], row["hours"]) for row in map(json.loads, rows[f"q{number}"])}
        assert pairs == {(tag, HOURS[one]) for tag in ("vaccine", "FDA", "Pfizer", "COVID19") for one in reads}


def _counted(each: pl.DataFrame, hours: int, slide_min: int) -> dict[str, int]:
    """By the start of each window that holds a row."""
    found: dict[str, int] = {}
    for at in each["event_time"].to_list():
        minute = int(at.timestamp() // 60)
        first = minute - minute % slide_min
        for start in range(first, minute - 60 * hours, -slide_min):
            name = pl.Series([start * 60_000]).cast(pl.Datetime("ms")).dt.strftime("%Y-%m-%dT%H:%M")[0]
            found[name] = found.get(name, 0) + 1
    return found
