"""Whether time alone can still bring anything out of a job."""

from __future__ import annotations

import math

import pytest

from schemas.checkpoints import TaskCuts
from schemas.cuts import LOADED_WATERMARK, NO_WATERMARK, Range
from services.worker.core.settled import horizon_us, settled
from tests.support.memory_cluster import MemoryCluster

S = 1_000_000
JOB = """
name: j
sources:
  a: {topic: t, fields: {src: int, id: int, at: timestamp}, event_time: at, unit: ms, idle_after_s: %s}
  b: {topic: u, fields: {src: int, at: timestamp}, event_time: at, unit: ms, idle_after_s: null}
operators:
  %s
queries: {q: {input: last, sink: {topic: out}}}
"""
RUNNING = """last: {aggregate: {n: "count()"}, key: [src], input: a}"""
WINDOWS = """first: {aggregate: {n: "count()"}, key: [src], input: a, window: {size_s: 60, slide_s: 20}}
  last: {aggregate: {m: "count()"}, key: [src], input: first, window: {size_s: 10}}"""
JOIN = """last: {join: {left: a, right: b, "on": [src], within_s: 5, kind: left}}"""
PYTHON = """last: {python: "tests.golden.sessions:Gaps", key: [src], input: a}"""


@pytest.mark.parametrize(
    ("idle_after_s", "operators", "expected"),
    [
        ("30", RUNNING, 0),
        ("30", WINDOWS, 70 * S),
        ("30", JOIN, 5 * S),
        ("30", PYTHON, math.inf),
        ("null", WINDOWS, 0),
        ("null", PYTHON, 0),
    ],
)
def test_how_far_the_watermark_must_have_come(idle_after_s: str, operators: str, expected: float) -> None:
    assert horizon_us(MemoryCluster(JOB % (idle_after_s, operators)).plan) == expected


def cuts(watermark: int, *newest: int | None) -> TaskCuts:
    ranges = tuple(Range(p, 0, 9, time) for p, time in enumerate(newest))
    return TaskCuts(None, 1, ranges, watermark, idle=False, final=False)


@pytest.mark.parametrize(
    ("tasks", "horizon", "expected"),
    [
        ([cuts(159, 90, 100)], 60, False),
        ([cuts(161, 90, 100)], 60, True),
        ([cuts(200, 90), cuts(161, 100)], 60, True),
        ([cuts(200, 90), cuts(155, 100)], 60, False),
        ([cuts(200, 90), cuts(NO_WATERMARK, None)], 60, False),
        ([cuts(NO_WATERMARK, None)], 60, True),
        ([cuts(161, 100), cuts(LOADED_WATERMARK, 7)], 60, True),
        ([cuts(0, 100)], 0, True),
        ([cuts(10**15, 100)], math.inf, False),
    ],
)
def test_settled_is_what_is_past_everything_that_was_cut(tasks: list[TaskCuts], horizon: float, expected: bool) -> None:
    assert settled(tasks, horizon) is expected
