"""The state of every kind of operator can be read, as of the newest checkpoint of each task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast import Job
from holdfast.schemas.operator_settings import NO_PYTHON
from holdfast.schemas.topics import ClusterTopics
from holdfast.services.client.stored_state import Asked, Entry, read_state
from holdfast.services.kernel.errors import CommandFailed
from holdfast.services.kernel.operators.catalogue import OPERATORS
from holdfast.services.view.door import Door, Whereabouts
from holdfast.testing import JobRun

FLIGHTS = {"carrier": "string", "number": "int", "delay": "int", "at": "timestamp"}
PLANES = {"carrier": "string", "number": "int", "model": "string", "at": "timestamp"}
JOB: dict[str, Any] = {
    "name": "flights",
    "sources": {
        "flights": {"topic": "flights", "fields": FLIGHTS, "event_time": "at"},
        "planes": {"topic": "planes", "fields": PLANES, "event_time": "at"},
        "names": {"topic": "names", "fields": {"carrier": "string", "name": "string"}, "table": ["carrier"]},
    },
    "operators": {
        "late": {"filter": "delay > 0", "input": "flights"},
        "totals": {
            "aggregate": {"n": "count()", "mean": "sum(delay) / count()"},
            "key": ["carrier", "number"],
            "input": "flights",
            "parallelism": 2,
        },
        "all": {"aggregate": {"n": "count()"}, "input": "flights"},
        "hourly": {
            "aggregate": {"n": "count()"}, "key": ["carrier"], "input": "flights", "window": {"size_s": 3600},
        },
        "visits": {"aggregate": {"n": "count()"}, "key": ["carrier"], "input": "flights", "window": {"gap_s": 60}},
        "once": {"dedup": {"within_s": 3600}, "key": ["carrier"], "input": "flights"},
        "best": {"top": {"k": 1, "by": "delay"}, "key": ["carrier"], "input": "flights"},
        "named": {"join": {"left": "flights", "right": "names", "on": ["carrier"]}},
        "live": {"join": {"left": "totals", "right": "names", "on": ["carrier"], "emit": "updates"}},
        "paired": {"join": {"left": "flights", "right": "planes", "on": ["carrier", "number"], "within_s": 600,
                            "kind": "left"}},
        "newest": {"asof_join": {"left": "flights", "right": "planes", "on": ["carrier", "number"]}},
    },
    "queries": {
        name: {"input": name, "sink": {"topic": f"{name}-rows"}}
        for name in ("late", "all", "hourly", "visits", "once", "best", "named", "live", "paired", "newest")
    },
}  # fmt: skip


class Read:
    """A job that has run, and questions to its state."""

    def __init__(self, run: JobRun) -> None:
        self.run = run
        log = run._cluster.log
        self.door = Door(log, ClusterTopics("local"), log.topics(), Whereabouts(Path(), "memory", "local", True))

    def entries(self, operator: str, **asked: str) -> list[Entry]:
        return read_state(self.door, self.run._plan, operator, Asked(**asked), 100).entries

    def rows(self, operator: str, table: str, **asked: str) -> list[tuple[Any, Any]]:
        found = [one for one in self.entries(operator, **asked) if one.table == table]
        assert all(one.batch for one in found)
        return sorted(((one.key, one.value) for one in found), key=str)


@pytest.fixture(scope="module")
def read() -> Read:
    run = JobRun(Job.model_validate(JOB))
    run.feed("names", [{"carrier": "UA", "name": "United"}, {"carrier": "AA", "name": "American"}])
    run.feed("planes", [{"carrier": "UA", "number": 1, "model": "B737", "at": "2026-01-01T00:01:00Z"}])
    run.feed(
        "flights",
        [
            {"carrier": "UA", "number": 1, "delay": 5, "at": "2026-01-01T00:00:00Z"},
            {"carrier": "UA", "number": 1, "delay": 7, "at": "2026-01-01T00:02:00Z"},
            {"carrier": "AA", "number": 2, "delay": 9, "at": "2026-01-01T00:02:30Z"},
        ],
    )
    run.feed("planes", [{"carrier": "UA", "number": 2, "model": "A320", "at": "2026-01-01T00:02:30Z"}])
    run.advance(3)
    return Read(run)


def test_running_totals_are_those_that_the_job_puts_out(read: Read) -> None:
    assert read.rows("totals", "totals") == [
        ({"carrier": "AA", "number": 2}, {"n": 1, "mean": 9.0}),
        ({"carrier": "UA", "number": 1}, {"n": 2, "mean": 6.0}),
    ]
    assert read.rows("all", "totals") == [({}, {"n": 3})]


def test_open_windows_and_sessions_are_shown_with_their_bounds_so_far(read: Read) -> None:
    def bounds(start: str, end: str) -> dict[str, str]:
        return {"window_start": f"2026-01-01T{start}.000000Z", "window_end": f"2026-01-01T{end}.000000Z"}

    assert read.rows("hourly", "windows") == [
        ({"carrier": "AA", **bounds("00:00:00", "01:00:00")}, {"n": 1}),
        ({"carrier": "UA", **bounds("00:00:00", "01:00:00")}, {"n": 2}),
    ]
    assert read.rows("visits", "sessions") == [
        ({"carrier": "AA", **bounds("00:02:30", "00:03:30")}, {"n": 1}),
        ({"carrier": "UA", **bounds("00:02:00", "00:03:00")}, {"n": 1}),
    ]
    assert [one for one, _ in read.rows("hourly", "windows", key="AA")] == [
        {"carrier": "AA", **bounds("00:00:00", "01:00:00")}
    ]


def test_a_dedup_shows_rows_that_were_passed_on_and_rows_that_wait(read: Read) -> None:
    assert read.rows("once", "passed") == [({"carrier": "UA"}, {"_time": "2026-01-01T00:00:00.000000Z"})]
    waiting = read.rows("once", "waiting", key="AA")
    assert waiting == [
        ({"carrier": "AA"}, {"number": 2, "delay": 9, "at": "2026-01-01T00:02:30.000000Z",
                             "_time": "2026-01-01T00:02:30.000000Z"}),
    ]  # fmt: skip


def test_rows_that_are_ranked_are_shown_with_their_ranks(read: Read) -> None:
    assert [(key["rank"], value["delay"]) for key, value in read.rows("best", "rows", key="UA")] == [(1, 7)]
    assert len(read.rows("best", "rows")) == 2


def test_rows_that_a_pace_holds_are_shown_by_key() -> None:
    paced = {
        **JOB,
        "operators": {"totals": JOB["operators"]["totals"], "seldom": {"pace": {"every_s": 3600}, "input": "totals"}},
        "queries": {"seldom": {"input": "seldom", "sink": {"topic": "seldom"}}},
    }
    run = JobRun(Job.model_validate({**paced, "sources": {"flights": JOB["sources"]["flights"]}}))
    for second in range(3):
        run.feed("flights", [{"carrier": "UA", "number": 1, "delay": 5, "at": f"2026-01-01T00:00:0{second}Z"}])
        run.advance(1)
    ((key, value),) = Read(run).rows("seldom", "rows")
    assert (key, value["n"]) == ({"carrier": "UA", "number": 1}, 3)


def test_both_sides_of_joins_are_shown(read: Read) -> None:
    assert read.rows("named", "table") == [
        ({"carrier": "AA"}, {"name": "American"}),
        ({"carrier": "UA"}, {"name": "United"}),
    ]
    left = read.rows("paired", "left", key='["UA", 1]')
    assert [(value["delay"], value["_matched"]) for _, value in left] == [(5, True), (7, True)]
    assert [value["model"] for _, value in read.rows("paired", "right")] == ["B737", "A320"]
    assert read.rows("newest", "right", prefix='["UA", 2]') == [
        ({"carrier": "UA", "number": 2, "_time": "2026-01-01T00:02:30.000000Z"},
         {"model": "A320", "at": "2026-01-01T00:02:30.000000Z"}),
    ]  # fmt: skip
    assert read.rows("newest", "left", key='["AA", 2]')[0][1]["delay"] == 9
    assert read.rows("live", "left", key="AA") == [({"carrier": "AA", "number": 2}, {"n": 1, "mean": 9.0})]
    assert read.rows("live", "right", prefix="U") == [({"carrier": "UA"}, {"name": "United"})]


def test_every_kind_of_operator_that_keeps_state_is_in_this_test() -> None:
    stateful = {name for name, kind in OPERATORS.items() if name != "spark" and kind.stateful(NO_PYTHON)}
    assert stateful == {"aggregate", "dedup", "top", "join", "asof_join", "pace", "python"}  # python: tests/unit/cli


def test_a_key_is_read_from_the_task_that_has_it_and_prefixes_go_part_by_part(read: Read) -> None:
    every = read.entries("totals")
    for key in ('["AA", 2]', '["UA", "1"]'):
        (one,) = read.entries("totals", key=key)
        assert one in every
    assert [one.key["carrier"] for one in read.entries("totals", prefix="U")] == ["UA"]
    assert [one.key["carrier"] for one in read.entries("totals", prefix='["UA", 1]')] == ["UA"]
    assert read.entries("totals", prefix='["U", 1]') == read.entries("totals", key='["UA", 2]') == []
    assert read.entries("totals", table="windows") == []


def test_an_answer_is_bounded_and_says_that_there_is_more(read: Read) -> None:
    found = read_state(read.door, read.run._plan, "totals", Asked(), 1)
    assert (len(found.entries), found.more) == (1, True)
    assert not read_state(read.door, read.run._plan, "totals", Asked(), 2).more


@pytest.mark.parametrize(
    ("operator", "asked", "said"),
    [
        ("totls", {}, "no operator 'totls' (did you mean 'totals'?)"),
        ("late", {}, "'late' (filter) keeps no state"),
        ("totals", {"key": "UA"}, "the key is carrier, number, and 'UA' has 1 of 2 parts"),
        ("totals", {"key": '["UA", "x"]'}, "number: expected int, found"),
        ("all", {"key": "UA"}, "the operator has no key"),
        ("totals", {"key": '["UA", 1]', "prefix": "U"}, "a KEY and a prefix were given"),
    ],
)
def test_a_question_without_an_answer_names_its_cause(
    read: Read, operator: str, asked: dict[str, str], said: str
) -> None:
    with pytest.raises(CommandFailed) as raised:
        read.entries(operator, **asked)
    assert said in f"{raised.value.message} ({raised.value.hint})"
