"""States with a type hold what they declare, and end by event time, whatever is deleted when."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas.cuts import NO_WATERMARK
from holdfast.services.kernel.errors import InvalidRecord
from holdfast.services.kernel.operators.user_state import State
from tests.support.tables import DictTables

AT = datetime(2013, 1, 1, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("type", "value"),
    [
        ("int", -(2**63)),
        ("float?", None),
        ("float", 2.5),
        ("string", "ä"),
        ("bool", True),
        ("timestamp", AT),
        ("date", date(2013, 1, 1)),
        ("bytes", b"\x00"),
        ("decimal(5,2)", Decimal("123.40")),
        ("list<int?>", [1, None]),
        ("struct<a: int, b: list<string>?>", {"a": 1, "b": ["x"]}),
    ],
)
def test_a_value_of_each_type_comes_back_as_it_was(type: str, value: Any) -> None:
    tables = DictTables()
    state = State(tables)
    state.value("one", type).put(("k", 1), value)
    state.list("some", type, ttl_s=1).extend("k", [value, value], at=AT)
    state.map("named", "int", type).put("k", 7, value)
    state.apply()
    restored = State(tables)
    restored.begin(0, NO_WATERMARK)
    assert restored.value("one", type).get(("k", 1), "none") == value
    assert restored.list("some", type, ttl_s=1).get("k", at=AT) == [value, value]
    assert restored.map("named", "int", type).items("k") == {7: value}
    assert restored.value("one", type).get("other", "none") == "none"


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda state: state.value("n", "int").put("k", "1"), "n is a value of int, and '1' is none: Expected `int`"),
        (lambda state: state.value("n", "int").put("k", True), "Expected `int`, got `bool`"),
        (lambda state: state.value("n", "int").put("k", 2**63), "Expected `int` <="),
        (lambda state: state.value("n", "int").put("k", None), "got `null`"),
        (lambda state: state.value("t", "timestamp").put("k", datetime(2013, 1, 1)), "timezone"),
        (lambda state: state.value("d", "list<decimal(4,2)>").put("k", [Decimal("1.234")]), "1.234 does not fit into"),
        (lambda state: state.value("d", "decimal(4,2)").put("k", Decimal(100)), "100 does not fit into decimal"),
        (lambda state: state.list("l", "int").append("k", 1.5), "l is a list of int, and 1.5 is none"),
        (
            lambda state: state.map("m", "string", "int").put("k", 1, 1),
            "m is a map of string to int, and 1 is no string",
        ),
        (lambda state: state.map("m", "int", "int", limit=1).put_many("k", {1: 1, 2: 2}), "2 items for 'k', and 1 are"),
        (lambda state: state.map("m", "bool", "int"), "are string or int, not bool"),
        (lambda state: state.value("v", "integer"), "did you mean 'int'"),
        (lambda state: state.value("v", "int", ttl_s=0), "ttl_s is a number of seconds above 0, not 0"),
        (lambda state: state.value("v", "int", ttl_s=1).get("k", at=1.5), "a time is a datetime, or an int"),
        (lambda state: state.value("/states", "int"), "begins with a slash"),
        (
            lambda state: (state.value("v", "int"), state.list("v", "int")),
            "'v' is a value of int, and not a list of int",
        ),
        (lambda state: (state.value("v", "int"), state.table("v")), "'v' is a value of int, and no table"),
        (lambda state: (state.value("v", "int"), state.table("/states")), "begins with a slash"),
        (lambda state: (state.table("v"), state.value("v", "int")), "'v' is a table, and not a value of int"),
    ],
)
def test_a_mistake_says_what_is_wrong(write: Callable[[State], object], words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        write(State(DictTables()))


def test_other_code_does_not_read_a_state_of_another_type() -> None:
    tables = DictTables()
    state = State(tables)
    state.value("v", "int", ttl_s=5).put("k", np.int64(1), at=0)
    state.apply()
    assert State(tables).value("v", "int", ttl_s=9).get("k", at=8_000_000) == 1, "a longer time to live counts at once"
    with pytest.raises(
        InvalidRecord, match="'v' holds a value of int for 5 s, and the code asks for a value of string:"
    ):
        State(tables).value("v", "string")


def test_a_call_that_fails_leaves_nothing() -> None:
    tables = DictTables()
    state = State(tables)
    state.value("v", "int").put("k", 1)
    state.forget()
    assert not any(table.entries for table in tables.tables.values())
    state.value("v", "int").put("k", 2)
    state.apply()
    assert State(tables).value("v", "int").get("k") == 2
    assert tables.tables["/states"].entries


def test_a_list_keeps_its_newest_items_and_a_map_loses_what_is_removed() -> None:
    state = State(DictTables())
    state.list("l", "int", limit=3).extend("k", range(5))
    assert state.list("l", "int", limit=3).get("k") == [2, 3, 4]
    counts = state.map("m", "string", "int")
    counts.put_many("k", {"b": 1, "a": 2})
    counts.remove("k", "b")
    counts.remove("k", "c")
    assert (counts.items("k"), counts.get("k", "b", 0)) == ({"a": 2}, 0)
    counts.delete("k")
    assert counts.items("k") == {}


SECOND = 1_000_000
WRITES = st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.integers(0, 20))


@given(
    batches=st.lists(st.tuples(st.lists(WRITES, max_size=4), st.integers(0, 4), st.booleans()), max_size=8),
    ttl=st.integers(1, 6),
)
def test_entries_end_by_event_time_whatever_is_deleted_and_restored(
    batches: list[tuple[list[tuple[str, int, int]], int, bool]], ttl: int
) -> None:
    """Against a plain list of all writes, read at each write and at the end of each batch."""
    tables = DictTables()
    state, watermark, writes = State(tables), 0, list[tuple[str, int, int]]()
    for rows, rise, restored in batches:
        if restored:
            state = State(tables)
        state.begin(watermark * SECOND, watermark * SECOND)
        values, items = state.value("v", "int", ttl_s=ttl), state.list("l", "int", ttl_s=ttl)
        named = state.map("m", "int", "int", ttl_s=ttl)
        for key, value, time in rows:
            values.put(key, value, at=time * SECOND)
            items.append(key, value, at=time * SECOND)
            named.put(key, value, time, at=time * SECOND)
            writes.append((key, value, time))
            for one in "abc":
                assert values.get(one, at=time * SECOND) == _value(writes, one, time, ttl, watermark)
        state.apply()
        watermark += rise
        state.expire(watermark * SECOND)
        for one in "abc":
            state.begin(watermark * SECOND, watermark * SECOND)
            assert values.get(one) == _value(writes, one, watermark, ttl, watermark)
            living = [value for key, value, time in writes if key == one and time + ttl > watermark]
            assert sorted(items.get(one)) == sorted(living)
            assert set(named.items(one)) == set(living)
        stored = tables.tables["v"].entries
        assert len(stored) == sum(_value(writes, one, watermark, ttl, watermark) is not None for one in "abc")


def _value(writes: list[tuple[str, int, int]], key: str, at: int, ttl: int, watermark: int) -> int | None:
    """The value that is read at a time: the last write, for so long after the newest one."""
    own = [(written, time) for one, written, time in writes if one == key]
    newest = max((time for _, time in own), default=-ttl)
    return own[-1][0] if own and newest + ttl > max(at, watermark) else None
