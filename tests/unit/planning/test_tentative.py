"""Decision 0170: which queries have tentative rows; `check` says of the others why they run as final."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.schemas.decided import Id
from holdfast.schemas.plans import Plan
from holdfast.services.planning.loading import load
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


@pytest.mark.parametrize(
    ("why", "changed"),
    [
        ("come once", {"window": {"window": None}}),
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
