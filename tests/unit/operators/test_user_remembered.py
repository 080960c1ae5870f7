"""State of a Python operator is read without its code: by declarations where there are some, and timers by time."""

from __future__ import annotations

from datetime import UTC, datetime

from holdfast.schemas.cuts import NO_WATERMARK
from holdfast.services.kernel.operators.user_remembered import UserEntry, user_entries
from holdfast.services.kernel.operators.user_state import LAYOUTS, State
from holdfast.services.kernel.operators.user_timers import TABLE, Timers
from tests.support.tables import DictTables

AT = datetime(2026, 1, 1, 5, tzinfo=UTC)
NAMES = [LAYOUTS, TABLE, "delays", "last", "seen"]


def written() -> DictTables:
    tables = DictTables()
    state, timers = State(tables), Timers(tables)
    state.begin(0, NO_WATERMARK)
    for carrier, delay in (("AA", 1), ("UA", 2)):
        state.value("last", "timestamp", ttl_s=60).put(carrier, AT, at=AT)
        state.map("delays", "string", "int", ttl_s=60).put(carrier, "arrival", delay, at=AT)
        state.table("seen").put((carrier, 7), [delay, delay])
        timers.set(carrier, AT)
    timers.note(5)
    timers.set("AA", 2**62)
    state.apply()
    timers.apply()
    return tables


def test_typed_states_come_without_the_times_of_writes_and_timers_with_theirs() -> None:
    assert list(user_entries(written(), NAMES, ["AA"])) == [
        UserEntry(TABLE, "AA", "2026-01-01T05:00:00.000000Z"),
        UserEntry(TABLE, "AA", 2**62),
        UserEntry("delays", "AA", {"arrival": 1}),
        UserEntry("last", "AA", AT),
    ]


def test_all_entries_come_table_by_table_and_declarations_are_none() -> None:
    every = list(user_entries(written(), NAMES, None))
    assert [one.table for one in every] == [TABLE, TABLE, TABLE, "delays", "delays", "last", "last", "seen", "seen"]
    assert every[-1] == UserEntry("seen", ("UA", 7), [2, 2])
    assert list(user_entries(written(), NAMES, [("UA", 7)])) == [every[-1]]
