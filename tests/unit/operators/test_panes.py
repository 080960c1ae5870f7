"""Panes become windows: added in order, key by key, and kept within a bound."""

from __future__ import annotations

import polars as pl
import pytest

from holdfast.services.kernel.operators import panes
from holdfast.services.kernel.operators.aggregate_texts import parse
from holdfast.services.kernel.operators.grouping import Grouping
from holdfast.services.kernel.operators.panes import Pane, Panes, merged

SCHEMA = {"x": pl.Int64()}
GROUPING = Grouping(["k"], [*parse("n", "count()", SCHEMA).aggregates, *parse("low", "min(x)", SCHEMA).aggregates])


def test_the_same_keys_are_added_column_by_column() -> None:
    found = merged([Pane([b"a", b"b"], [[1, 2], [5, None]]), Pane([b"a", b"b"], [[10, 20], [7, 3]])], GROUPING)
    assert found == Pane([b"a", b"b"], [[11, 22], [5, 3]])


def test_keys_that_only_some_panes_have_keep_what_those_know() -> None:
    parts = [Pane([b"b"], [[1], [9]]), Pane([b"a", b"b"], [[2, 3], [4, 8]]), Pane([b"a", b"c"], [[5, 6], [1, 2]])]
    found = merged(parts, GROUPING)
    assert found == Pane([b"b", b"a", b"c"], [[4, 7, 6], [8, 1, 2]])
    assert parts[0] == Pane([b"b"], [[1], [9]]), "a kept pane is not changed"


def test_no_panes_give_nothing() -> None:
    assert merged([], GROUPING).keys == []


def test_a_settled_pane_is_loaded_once_and_only_so_much_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panes, "MAX_KEPT", 3)
    loaded: list[int] = []

    def load(start: int) -> Pane:
        loaded.append(start)
        return Pane([b"a", b"b"], [[1, 1], [1, 1]])

    kept = Panes(load)
    for start in (1, 2, 1, 2):
        kept.get(start)
    assert loaded == [1, 2, 2], "the second does not fit"
    kept.forget([1])
    kept.get(2)
    kept.get(2)
    assert loaded == [1, 2, 2, 2]
