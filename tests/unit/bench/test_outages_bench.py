"""Outages that the bench plans, and what it says of those that it made."""

from __future__ import annotations

import random
from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

from bench.outages.rows import Rows
from bench.outages.strikes import BROKER, FORK, FREEZE, KILL, UNIT, Outcome, counts, exact, left_of, report, rounds
from bench.outages.strikes import strikes as strikes_of
from holdfast.services.kernel.dataflow.sink_records import RowsOf


def made(kind: str = UNIT, fault: str = KILL, first_ms: float = 300.0, **more: Any) -> Outcome:
    fields: dict[str, Any] = {"noted_ms": 50.0, "over_ms": 1_200.0, "closed_ms": 1_500.0, "tentative": 7, "closing": 1}
    return Outcome(kind, fault, ("a-0",), 0.5, first_ms=first_ms, **fields | more)


def test_a_quarter_strikes_the_worker_of_a_fork_and_a_tenth_the_broker() -> None:
    wanted = strikes_of(200)
    assert Counter(one.kind for one in wanted) == {FORK: 50, BROKER: 20, UNIT: 130}
    assert Counter(one.fault for one in wanted) == {KILL: 100, FREEZE: 100}


def test_outages_already_made_are_not_made_again_and_rounds_hold_the_others() -> None:
    wanted = strikes_of(20)
    left = left_of(wanted, [made(UNIT, KILL), made(FORK, FREEZE), made(FORK, FREEZE)])
    assert len(left) == 17
    found = rounds(left, 7, random.Random(0))
    assert [len(one) for one in found] == [7, 7, 3]
    assert Counter(one for some in found for one in some) == Counter(left)


def test_an_outage_without_tentative_rows_has_no_time_of_a_first_row() -> None:
    (row,) = report([made(first_ms=120.0), made(first_ms=-1.0, tentative=0), made(first_ms=240.0)])
    assert (row.times, row.with_rows, row.tentative) == (3, 2, 14)
    assert (row.first_ms, row.share) == (120.0, 0.1)
    assert made(first_ms=-1.0).recovered_share is None


def test_a_row_that_stays_tentative_is_no_exact_run() -> None:
    assert exact([made(), made(rows=9)])
    assert counts([made(), made(rows=9)]) == {
        "rows": 9, "lost": 0, "duplicated": 0, "wrong": 0, "open": 0, "untrue": 0, "tentative": 14, "closing": 2
    }  # fmt: skip
    assert not any(
        exact([made(**cast(dict[str, Any], {name: 1}))]) for name in ("lost", "duplicated", "wrong", "open", "untrue")
    )


def test_rows_count_what_is_open_and_where_a_reader_ends_with_another_row_than_the_final_one() -> None:
    class Nothing:
        def reader(self, name: str) -> Any:
            return SimpleNamespace(assign=lambda at: None)

        def offsets(self, partitions: Any, at: str) -> Any:
            return {}

    def message(key: bytes, value: bytes | None, status: str) -> Any:
        headers = [("job", b"j@0-aaaaaa"), ("query", b"q"), ("status", status.encode()), ("batch", b"3")]
        return SimpleNamespace(key=lambda: key, value=lambda: value, headers=lambda: headers)

    rows = Rows(cast(Any, Nothing()), "out", RowsOf("j", "0-aaaaaa", "q"))
    rows._take(message(b"a", b"1", "tentative"), 10.0)
    rows._take(message(b"b", b"1", "tentative"), 11.0)
    assert (rows.first_after(5.0), rows.first_after(10.5), rows.first_after(12.0)) == (10.0, 11.0, None)
    assert (rows.open, rows.untrue()) == (2, 2)
    rows._take(message(b"a", b"2", "final"), 12.0)
    rows._take(message(b"b", None, "closing"), 12.0)
    assert (rows.open, rows.untrue()) == (0, 0)
    assert rows.counts == {"tentative": 2, "final": 1, "closing": 1}
