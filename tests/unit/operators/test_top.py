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
from holdfast.services.kernel.operators.operator import TIME, BatchContext
from holdfast.services.kernel.operators.stored_rows import StoredRows
from holdfast.services.kernel.operators.top import Top
from tests.support.tables import DictTables

FIELDS = {"name": "string?", "n": "float?"}
Rows = Sequence[Mapping[str, Any]]


class Runner:
    """A top over batches; `restore` starts it again on its tables."""

    def __init__(self, k: int, fields: Mapping[str, str] = FIELDS, row_key: Sequence[str] = ()) -> None:
        self.tables = DictTables()
        self._arguments = (k, "n", fields, tuple(row_key), "window_end" in fields)
        self._schema = with_time(schema(fields))
        self.batch = 0
        self.restore()

    def restore(self) -> None:
        self._top = Top(*self._arguments, self.tables)

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
def test_what_comes_out_is_the_ranking_of_all_rows_restored_or_not(
    row_key: tuple[str, ...], batches: list[list[dict[str, Any]]], k: int, pool: int, crash: int
) -> None:
    top, never_restored = Runner(k, row_key=row_key), Runner(k, row_key=row_key)
    shown, rows = dict[int, Any](), list[dict[str, Any]]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("holdfast.services.kernel.operators.top._MIN_POOL", pool)
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
    monkeypatch.setattr("holdfast.services.kernel.operators.top._MIN_POOL", 1)
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


def _at(hour: int) -> datetime:
    return datetime(2013, 1, 1, hour, tzinfo=UTC)


def _text(n: float | None) -> str:
    return str(n if n is None else n + 0.0)


def _place(one: Mapping[str, Any]) -> tuple[Any, ...]:
    n = one["n"]
    missing = n is None or n != n
    return (missing, 0 if missing else -n, one["name"], n is None)
