"""dedup: whatever the batches and restores, what is passed on is the first row of a key within a time."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas.cuts import END_WATERMARK, NO_WATERMARK
from holdfast.schemas.operator_settings import DedupSettings, WithinSettings
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.operators.catalogue import Stream
from tests.support.examples import examples
from tests.support.operators import Harness
from tests.unit.planning.jobs import job, plan, problems, routes, source

FIELDS = {"k": "string?", "x": "float?", "n": "int"}
SECOND = 1_000_000
WITHIN = 5 * SECOND
Rows = list[dict[str, Any]]


def dedup(key: tuple[str, ...] = ("k",), **more: Any) -> Harness:
    return Harness("dedup", {"dedup": {"within_s": 5}, "key": list(key), **more}, FIELDS)


def row(time_s: float, key: str | None = "a", number: int = 0, x: float | None = None) -> dict[str, Any]:
    return {"k": key, "x": x, "n": number, "_time": round(time_s * SECOND)}


def times(rows: Rows) -> list[float]:
    return [one["_time"] / SECOND for one in rows]


# -- one task ---------------------------------------------------------------------------------------------------------


def test_a_row_less_than_within_after_the_one_passed_on_is_dropped() -> None:
    task = dedup()
    assert times(task.run([row(0), row(4.999999), row(5), row(9)], watermark=9 * SECOND)) == [0, 5]
    assert times(task.run([row(9.9), row(10)])) == []
    assert times(task.end()) == [10]


def test_a_row_waits_until_the_watermark_has_passed_it() -> None:
    task = dedup()
    assert times(task.run([row(7)], watermark=7 * SECOND)) == [], "another one of that time may come"
    assert times(task.run([], watermark=7 * SECOND + 1)) == [7]


def test_the_older_of_two_rows_is_passed_on_whichever_comes_first_in_one_batch_or_two() -> None:
    older, newer = row(1_000_005), row(1_000_008)
    for given_batches in ([[older, newer]], [[newer, older]], [[older], [newer]], [[newer], [older]]):
        task, found = dedup(), Rows()
        for batch in given_batches:
            found += task.run(batch, watermark=(1_000_008 - 600) * SECOND)
            task.restore()
        assert times(found + task.end()) == [1_000_005]


def test_a_dropped_row_drops_nothing_itself() -> None:
    assert times(dedup(emit="each").run([row(second) for second in range(0, 13, 4)])) == [0, 8]


def test_the_smallest_row_of_equal_times_is_passed_on_and_rows_come_in_order() -> None:
    task = dedup()
    assert task.run([row(1, "b", 9), row(1, "a", 8)]) == []
    assert task.run([row(1, "a", 7), row(0, "c", 3)]) == []
    assert [one["n"] for one in task.end()] == [3, 7, 9]


def test_at_once_rows_are_judged_by_those_before_them_in_one_batch_or_several() -> None:
    some = [row(9), row(1, "b"), row(5), row(4), row(3), row(14), row(14.5)]
    assert times(dedup(emit="each").run(some)) == [9, 1, 4, 14]
    task = dedup(emit="each")
    assert times([one for each in some for one in task.run([each])]) == [9, 1, 4, 14]


def test_null_is_a_key_and_floats_have_one_zero_and_one_nan() -> None:
    assert len(dedup(emit="each").run([row(0, None), row(1, None), row(2, "None")])) == 2
    values = [0.0, -0.0, float("nan"), -float("nan"), None]
    assert [one["n"] for one in dedup(("x",), emit="each").run([row(i, "a", i, x) for i, x in enumerate(values)])] == [
        0,
        2,
        4,
    ]


@pytest.mark.parametrize("emit", ["final", "each"])
def test_a_row_is_late_once_all_that_it_could_meet_is_closed(emit: str) -> None:
    task = dedup(emit=emit)
    task.run([row(0)], watermark=10 * SECOND)
    assert times(task.run([row(5, "b"), row(5.000001, "b"), row(6, "b")])) == [5.000001], "the watermark was 10"
    assert task.outcomes[-1].late == 1
    assert [times.len() for times in task.outcomes[-1].dropped] == [1]
    assert not task.outcomes[-1].refused


def test_late_rows_are_refused_where_they_are_to_be_kept() -> None:
    task = dedup(late="topic")
    task.run([row(0)], watermark=10 * SECOND)
    assert task.run([row(1)]) == []
    assert [one.reason for one in task.outcomes[-1].refused] == ["late"]
    assert [times.len() for times in task.outcomes[-1].dropped] == [0]


def test_the_watermark_closes_what_is_remembered() -> None:
    task = dedup()
    for second in range(0, 100, 5):
        task.run([row(second, f"{number}") for number in range(10)], watermark=second * SECOND)
        task.restore()
    image = task.entries()
    assert len(image) <= 3 * 10 + 3 + 1, "no more than three slices of time, and what waits"
    task.end()
    assert task.entries() == []


# -- laws -------------------------------------------------------------------------------------------------------------

rows = st.builds(row, st.integers(0, 40), st.sampled_from([None, "a", "b"]), st.integers(0, 9))
batches = st.lists(st.tuples(st.lists(rows, max_size=8), st.integers(0, 12), st.booleans()), max_size=8)


def first(of: Rows, passed: Rows, watermark: int) -> Rows:
    """One row after the other, each compared with all that were passed on before."""
    found = Rows()
    for one in of:
        met = [r for r in passed + found if r["k"] == one["k"] and abs(one["_time"] - r["_time"]) < WITHIN]
        late = one["_time"] + WITHIN <= watermark
        if not late and not any(r["_time"] + WITHIN > watermark for r in met):
            found.append(one)
    return found


@given(batches)
def test_at_once_each_row_is_compared_with_all_that_are_open(some: list[tuple[Rows, int, bool]]) -> None:
    task, passed = dedup(emit="each"), Rows()
    for given_rows, step, restore in some:
        if restore:
            task.restore()
        expected = first(given_rows, passed, task.watermark)
        watermark = max(0, task.watermark) + step * SECOND
        assert task.run(given_rows, watermark=watermark) == expected
        passed += expected


@examples(each_run=15, with_long=100)
@given(st.lists(rows, max_size=40), st.integers(0, 12), st.randoms(use_true_random=False))
def test_batches_order_and_restores_within_lateness_make_no_difference(some: Rows, lateness: int, random: Any) -> None:
    """In one piece: by event time, then by content."""

    def content(one: dict[str, Any]) -> tuple[Any, ...]:
        return (one["_time"], one["k"] is not None, one["k"] or "", one["n"])

    expected = Rows()
    for one in sorted(some, key=content):
        expected += first([one], expected, NO_WATERMARK)
    for _ in range(3):
        task, found = dedup(), Rows()
        left = sorted(some, key=lambda r: r["_time"] + random.uniform(0, lateness) * SECOND)
        while left:
            count = random.randint(1, 6)
            batch, left = left[:count], left[count:]
            newest = max(max(one["_time"] for one in batch) - lateness * SECOND, task.watermark)
            found += task.run(batch, watermark=newest)
            if random.random() < 0.3:
                task.restore()
        assert found + task.end() == expected


@given(st.lists(rows, max_size=30), st.lists(st.integers(1, 5), max_size=30))
def test_rows_in_order_give_the_same_whatever_the_batches(some: Rows, sizes: list[int]) -> None:
    """In one piece, by polars: the first row of each key, then the first that is `within` after it, and so on."""
    some = sorted(some, key=lambda r: r["_time"])
    task, found, left = dedup(), Rows(), list(some)
    for size in [*sizes, len(some)]:
        batch, left = left[:size], left[size:]
        found += task.run(batch, watermark=batch[-1]["_time"] if batch else None)
    found += task.end()
    frame = pl.DataFrame(some, schema={"k": pl.String, "x": pl.Float64, "n": pl.Int64, "_time": pl.Int64})
    expected = []
    while frame.height:
        heads = frame.group_by("k", maintain_order=True).first()
        expected += heads.to_dicts()
        until = heads.select("k", until=pl.col("_time") + WITHIN)
        frame = frame.join(until, on="k", nulls_equal=True, maintain_order="left").filter(
            pl.col("_time") >= pl.col("until")
        )
        frame = frame.drop("until")
    assert [(r["k"], r["_time"]) for r in found] == sorted(
        ((r["k"], r["_time"]) for r in expected), key=lambda one: (one[1], one[0] is not None, one[0] or "")
    )


# -- in a job ---------------------------------------------------------------------------------------------------------

FIRSTS = {"d": {"dedup": {"within_s": 60}, "key": ["x"], "input": "s"}}


def test_rows_of_one_key_meet_in_one_task() -> None:
    made = plan(job({"d": {**FIRSTS["d"], "parallelism": 2}}, {"s": source(parallelism=2)}))
    assert routes(made)["s d"] == "keyed"
    assert next(edge.key for edge in made.edges if edge.consumer == "d") == ("x",)


def test_dedup_keeps_its_inputs_columns_and_key() -> None:
    given_stream = Stream(FIELDS, ("k",), True)
    assert catalogue.describe("dedup", {"dedup": {"within_s": 1}, "key": ["k"]}, [given_stream]) == given_stream


def test_late_rows_go_where_the_source_says() -> None:
    made = plan(job(FIRSTS, {"s": source(late="topic")}))
    assert made.operators[1].params == {"dedup": {"within_s": 60.0}, "key": ["x"], "emit": "final", "late": "topic"}


def test_the_horizon_of_a_dedup_is_its_time() -> None:
    kind, settings = catalogue.KINDS["dedup"], DedupSettings(dedup=WithinSettings(1.5), key=("k",))
    assert kind.horizon_us(settings) == 1_500_000
    assert kind.held(settings, 70 * SECOND) == (71_500_001, 70 * SECOND, 0)


@pytest.mark.parametrize(
    ("operator", "path", "message", "hint"),
    [
        ({"dedup": {"within_s": 60}, "input": "s"}, "d.key", "is missing", "Columns"),
        ({"dedup": {}, "key": ["x"], "input": "s"}, "d.dedup.within_s", "is missing", "Event time"),
        ({"dedup": {"within_s": 0}, "key": ["x"], "input": "s"}, "d.dedup.within_s", "0 is too small", ""),
        ({"dedup": 60, "key": ["x"], "input": "s"}, "d.dedup", "expected a mapping, found 60", ""),
        ({"dedup": {"within_s": 60}, "key": "x", "input": "s"}, "d.key", "expected a list, found 'x'", "write [x]"),
        ({"dedup": {"within_s": 60}, "key": [], "input": "s"}, "d.key", "needs at least 1 entry", ""),
        (
            {"dedup": {"within_s": 1, "with_s": 1}, "key": ["x"], "input": "s"},
            "d.dedup.with_s",
            "is not a setting",
            "'within_s'",
        ),
    ],
)
def test_a_mistake_is_told_with_field_cause_and_fix(
    operator: dict[str, Any], path: str, message: str, hint: str
) -> None:
    (found,) = problems(job({"d": operator}))
    assert found.path == f"operators.{path}"
    assert message in found.message
    assert hint in found.hint


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (["q"], "key[0]: there is no column 'q'"),
        (["k", "l"], "key[1]: 'l' is a list<int>, which is no key"),
    ],
)
def test_a_key_that_cannot_be_one_is_told_with_its_place(key: list[str], message: str) -> None:
    given_stream, params = Stream({**FIELDS, "l": "list<int>"}), {"dedup": {"within_s": 1}, "key": key}
    with pytest.raises(JobRejected) as rejected:
        catalogue.describe("dedup", params, [given_stream])
    assert message in str(rejected.value.problems[0])


def test_no_watermark_and_the_end_of_the_stream_are_watermarks_too() -> None:
    task = dedup()
    assert times(task.run([row(-100), row(-96), row(7)], watermark=NO_WATERMARK)) == []
    assert times(task.run([row(-96), row(8)], watermark=END_WATERMARK)) == [-100, 7]
