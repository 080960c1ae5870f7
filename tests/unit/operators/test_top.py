"""Rankings are a function of the rows alone, with or without state, restored or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas.cuts import NO_WATERMARK
from holdfast.services.kernel.codecs.fields import schema, with_time
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.kernel.operators.catalogue import Stream, describe
from holdfast.services.kernel.operators.operator import TIME, BatchContext, Operator
from holdfast.services.kernel.operators.ranking import Order
from holdfast.services.kernel.operators.stored_rows import StoredRows
from holdfast.services.kernel.operators.top import Top, TopOfWindows
from tests.support.examples import examples
from tests.support.operators import Harness
from tests.support.tables import DictTables

FIELDS = {"name": "string?", "n": "float?"}
Rows = Sequence[Mapping[str, Any]]


class Runner:
    """A top over batches; `restore` starts it again on its tables."""

    def __init__(
        self,
        k: int,
        fields: Mapping[str, str] = FIELDS,
        row_key: Sequence[str] = (),
        key: Sequence[str] = (),
        ascending: bool = False,
    ) -> None:
        self.tables = DictTables()
        self._k, self._key, self._row_key, self._columns = k, list(key), list(row_key), schema(fields)
        self._order = Order("n", list(fields), self._columns["n"].is_float(), ascending)
        self._schema = with_time(schema(fields))
        self.batch = 0
        self.restore()

    def restore(self) -> None:
        self._top: Operator = (
            TopOfWindows(self._k, self._order, self._key, self._columns)
            if "window_end" in self._columns
            else Top(self._k, self._order, self._key, self._columns, self.tables, row_key=self._row_key)
        )

    def run(self, rows: Rows) -> list[dict[str, Any]]:
        self.batch += 1
        frame = pl.DataFrame([{TIME: self.batch, **row} for row in rows], schema=self._schema)
        outcome = self._top.on_batch([frame], BatchContext(self.batch, NO_WATERMARK, NO_WATERMARK))
        assert outcome.rows.schema == pl.Schema(
            [*list(self._schema.items())[:-1], ("rank", pl.Int64()), (TIME, pl.Int64())]
        )
        return outcome.rows.to_dicts()

    @property
    def written(self) -> int:
        return self.tables.table("rows").written


def ranks(rows: Rows) -> list[tuple[Any, ...]]:
    return [(row["rank"], row["name"], row["n"]) for row in rows]


def row(name: str | None, n: float | None) -> dict[str, Any]:
    return {"name": name, "n": n}


def test_largest_come_first_then_nan_and_null_and_ties_go_by_the_other_columns() -> None:
    rows = [row("c", 1.0), row("n", None), row("b", 2.0), row("m", float("nan")), row("a", 2.0), row(None, 2.0)]
    assert [r[1] for r in ranks(Runner(9).run(rows))] == ["a", "b", None, "c", "m", "n"]


def test_only_ranks_whose_row_changed_come_out_at_the_batch_s_newest_time() -> None:
    top = Runner(3)
    assert ranks(top.run([row("a", 5), row("b", 3), row("c", 1)])) == [(1, "a", 5), (2, "b", 3), (3, "c", 1)]
    assert top.run([{**row("d", 4), TIME: 70}, {**row("e", 0), TIME: 90}]) == [
        {"name": "d", "n": 4, "rank": 2, TIME: 90},
        {"name": "b", "n": 3, "rank": 3, TIME: 90},
    ]
    assert top.run([row("f", 0)]) == []


def test_ascending_the_smallest_come_first_and_null_and_nan_last() -> None:
    rows = [row("c", 1.0), row("n", None), row("b", 2.0), row("m", float("nan")), row("a", 2.0)]
    assert [r[1] for r in ranks(Runner(9, ascending=True).run(rows))] == ["c", "a", "b", "m", "n"]


def test_windows_are_ranked_by_key() -> None:
    fields = {"name": "string", "n": "int", "window_start": "timestamp", "window_end": "timestamp"}
    rows = [
        {"name": name, "n": n, "window_start": _at(end - 1), "window_end": _at(end)}
        for name, n, end in [("a", 1, 4), ("b", 2, 4), ("b", 3, 4), ("a", 9, 3), ("a", 2, 4)]
    ]
    found = [(r["window_end"].hour, r["name"], r["rank"], r["n"]) for r in Runner(1, fields, key=["name"]).run(rows)]
    assert found == [(3, "a", 1, 9), (4, "a", 1, 2), (4, "b", 1, 3)]


@pytest.mark.parametrize("row_key", [(), ("of", "name")])
@pytest.mark.parametrize("ascending", [False, True])
@examples(each_run=6, with_long=60)
@given(
    batches=st.lists(
        st.lists(
            st.fixed_dictionaries(
                {"of": st.sampled_from(["", "a", None]), "name": st.sampled_from("abcdefgh"), "n": st.integers(-9, 9)}
            ),
            max_size=15,
        ),
        max_size=6,
    ),
    k=st.integers(1, 3),
    crash=st.integers(0, 6),
    pools=st.sampled_from([1, 100]),
)
def test_each_key_has_the_ranking_of_its_rows_restored_or_not(
    row_key: tuple[str, ...], ascending: bool, batches: list[list[dict[str, Any]]], k: int, crash: int, pools: int
) -> None:
    top = Runner(k, {"of": "string?", "name": "string", "n": "int"}, row_key, ["of"], ascending)
    shown = dict[tuple[Any, int], tuple[str, int]]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("holdfast.services.kernel.operators.ranking.MIN_POOL", 16)  # a pool of one row, or of 4 * k
        patch.setattr("holdfast.services.kernel.operators.ranked_pools.MOST_SEGMENTS", 2)
        patch.setattr("holdfast.services.kernel.operators.ranked_pools.MOST_POOLS", pools)
        for number, batch in enumerate(batches):
            if number == crash:
                top.restore()
            out = top.run(batch)
            assert all(shown.get((r["of"], r["rank"])) != (r["name"], r["n"]) for r in out), "only what changed"
            shown |= {(r["of"], r["rank"]): (r["name"], r["n"]) for r in out}
    rows = [one for batch in batches for one in batch]
    latest = list({(r["of"], r["name"]): r for r in rows}.values()) if row_key else rows
    for of in {r["of"] for r in rows}:
        best = sorted((r for r in latest if r["of"] == of), key=lambda r: (r["n"] if ascending else -r["n"], r["name"]))
        assert [shown[of, rank + 1] for rank in range(len(best[:k]))] == [(r["name"], r["n"]) for r in best[:k]]
        assert (of, k + 1) not in shown


def test_no_rows_in_no_rows_out() -> None:
    assert Runner(3).run([]) == []


def test_without_a_key_only_the_best_are_kept() -> None:
    top = Runner(2)
    top.run([row(str(n), n) for n in range(50)])
    top.run([row(str(n), n) for n in range(40, 60)])
    assert len(top.tables.table("rows").entries) == 2
    assert top.written == 2 + 4, "what never was among the best is not written"


def test_a_row_that_falls_makes_room_for_one_that_was_out() -> None:
    top = Runner(2, row_key=["name"])
    top.run([row("a", 5), row("b", 4), row("c", 3)])
    assert ranks(top.run([row("a", 1)])) == [(1, "b", 4), (2, "c", 3)]
    assert ranks(top.run([row("a", 9), row("a", 3.5)])) == [(2, "a", 3.5)], "the last row of a key counts"


def test_windows_are_ranked_each_for_itself_and_leave_no_state() -> None:
    fields = {"name": "string", "n": "int", "window_start": "timestamp", "window_end": "timestamp"}
    top = Runner(2, fields)
    rows = [
        {"name": name, "n": n, "window_start": _at(end - 1), "window_end": _at(end)}
        for name, n, end in [("a", 1, 4), ("b", 2, 4), ("c", 3, 4), ("d", 9, 3), ("e", 1, 5)]
    ]
    found = [(r["window_end"].hour, r["rank"], r["name"]) for r in top.run(rows)]
    assert found == [(3, 1, "d"), (4, 1, "c"), (4, 2, "b"), (5, 1, "e")]
    assert not top.tables.tables


@pytest.mark.parametrize("row_key", [(), ("name",)])
@given(
    batches=st.lists(
        st.lists(
            st.builds(
                row,
                st.sampled_from("abcdefgh"),
                st.one_of(st.none(), st.sampled_from([0.0, -0.0, float("nan"), 1.5, 2.0, 3.0])),
            ),
            max_size=12,
        ),
        max_size=8,
    ),
    k=st.integers(1, 5),
    pool=st.integers(5, 9),
    crash=st.integers(0, 8),
)
def test_the_output_is_the_ranking_of_all_rows_restored_or_not(
    row_key: tuple[str, ...], batches: list[list[dict[str, Any]]], k: int, pool: int, crash: int
) -> None:
    top, never_restored = Runner(k, row_key=row_key), Runner(k, row_key=row_key)
    shown, rows = dict[int, Any](), list[dict[str, Any]]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("holdfast.services.kernel.operators.ranking.MIN_POOL", pool)
        for number, batch in enumerate(batches):
            if number == crash:
                top.restore()
            out = top.run(batch)
            assert str(out) == str(never_restored.run(batch))
            rows += batch
            shown |= {r["rank"]: (r["name"], str(r["n"])) for r in out}
    latest = list({r["name"]: r for r in rows}.values()) if row_key else rows
    expected = sorted(latest, key=_place)[:k]
    assert [shown[rank] for rank in sorted(shown)] == [(r["name"], _text(r["n"])) for r in expected]


def test_a_drained_pool_is_filled_from_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.services.kernel.operators.ranking.MIN_POOL", 1)
    top = Runner(2, row_key=["name"])
    top.run([row(f"{n:03}", n) for n in range(100)])
    for n in range(99, 4, -1):
        top.run([row(f"{n:03}", -n)])
    assert ranks(top.run([row("x", 100), row("004", -4), row("003", -3)])) == [(1, "x", 100), (2, "002", 2)]


def test_stored_rows_come_back_to_the_bit() -> None:
    columns = schema({
        "s": "string?", "i": "int", "f": "float", "b": "bool?", "d": "decimal(20,4)?", "t": "timestamp?",
        "day": "date?", "raw": "bytes?", "l": "list<timestamp?>?",
        "st": "struct<day: date?, d: decimal(5,2)?, f: float?>?",
    })  # fmt: skip
    inner = {"day": date(2020, 1, 2), "d": Decimal("1.25"), "f": float("nan")}
    full = [
        "x",
        2**63 - 1,
        float("nan"),
        True,
        Decimal("1.2345"),
        _at(3),
        date(1, 1, 1),
        b"\0\xff",
        [_at(1), None],
        inner,
    ]
    rows = pl.DataFrame([full, [None, 0, -0.5, *[None] * 7]], schema=columns, orient="row")
    stored = StoredRows(columns)
    assert stored.decode(stored.encode(rows)).equals(rows)
    assert stored.decode([]).schema == columns


def test_a_key_that_may_change_is_refused_and_sessions_are_ranked_as_they_end() -> None:
    totals = Stream({"user": "string", "country": "string", "n": "int"}, ("user",))
    with pytest.raises(JobRejected, match="'country' may change when a newer row of the same user comes"):
        describe("top", {"top": {"k": 1, "by": "n"}, "key": ["country"]}, [totals])
    with pytest.raises(JobRejected, match="at most 1,000 with a key"):
        describe("top", {"top": {"k": 1001, "by": "n"}, "key": ["user"]}, [totals])
    params = {"aggregate": {"n": "count()"}, "key": ["user"], "window": {"gap_s": 5}, "emit": "final"}
    sessions = describe("aggregate", params, [totals])
    assert describe("top", {"top": {"k": 1, "by": "n"}}, [sessions]).row_key == ("rank",)
    longest = describe("top", {"top": {"k": 1, "by": "n"}, "key": ["user"]}, [sessions])
    assert longest.row_key == ("user", "rank")
    assert not longest.windowed


def _at(hour: int) -> datetime:
    return datetime(2013, 1, 1, hour, tzinfo=UTC)


def _text(n: float | None) -> str:
    return str(n if n is None else n + 0.0)


def _place(one: Mapping[str, Any]) -> tuple[Any, ...]:
    n = one["n"]
    missing = n is None or n != n
    return (missing, 0 if missing else -n, one["name"], n is None)


S = 1_000_000
TIMED = st.tuples(st.sampled_from("ab"), st.integers(0, 5), st.integers(0, 40))


def forgetting(key: bool = True, row_key: tuple[str, ...] = ()) -> Harness:
    given = Stream({"name": "string", "n": "int"}, row_key)
    more = {"key": ["name"]} if key else {}
    return Harness("top", {"top": {"k": 2, "by": "n"}, "forget_after_s": 10, **more}, given)


def ranked(rows: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["name"], row["n"], row["rank"]) for row in rows]


@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize("key", [False, True])
def test_a_ranking_ends_so_long_after_its_newest_row(key: bool, restored: bool) -> None:
    task = forgetting(key)

    def run(*rows: tuple[int, int]) -> list[tuple[Any, ...]]:
        if restored:
            task.restore()
        found = task.run([{"name": "a", "n": n, TIME: second * S} for n, second in rows], watermark=rows[-1][1] * S)
        return ranked(found)

    assert run((5, 0), (3, 1)) == [("a", 5, 1), ("a", 3, 2)]
    assert run((4, 10)) == [("a", 4, 2)]
    assert run((1, 20)) == [("a", 1, 1)]
    assert run((2, 29), (0, 39)) == [("a", 2, 1), ("a", 1, 2), ("a", 0, 1)]
    assert run((7, 100)) == [("a", 7, 1)]
    assert len(task.entries()) == 2, "a row, and the time of the newest one"


def test_a_ranking_is_deleted_once_the_watermark_has_passed_its_end() -> None:
    task = forgetting()
    for second in range(50):
        task.run([{"name": f"{second}", "n": 1, TIME: second * S}], watermark=second * S)
        task.restore()
    assert len(task.entries()) <= 2 * 11


@given(rows=st.lists(TIMED, max_size=30), data=st.data())
@examples(each_run=20, with_long=60)
def test_batches_do_not_change_where_a_ranking_begins(rows: list[tuple[str, int, int]], data: st.DataObject) -> None:
    def last(sizes: list[int]) -> dict[Any, Any]:
        task, found, at, watermark = forgetting(), dict[Any, Any](), 0, 0
        for size in [*sizes, len(rows)]:
            some = rows[at : at + size]
            at += size
            given_rows = [{"name": name, "n": n, TIME: second * S} for name, n, second in some]
            # a watermark that lets all rows be in time
            for name, n, rank in ranked(task.run(given_rows, watermark=watermark)):
                found[name, rank] = n
        return found

    assert last([1] * len(rows)) == last(data.draw(st.lists(st.integers(1, 9), max_size=30))) == last([])


def test_windows_have_no_rankings_that_end() -> None:
    windowed = Stream({"n": "int", "window_start": "timestamp", "window_end": "timestamp"}, ("n",), True, once=True)
    with pytest.raises(JobRejected, match="forget_after_s: does not go with windows"):
        describe("top", {"top": {"k": 1, "by": "n"}, "forget_after_s": 3}, [windowed])
