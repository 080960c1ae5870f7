"""Figures on the page of a job: latency by query, and the source whose watermark holds the others back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from holdfast.schemas.plans import QueryState
from holdfast.services.console.drafts import check
from holdfast.services.console.parts.job import job_page
from holdfast.services.view.latencies import QueryLatency
from holdfast.services.view.lines import UnitProgress
from holdfast.services.view.live import LiveJob, LiveView
from tests.support.shown_cluster import ShownCluster
from tests.unit.console.test_pages import picture, words

TWO = """
name: two
sources:
  early: {topic: early, fields: {k: string, at: timestamp}, event_time: at}
  late: {topic: late, fields: {k: string, at: timestamp}, event_time: at}
queries: {a: {input: early, sink: {topic: a}}, b: {input: late, sink: {topic: b}}}
"""


@pytest.fixture
def job() -> Iterator[LiveJob]:
    cluster = ShownCluster()
    live = LiveView(cluster.door)
    yield picture(cluster, live).jobs[0]
    live.close()


def test_a_query_has_its_median_and_its_99th_percentile_with_units(job: LiveJob) -> None:
    status = replace(job.status, queries=(QueryState("all", available=True, before_ms=40.0),))
    costs = replace(job.costs, latencies=(QueryLatency("all", 500, 12.0, 15_000.0),))
    said = words(job_page(replace(job, status=status, costs=costs), [], 0))
    assert "12 ms 15.0 s 40 ms" in said, "median, 99th percentile, what was usual"


def test_the_source_that_holds_the_others_back_is_named(job: LiveJob) -> None:
    plan = check(TWO, None, "t", []).plan
    assert plan is not None

    def said(late: str | None) -> str:
        marks = {"early": "2026-01-01T12:00:00Z", "late": late}
        units = tuple(
            UnitProgress(unit.name, "w", "running", 1, 1, marks.get(unit.operators[0]), 0, 0, 0, 0, False)
            for unit in plan.units
        )
        return words(job_page(replace(job, plan=plan, status=replace(job.status, units=units)), [], 0))

    assert said("2026-01-01T11:00:00Z").count("2026-01-01 11:00 holds the others back") == 1
    assert "holds the others back" not in said("2026-01-01T12:00:00Z"), "both are as far"
    assert "holds the others back" not in said("end"), "one that has ended holds nobody back"
