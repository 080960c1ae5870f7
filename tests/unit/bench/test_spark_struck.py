"""Jobs that are struck on Spark can be loaded, and their rows are compared with an independent computation."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest

from bench.measures import spark_jobs
from bench.measures.spark_jobs import COLUMNS, JOBS, Row, counted, event, expected, made
from holdfast.schemas.job_operators import Spark
from holdfast.services.planning.loader import load

COUNT = 400


@pytest.mark.parametrize("job", JOBS)
def test_every_job_can_be_loaded_and_runs_on_spark(job: str) -> None:
    operator = load(JOBS[job].substitute(name="n", topic="t"), "bench.yaml").operators["h"]
    assert isinstance(operator, Spark)


def test_the_rows_of_a_job_have_a_computation_of_their_own() -> None:
    windows = expected("windows", COUNT)
    assert sum(row[2] for row in windows) == COUNT
    assert sum(row[3] for row in windows) == sum(event(index)["amount"] for index in range(COUNT))
    assert sum(row[1] is None for row in expected("join", COUNT)) == sum(
        event(index)["amount"] % 2 for index in range(COUNT)
    )
    assert expected("once", COUNT).total() == COUNT / 2
    assert max(row[2] for row in expected("totals", COUNT)) > 100


def test_a_lost_a_doubled_and_a_wrong_row_are_counted_and_closing_records_are_not() -> None:
    rows = [dict(zip(COLUMNS["once"], row, strict=True)) for row in expected("once", COUNT)]
    told = [row | {"at": _text(row["at"])} for row in rows]
    closing = {"number": 9, "user": "user-9", "at": _text(spark_jobs.closing(3)["at"])}
    found = made("once", [*told[1:], told[5], told[7] | {"user": "nobody"}, closing])
    assert counted(found, expected("once", COUNT)) == {
        "rows": COUNT // 2 + 1,
        "lost": 1,
        "duplicated": 1,
        "wrong": 1,
    }
    assert not counted(Counter[Row](), Counter[Row]())["lost"]


def _text(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()
