"""A pace holds the newest row of each key until the watermark reaches a multiple of its length."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Job, aggregate, count, every, pace, query, source
from holdfast.schemas.cuts import END_WATERMARK
from holdfast.services.kernel.codecs.fields import schema, with_time
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.operators.catalogue import Stream
from holdfast.services.kernel.operators.operator import TIME, BatchContext
from holdfast.services.kernel.operators.pace import Pace
from tests.support.examples import examples
from tests.support.operators import Harness
from tests.support.tables import DictTables

TOTALS = Stream({"k": "string?", "n": "int"}, ("k",))
S = 1_000_000


def paced(every_s: float = 10) -> Harness:
    return Harness("pace", {"pace": {"every_s": every_s}}, TOTALS)


def run(harness: Harness, watermark_s: float, *rows: tuple[str | None, int, float]) -> list[tuple[Any, ...]]:
    """Rows as (key, number, second)."""
    given = [{"k": key, "n": n, TIME: round(second * S)} for key, n, second in rows]
    watermark = END_WATERMARK if watermark_s == float("inf") else round(watermark_s * S)
    return [tuple(row.values()) for row in harness.run(given, watermark=watermark)]


def test_the_newest_row_of_each_key_comes_when_the_watermark_reaches_a_multiple() -> None:
    harness = paced()
    assert run(harness, 3, ("a", 1, 3), ("b", 1, 3)) == [("a", 1, 3 * S), ("b", 1, 3 * S)]  # the first watermark
    assert run(harness, 5, ("a", 2, 5)) == []
    assert run(harness, 9.999999, ("a", 3, 9)) == []
    harness.restore()
    assert run(harness, 10, ("b", 2, 10)) == [("a", 3, 9_999_999), ("b", 2, 10 * S)]
    assert run(harness, 19, (None, 7, 12)) == []
    assert run(harness, 19) == []
    assert run(harness, float("inf")) == [(None, 7, 19 * S)]
    assert run(harness, float("inf")) == []


def test_a_watermark_before_1970_has_multiples_too() -> None:
    harness = paced()
    run(harness, -25)
    assert run(harness, -21, ("a", 1, -21)) == []
    assert run(harness, -20, ("a", 2, -20)) == [("a", 2, -20 * S)]


ROWS = st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 9), st.integers(0, 60))


@given(batches=st.lists(st.lists(ROWS, max_size=4), max_size=8), restores=st.sets(st.integers(0, 7)))
@examples(each_run=60, with_long=300)
def test_the_last_row_of_each_key_is_that_without_a_pace(batches: list[list[Any]], restores: set[int]) -> None:
    harness, watermark, found = paced(), 0, list[tuple[Any, ...]]()
    for number, batch in enumerate(batches):
        if number in restores:
            harness.restore()
        watermark = max([watermark, *(second for *_, second in batch)])
        passed = run(harness, watermark, *batch)
        assert len({key for key, *_ in passed}) == len(passed)
        found += passed
    found += run(harness, float("inf"))
    last = {key: n for key, n, _ in found}
    assert last == {key: n for batch in batches for key, n, _ in batch}


@pytest.mark.parametrize("given", [Stream({"k": "string"}), Stream({"k": "string"}, ("k",), True, once=True)])
def test_rows_that_do_not_replace_each_other_have_no_pace(given: Stream) -> None:
    with pytest.raises(JobRejected, match=r"input: its rows have no key by which a newer one replaces an older one"):
        catalogue.describe("pace", {"pace": {"every_s": 1}}, [given])


def test_the_rows_that_wait_can_be_read() -> None:
    task = Pace(["k"], 10 * S, schema(TOTALS.fields), DictTables())
    rows = pl.DataFrame([{"k": "a", "n": 1, TIME: 2 * S}], schema=with_time(schema(TOTALS.fields)))
    task.on_batch([rows], BatchContext(1, S, 2 * S))
    (found,) = task.remembered(2 * S, None)
    assert found.keys.to_dicts() == [{"k": "a"}]
    assert found.values.select("n").to_dicts() == [{"n": 1}]
    assert isinstance(found.values[TIME].dtype, pl.Datetime)


def test_a_job_sends_totals_at_a_pace() -> None:
    counted = Job(
        name="counted",
        sources={"clicks": source(topic="clicks", fields={"user": "string", "at": "timestamp"}, event_time="at")},
        operators={
            "n": aggregate(aggregate={"n": count()}, key=["user"], input="clicks"),
            "paced": pace(pace=every(every_s=60), input="n"),
        },
        queries={"n": query(input="n"), "paced": query(input="paced")},
        max_batch_records=1,
    )
    clicks = [{"user": "a", "at": f"2026-01-01T00:{second // 60:02}:{second % 60:02}Z"} for second in range(0, 300, 7)]
    tried = counted.try_({"clicks": clicks})
    assert tried["n"].height == 43
    assert tried["paced"]["n"].to_list() == [1, 10, 19, 27, 36, 43]
