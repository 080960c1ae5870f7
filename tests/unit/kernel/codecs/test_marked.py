"""However the runs of several writers are mixed in the log, each row counts once, in order.

PROTOCOL 12 and docs/decisions/0015: the writers are drivers in real-time mode, zombies among them.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas.plans import SparkPlan
from holdfast.services.kernel.codecs.marked import AT, BEAT, ORIGIN, RAW, REACHED, STAMP, RowDecoder, RowReader, travels
from holdfast.services.kernel.errors import StateCorrupted

OUTPUT = {"x": "int", "f": "float", "at": "timestamp", "raw": "bytes?", "d": "decimal(10,2)?"}
RECORDS = 60


def row(origin: int, **more: Any) -> bytes:
    return json.dumps({ORIGIN: origin, BEAT: False, STAMP: 5_000, "c0": origin, **more}).encode()


class Log:
    """One lane. passing: offsets of records of which the query makes a row; every eighth gives a beat as well."""

    def __init__(self, passing: set[int]) -> None:
        self.passing = passing
        self.origins: list[int] = []
        self.values: list[bytes] = []

    def starts(self) -> int:
        """Where a new writer begins: behind the last row, which need not be the furthest."""
        return self.origins[-1] + 1 if self.origins else 0

    def run(self, start: int) -> list[tuple[int, bytes]]:
        """All that a writer which begins there writes, in its order."""
        found = []
        for origin in range(start, RECORDS):
            if origin in self.passing:
                found.append((origin, row(origin)))
            if origin % 8 == 0:
                found.append((origin, row(origin, **{BEAT: True, "c0": None})))
        return found

    def append(self, origin: int, value: bytes) -> None:
        self.origins.append(origin)
        self.values.append(value)


@given(
    st.sets(st.integers(0, RECORDS - 1)),
    st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.integers(1, 30)), max_size=40),
    st.integers(1, 20),
)
def test_rows_count_once_and_in_order_whoever_wrote_them(
    passing: set[int], steps: list[tuple[bool, int, int]], size: int
) -> None:
    log = Log(passing)
    writers = [log.run(0)]
    for begins, which, count in steps:
        if begins:
            writers.append(log.run(log.starts()))
        writer = writers[which % len(writers)]
        for origin, value in writer[:count]:
            log.append(origin, value)
        del writer[:count]
    for origin, value in log.run(log.starts()):
        log.append(origin, value)
    found = list[int]()
    reader, cut = RowReader(OUTPUT, 0), 0
    for start in range(0, len(log.values), size):
        some = range(start, min(start + size, len(log.values)))
        counting = reader.read(list(some), [log.values[at] for at in some])
        if counting.height:
            cut = counting.item(-1, AT) + 1
        found += counting.filter(~pl.col(BEAT)).get_column(ORIGIN).to_list()
        reader = RowReader(OUTPUT, cut)  # a copy that restarts behind its last cut
        rest = range(reader.position, some.stop)
        assert not reader.read(list(rest), [log.values[at] for at in rest]).height
    assert found == sorted(passing)


def test_a_mark_that_is_not_there_is_told() -> None:
    with pytest.raises(StateCorrupted, match="no row lies just before"):
        RowReader(OUTPUT, 5).read([6], [row(3)])


def test_values_come_back_as_they_were_and_what_is_no_row_is_a_dead_letter() -> None:
    plan = SparkPlan("h", "u", "in", {"x": "int"}, {0: 0}, OUTPUT, source="s")
    wanted = {"c1": "-Infinity", "c2": 1_795_272_051_226_001, "c3": "aGk=", "c4": "1.50", "_time": 7}
    broken = {RAW: base64.b64encode(b"nope").decode(), "c0": None}
    found = RowReader(OUTPUT, 0).read([0, 1], [row(0, **wanted), row(1, **broken)])
    decoder = RowDecoder(plan)
    (one,) = decoder.rows([found]).to_dicts()
    assert (one["x"], one["f"], one["raw"], str(one["d"]), one["_time"]) == (0, float("-inf"), b"hi", "1.50", 7)
    assert one["at"].isoformat() == "2026-11-21T14:40:51.226001+00:00"
    (letter,) = decoder.dead(3, found, batch=9)
    assert (letter.raw, letter.partition, letter.offset, letter.batch, letter.origin) == (b"nope", 2, 1, 9, "s")
    assert letter.reason


def test_rows_and_beats_say_how_far_a_partition_has_come() -> None:
    values = [row(0, **{REACHED: 5}), row(16, **{REACHED: 9, BEAT: True})]
    assert RowReader(OUTPUT, 0).read([0, 1], values).get_column(REACHED).to_list() == [5, 9]


@pytest.mark.parametrize(("text", "may"), [("decimal(10,2)?", True), ("list<int>", False), ("struct<a: int>", False)])
def test_lists_and_structs_do_not_travel(text: str, may: bool) -> None:
    assert travels(text) == may
