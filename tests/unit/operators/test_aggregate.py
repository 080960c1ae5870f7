"""Running totals and windows: whatever the batches and restores, the results are those of one piece."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from decimal import Decimal
from itertools import permutations
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas.cuts import END_WATERMARK
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.operators.catalogue import Stream
from tests.support.examples import examples
from tests.support.operators import Harness, without_time

FIELDS = {"k": "string?", "v": "int?"}
SECOND = 1_000_000
ALL = {
    "n": "count()",
    "some": "count(v)",
    "total": "sum(v)",
    "average": "mean(v)",
    "low": "min(v)",
    "high": "max(v)",
    "oldest": "first(v)",
    "newest": "last(v)",
    "different": "count_distinct(v)",
    "most": "quantile(v, 0.9)",
}


def params(emit: str = "updates", window: dict[str, float] | None = None, **others: Any) -> dict[str, Any]:
    return {"aggregate": ALL, "key": ["k"], "window": window, "emit": emit, **others}


def expected(rows: list[dict[str, Any]]) -> dict[str, Any]:
    ordered = sorted(rows, key=lambda row: row["_time"])
    values = [row["v"] for row in ordered if row["v"] is not None]
    return {
        "n": len(rows),
        "some": len(values),
        "total": sum(values) if values else None,
        "average": sum(values) / len(values) if values else None,
        "low": min(values, default=None),
        "high": max(values, default=None),
        "oldest": values[0] if values else None,
        "newest": values[-1] if values else None,
        "different": len(set(values)),
        "most": pl.Series(values, dtype=pl.Float64).quantile(0.9, "linear"),
    }


row = st.fixed_dictionaries(
    {
        "k": st.sampled_from([None, "", "a", "b", "ä"]),
        "v": st.none() | st.integers(-(2**62), 2**62),
        "_time": st.integers(-5 * SECOND, 60 * SECOND),
    }
)
batches = st.lists(st.tuples(st.lists(row, max_size=6), st.booleans()), max_size=8)


def clipped(value: int | None) -> int | None:
    return value if value is None or -(2**63) <= value < 2**63 else None


def by_key(rows: list[dict[str, Any]]) -> dict[Any, list[dict[str, Any]]]:
    groups = defaultdict(list)
    for one in rows:
        groups[one["k"]].append(one)
    return groups


@given(batches)
def test_running_totals_do_not_depend_on_batches_or_restores(some: list[tuple[list[dict[str, Any]], bool]]) -> None:
    harness, seen = Harness("aggregate", params(), FIELDS), list[dict[str, Any]]()
    newest: dict[Any, dict[str, Any]] = {}
    for rows, restore in some:
        if restore:
            harness.restore()
        out = harness.run(rows)
        seen += rows
        assert [r["k"] for r in out] == sorted({r["k"] for r in rows}, key=lambda k: (k is not None, k or ""))
        newest |= {r["k"]: r for r in without_time(out)}
    for key, rows in by_key(seen).items():
        want = expected(rows)
        assert newest[key] == {"k": key, **want, "total": clipped(want["total"])}


@given(batches)
def test_a_final_total_is_the_last_update(some: list[tuple[list[dict[str, Any]], bool]]) -> None:
    updates, final = Harness("aggregate", params(), FIELDS), Harness("aggregate", params("final"), FIELDS)
    newest: dict[Any, dict[str, Any]] = {}
    for rows, restore in some:
        newest |= {r["k"]: r for r in without_time(updates.run(rows))}
        assert final.run(rows) == []
        if restore:
            final.restore()
    ordered = sorted(newest.values(), key=lambda r: (r["k"] is not None, r["k"] or ""))
    assert without_time(final.end()) == ordered


@examples(each_run=12, with_long=100)
@given(batches, st.sampled_from([(10, 10), (10, 2), (6, 4), (7, 7)]), st.sampled_from([20, 3, 0]))
def test_a_row_counts_in_each_of_its_windows_that_is_open(
    some: list[tuple[list[dict[str, Any]], bool]], shape: tuple[int, int], ahead: int
) -> None:
    size, slide = shape[0] * SECOND, shape[1] * SECOND
    harness = Harness("aggregate", params("final", {"size_s": shape[0], "slide_s": shape[1]}), FIELDS)
    out: list[dict[str, Any]] = []
    groups = defaultdict(list)
    late = 0
    for rows, restore in some:
        if restore:
            harness.restore()
        for one in rows:
            first = (one["_time"] - size) // slide * slide + slide
            open_starts = [s for s in range(first, one["_time"] + 1, slide) if s + size > harness.watermark]
            late += not open_starts
            for start in open_starts:
                groups[start, one["k"]].append(one)
        watermark = max([r["_time"] for r in rows], default=0) - ahead * SECOND
        out += harness.run(rows, watermark=watermark)
    out += harness.end()
    assert sum(o.late for o in harness.outcomes) == late, "late is a row all of whose windows have closed"
    got = {(micros(r["window_start"]), r["k"]): r for r in out}
    assert len(got) == len(out), "each window and key once"
    assert set(got) == set(groups)
    for (start, key), rows in groups.items():
        want = expected(rows)
        result = got[start, key]
        assert {name: result[name] for name in want} == {**want, "total": clipped(want["total"])}
        assert micros(result["window_end"]) == start + size
        assert result["_time"] == start + size - 1


def micros(moment: datetime) -> int:
    delta = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86400 + delta.seconds) * SECOND + delta.microseconds


@pytest.mark.parametrize("emit", ["updates", "each"])
def test_a_total_is_forgotten_when_its_newest_row_is_old_and_begins_again(emit: str) -> None:
    declared = {"aggregate": {"n": "count()", "s": "sum(v)"}, "key": ["k"], "emit": emit, "forget_after_s": 10}
    harness = Harness("aggregate", declared, {"k": "string", "v": "int"})

    def totals(*given: tuple[str, int], watermark: int) -> list[tuple[str, int, int]]:
        rows = [{"k": key, "v": 1, "_time": at * 1_000_000} for key, at in given]
        return [(row["k"], row["n"], row["s"]) for row in harness.run(rows, watermark=watermark * 1_000_000)]

    assert totals(("a", 0), ("b", 5), watermark=9) == [("a", 1, 1), ("b", 1, 1)]
    assert totals(("a", 3), watermark=12) == [("a", 2, 2)], "the newest row counts, not the last that came"
    harness.restore()
    assert totals(watermark=14) == []
    assert len(harness.entries()) == 1, "a is forgotten at 13, b at 15"
    on_the_way = [("b", 1, 1)] if emit == "each" else []
    again = totals(("a", 20), ("b", 15), ("b", 14), ("b", 25), watermark=20)
    assert again == [("a", 1, 1), *on_the_way, ("b", 2, 2), ("b", 1, 1)], "b begins again at 15 and at 25, in one batch"
    harness.run([], watermark=35 * 1_000_000)
    assert harness.entries() == []


def test_updates_of_windows_give_each_touched_window_its_newest_value() -> None:
    spec = {"aggregate": {"n": "count()"}, "key": ["k"], "window": {"size_s": 4, "slide_s": 2}, "emit": "updates"}
    harness = Harness("aggregate", spec, FIELDS)
    out = harness.run([{"k": "a", "v": 1, "_time": 3 * SECOND}])
    assert [(micros(r["window_start"]) // SECOND, r["n"]) for r in out] == [(0, 1), (2, 1)]
    out = harness.run([{"k": "a", "v": 1, "_time": 5 * SECOND}], watermark=4 * SECOND)
    assert [(micros(r["window_start"]) // SECOND, r["n"]) for r in out] == [(2, 2), (4, 1)]
    assert harness.end() == []


def test_late_rows_are_refused_where_they_are_to_be_kept() -> None:
    spec = params("final", {"size_s": 1, "slide_s": 1}, late="topic")
    harness = Harness("aggregate", spec, FIELDS)
    harness.run([], watermark=10 * SECOND)
    harness.run([{"k": "a", "v": 1, "_time": 9 * SECOND}])
    (refused,) = harness.outcomes[-1].refused
    assert refused.reason == "late"
    assert '"k":"a"' in refused.row


def test_a_row_behind_the_watermark_counts_in_a_window_that_is_open() -> None:
    spec = {"aggregate": {"n": "count()"}, "key": ["k"], "window": {"size_s": 10, "slide_s": 10}, "emit": "final"}
    harness = Harness("aggregate", spec, FIELDS)
    harness.run([{"k": "a", "v": 1, "_time": 19 * SECOND}], watermark=19 * SECOND)
    harness.run([{"k": "a", "v": 1, "_time": 11 * SECOND}, {"k": "a", "v": 1, "_time": 9 * SECOND}])
    assert harness.outcomes[-1].late == 1, "the window from 0 to 10 is closed, that from 10 to 20 is not"
    assert [(micros(r["window_start"]) // SECOND, r["n"]) for r in harness.end()] == [(10, 2)]


def test_a_pane_that_was_read_for_a_closed_window_may_still_grow() -> None:
    spec = {"aggregate": {"n": "count()"}, "key": ["k"], "window": {"size_s": 4, "slide_s": 2}, "emit": "final"}
    harness = Harness("aggregate", spec, FIELDS)
    harness.run([{"k": "a", "v": 1, "_time": 3 * SECOND}], watermark=4 * SECOND)
    harness.run([{"k": "a", "v": 1, "_time": 2 * SECOND}])
    assert [(micros(r["window_start"]) // SECOND, r["n"]) for r in harness.end()] == [(2, 2)]
    assert harness.outcomes[1].late == 0


def test_other_types_are_aggregated_exactly() -> None:
    fields = {"d": "decimal(10,2)?", "t": "timestamp", "s": "string", "b": "bool", "f": "float"}
    spec: dict[str, Any] = {
        "aggregate": {
            "total": "sum(d)",
            "average": "mean(d)",
            "least": "min(d)",
            "one": "first(d)",
            "when": "max(t)",
            "text": "min(s)",
            "any": "max(b)",
            "float": "sum(f)",
        },
        "key": [],
        "window": None,
        "emit": "updates",
    }
    harness = Harness("aggregate", spec, fields)
    moments = [datetime(1969, 1, 1, tzinfo=UTC), datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC)]
    rows = [
        {"d": Decimal("0.10"), "t": moments[0], "s": "é", "b": False, "f": 0.1, "_time": 1},
        {"d": Decimal("0.20"), "t": moments[1], "s": "z", "b": True, "f": 0.2, "_time": 2},
    ]
    harness.run(rows[:1])
    harness.restore()
    (out,) = without_time(harness.run(rows[1:]))
    assert out["total"] == Decimal("0.30")
    assert out["average"] == pytest.approx(0.15)
    assert (out["least"], out["one"]) == (Decimal("0.10"), Decimal("0.10"))
    assert (out["when"], out["text"], out["any"], out["float"]) == (moments[1], "z", True, 0.1 + 0.2)


def test_decimals_are_added_to_the_last_digit_and_null_beyond() -> None:
    spec: dict[str, Any] = {"aggregate": {"total": "sum(d)"}, "key": [], "window": None, "emit": "updates"}
    harness = Harness("aggregate", spec, {"d": "decimal(38,2)"})
    big = Decimal("400000000000000000000000000000000000.01")
    totals = [harness.run([{"d": big, "_time": 0}])[0]["total"] for _ in range(3)]
    assert totals == [big, Decimal("800000000000000000000000000000000000.02"), None]


@pytest.mark.parametrize("emit", ["updates", "each", "final"])
@pytest.mark.parametrize("count", [2, 3, 5, 9, 300])
def test_decimals_of_one_batch_whose_sum_has_too_many_digits_never_wrap_around(emit: str, count: int) -> None:
    """Arrow's sum of 128 bits did: nine such values made 197176330790615365366253925682317885.53."""
    spec: dict[str, Any] = {
        "aggregate": {"total": "sum(d)", "mean": "mean(d)"},
        "key": [],
        "window": None,
        "emit": emit,
    }
    harness = Harness("aggregate", spec, {"d": "decimal(38,2)"})
    big = Decimal("400000000000000000000000000000000000.01")
    out = harness.run([{"d": big, "_time": 0}] * count) or harness.end()
    assert out[-1]["total"] == (Decimal("800000000000000000000000000000000000.02") if count == 2 else None)
    assert out[-1]["mean"] == float(big)
    if emit == "updates":
        (back,) = harness.run([{"d": big.copy_negate(), "_time": 0}] * (count - 1))
        assert back["total"] == big, "what was too large is remembered in full"


def test_decimals_without_digits_behind_the_point_are_kept_by_first() -> None:
    spec: dict[str, Any] = {"aggregate": {"one": "first(d)"}, "key": [], "window": None, "emit": "updates"}
    (out,) = Harness("aggregate", spec, {"d": "decimal(10,0)"}).run([{"d": Decimal(7), "_time": 0}])
    assert out["one"] == Decimal(7)


def test_min_and_max_pass_over_nan_and_know_one_zero() -> None:
    spec: dict[str, Any] = {
        "aggregate": {"low": "min(f)", "high": "max(f)"},
        "key": [],
        "window": None,
        "emit": "updates",
    }
    for values in permutations([float("nan"), 0.0, -0.0]):
        harness = Harness("aggregate", spec, {"f": "float"})
        out = [harness.run([{"f": value, "_time": 0}]) for value in values][-1]
        assert [str(out[0][name]) for name in ("low", "high")] == ["0.0", "0.0"]


def test_nan_is_no_number_for_any_function() -> None:
    """As in an expression: it is passed over like a null, in each order and each split."""
    functions = {
        "n": "count(f)", "low": "min(f)", "high": "max(f)", "total": "sum(f)", "mean": "mean(f)", "first": "first(f)",
        "last": "last(f)", "kinds": "count_distinct(f)", "half": "quantile(f, 0.5)",
    }  # fmt: skip
    spec: dict[str, Any] = {"aggregate": functions, "key": [], "window": None, "emit": "updates"}
    for values in permutations([float("nan"), 2.0, None]):
        rows = [{"f": value, "_time": 0} for value in values]
        for batches in ([rows], [[row] for row in rows]):
            harness = Harness("aggregate", spec, {"f": "float?"})
            out = [harness.run(batch) for batch in batches][-1][-1]
            found = {name: out[name] for name in functions}
            assert found == dict.fromkeys(functions, 2.0) | {"n": 1, "kinds": 1}, (values, batches)


def test_nothing_at_all_gives_nothing() -> None:
    harness = Harness("aggregate", params("final", {"size_s": 1, "slide_s": 1}), FIELDS)
    assert harness.run([]) == []
    assert harness.end() == []


@pytest.mark.parametrize(
    ("change", "path", "part"),
    [
        ({"key": ["carier"]}, "key[0]", "there is no column 'carier'"),
        ({"aggregate": {"n": "cuont()"}}, "aggregate.n", "did you mean 'count'?"),
        ({"aggregate": {"n": "sum(k)"}}, "aggregate.n", "sum needs a number"),
        ({"aggregate": {"n": "sum(w)"}}, "aggregate.n", "no column 'w'"),
        ({"aggregate": {"n": "sum()"}}, "aggregate.n", "needs a column"),
        ({"aggregate": {"n": "quantile(v)"}}, "aggregate.n", "a share from 0 to 1"),
        ({"aggregate": {"n": "quantile(coalesce(v, 0))"}}, "aggregate.n", "a share from 0 to 1"),
        ({"aggregate": {"n": "quantile(v, 95)"}}, "aggregate.n", "a share from 0 to 1"),
        ({"aggregate": {"n": "quantile(v, nan)"}}, "aggregate.n", "a share from 0 to 1"),
        ({"aggregate": {"n": "quantile(k, 0.5)"}}, "aggregate.n", "quantile needs a number"),
        ({"aggregate": {"n": "count_distinct()"}}, "aggregate.n", "needs a column"),
        ({"aggregate": {"n": "v"}}, "aggregate.n", "is no aggregate"),
        ({"aggregate": {"k": "count()"}}, "aggregate.k", "two columns 'k'"),
        ({"emit": "final", "forget_after_s": 5}, "forget_after_s", "does not go with final"),
        ({"aggregate": {"_n": "count()"}}, "aggregate._n", "underscore"),
        (
            {"emit": "each", "aggregate": {"n": "count()"}, "window": {"size_s": 1, "slide_s": 1}},
            "emit",
            "each goes with running totals, not with windows (use updates, or leave out window)",
        ),
        (
            {"emit": "each", "aggregate": {"n": "quantile(v, 0.5)"}},
            "aggregate.n",
            "quantile cannot be given after each record (use emit: updates)",
        ),
        (
            {"emit": "each", "aggregate": {"n": "count_distinct(v)"}},
            "aggregate.n",
            "count_distinct cannot be given after each record (use emit: updates)",
        ),
    ],
)
def test_a_mistake_is_said_with_path_and_hint(change: dict[str, Any], path: str, part: str) -> None:
    with pytest.raises(JobRejected) as rejected:
        catalogue.describe("aggregate", {**params(), **change}, [Stream(FIELDS)])
    (problem,) = rejected.value.problems
    assert problem.path == path
    assert part in str(problem)


def test_the_end_is_a_watermark_behind_all_windows() -> None:
    assert END_WATERMARK > 10**18


def test_a_column_may_be_called_like_a_word_of_sql() -> None:
    fields = {"user": "string", "date": "int"}
    spec = {"aggregate": {"n": "count(user)", "total": "sum(date)"}, "key": ["user"], "window": None, "emit": "updates"}
    (row,) = Harness("aggregate", spec, fields).run([{"user": "a", "date": 3, "_time": 0}])
    assert (row["n"], row["total"]) == (1, 3)
    select = {"select": ["user", "date"]}
    (row,) = Harness("select", select, fields).run([{"user": "a", "date": 3, "_time": 0}])
    assert (row["user"], row["date"]) == ("a", 3)
