"""Decision 0170: which queries have tentative rows; `check` says of the others why they run as final."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.schemas.decided import Id
from holdfast.schemas.plans import Plan
from holdfast.services.planning.loader import load
from holdfast.services.planning.plan import make_plan
from tests.unit.planning.jobs import GENERATION, job, plan, query, source

WINDOWS = {"aggregate": {"n": "count()"}, "key": ["k"], "window": {"size_s": 1}, "input": "s", "parallelism": 2}


def made(window: dict[str, Any] | None = None, sink: dict[str, Any] | None = None, **more: Any) -> Plan:
    asked = query("o", results="tentative")
    return plan(
        job({"o": WINDOWS | (window or {})}, {"s": source()}, {"q": asked | ({"sink": sink} if sink else {})}, **more)
    )


def test_windows_that_come_once_have_tentative_rows() -> None:
    assert made().warnings == ()
    (sink,) = (one for one in made().operators if one.kind == "sink")
    assert sink.params["tentative"] is True


def test_sessions_have_tentative_rows() -> None:
    """Described by the operators themselves: the rows of a session come once, though not all of a time in one batch."""
    text = """
name: visits
sources: {s: {topic: clicks, fields: {t: timestamp, page: string}, event_time: t, unit: ms, parallelism: 2}}
operators: {visits: {aggregate: {n: "count()"}, key: [page], window: {gap_s: 1}, input: s, parallelism: 2}}
queries: {all: {input: visits, results: tentative}}
"""
    made = make_plan(
        load(text, "job.yaml"),
        generation=GENERATION,
        id=Id("c", 1),
        topics=None,
        first={},
        prefix="h",
        versions={},
        allow=(),
    )
    assert [one for one in made.warnings if "tentative" in one] == []


TOTALS = {"aggregate": {"n": "count()"}, "key": ["k"], "parallelism": 2}
SOME = {"filter": "k = 'a'", "input": "s"}


def totals(**operators: dict[str, Any]) -> Plan:
    """The query reads the last one."""
    return plan(job(operators, {"s": source()}, {"q": query(list(operators)[-1], results="tentative")}))


def test_running_totals_of_rows_that_are_taken_one_by_one_are_given_tentatively_and_never_taken_back() -> None:
    both = {"union": ["s", "some"]}
    renamed = {"select": ["k", "n * 2 AS twice"], "input": "o"}
    for found in (
        totals(o=TOTALS | {"input": "s"}),
        totals(some=SOME, both=both, o=TOTALS | {"input": "both"}, renamed=renamed),
    ):
        assert not [one for one in found.warnings if "tentative" in one]
        (sink,) = (one for one in found.operators if one.kind == "sink")
        assert (sink.params["tentative"], sink.params["updates"]) == (True, True)
    (sink,) = (one for one in made().operators if one.kind == "sink")
    assert "updates" not in sink.params, "rows of windows are taken back where the final result has none"


@pytest.mark.parametrize(
    "operators",
    [
        {"o": TOTALS | {"input": "s"}, "last": {"filter": "n > 2", "input": "o"}},
        {"o": TOTALS | {"input": "s"}, "last": TOTALS | {"input": "o"}},
        {"o": {"dedup": {"within_s": 1}, "key": ["k"], "input": "s"}, "last": TOTALS | {"input": "o"}},
        {"o": WINDOWS | {"emit": "final"}, "last": {"aggregate": {"m": "sum(n)"}, "key": ["k"], "input": "o"}},
    ],
)
def test_totals_of_which_a_whole_batch_may_lack_a_key_run_as_final(operators: dict[str, Any]) -> None:
    found = totals(**operators)
    assert ["come once" in one for one in found.warnings if one.startswith("queries.q.results: there are no")] == [True]


@pytest.mark.parametrize(
    ("why", "changed"),
    [
        ("come once", {"window": {"window": None, "emit": "each"}}),
        ("come once", {"window": {"window": None, "emit": "updates", "forget_after_s": 9}}),
        ("format arrow has no key", {"sink": {"topic": "out", "format": "arrow"}}),
        ("'k', does not identify a row", {"sink": {"topic": "out", "key": "k"}}),
        ("retain_bytes holds the sources back", {"retain_bytes": 1024 * 1024}),
        ("precision gap skips", {"fault_tolerance": {"precision": "gap"}}),
        ("one unit with its source", {"window": {"parallelism": 1}}),
    ],
)
def test_others_run_as_final_and_check_says_why(why: str, changed: dict[str, Any]) -> None:
    found = made(**changed)
    assert [why in one for one in found.warnings if one.startswith("queries.q.results: there are no")] == [True]
    assert not any("tentative" in one.params for one in found.operators)
