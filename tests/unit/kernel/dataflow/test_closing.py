"""To where a watermark must go so that no operator holds anything."""

from __future__ import annotations

import pytest

from holdfast.schemas.cuts import NO_WATERMARK
from holdfast.services.kernel.dataflow.last_watermark import closing_us
from tests.support.memory_cluster import MemoryCluster

S = 1_000_000
JOB = """
name: j
sources:
  a: {topic: t, fields: {src: int, id: int, at: timestamp}, event_time: at, unit: ms}
  b: {topic: u, fields: {src: int, at: timestamp}, event_time: at, unit: ms}
operators:
  %s
queries: {q: {input: last, sink: {topic: out}}}
"""
RUNNING = """last: {aggregate: {n: "count()"}, key: [src], input: a}"""
WINDOW = """last: {aggregate: {n: "count()"}, key: [src], input: a, window: {size_s: 60, slide_s: 20}}"""
WINDOWS = """first: {aggregate: {n: "count()"}, key: [src], input: a, window: {size_s: 60, slide_s: 20}}
  last: {aggregate: {m: "count()"}, key: [src], input: first, window: {size_s: 100}}"""
JOIN = """last: {join: {left: a, right: b, "on": [src], within_s: 5, kind: left}}"""
BEHIND = """first: {join: {left: a, right: b, "on": [src], within_s: 5, kind: left}}
  last: {aggregate: {n: "count()"}, key: [src], input: first, window: {size_s: 60}}"""
PYTHON = """last: {python: "tests.golden.sessions:Gaps", key: [src], input: a}"""


@pytest.mark.parametrize(
    ("operators", "expected"),
    [
        (RUNNING, NO_WATERMARK),
        (WINDOW, 120 * S),  # the last window of a row at 70 s ends there
        (WINDOWS, 200 * S),
        (JOIN, 75 * S + 1),
        (BEHIND, 125 * S),
        (PYTHON, 70 * S + 1),
    ],
)
def test_closing_goes_as_far_as_the_last_operator_needs(operators: str, expected: int) -> None:
    plan = MemoryCluster(JOB % operators).plan
    assert closing_us(plan.operators, 70 * S) == expected
