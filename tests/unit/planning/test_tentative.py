"""Decision 0170: which queries have tentative rows; `check` says of the others why they run as final."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.schemas.plans import Plan
from tests.unit.planning.jobs import job, plan, query, source

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
