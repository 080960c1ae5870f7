"""Tests without Kafka and Spark are limited in processor time, not in the time of a clock that others share."""

from __future__ import annotations

import ast
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processor_limit import LIMIT_S, processor_limit

TESTS = Path(__file__).parents[1]
SHORT_S = 0.2
BUSY = f"import time\nwhile time.process_time() < {2 * SHORT_S}: pass"


def run_for_ever() -> None:
    while True:
        pass


def test_a_test_that_takes_more_of_a_processor_fails() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"over 0\.2 s of processor time"), processor_limit(SHORT_S):
        run_for_ever()


def test_a_test_that_waits_for_others_does_not_fail() -> None:
    began = time.monotonic()
    with processor_limit(SHORT_S):
        subprocess.run([sys.executable, "-c", BUSY], check=True)
    assert time.monotonic() - began > SHORT_S, "the limit would have been over by a clock"


def test_the_former_limit_is_back_after_it() -> None:
    before = signal.getsignal(signal.SIGPROF)
    with processor_limit(SHORT_S):
        assert signal.getsignal(signal.SIGPROF) is not before
    assert signal.getsignal(signal.SIGPROF) is before


def test_a_test_without_a_cluster_has_this_limit_and_no_other(request: pytest.FixtureRequest) -> None:
    left_s, _ = signal.getitimer(signal.ITIMER_PROF)
    assert 0 < left_s <= LIMIT_S + 1, "the kernel rounds"
    mark = request.node.get_closest_marker("timeout")
    assert mark is not None
    assert mark.args == (0,), "pytest-timeout looks at a clock"


IN_MEMORY = ("unit", "scenario", "golden", "simulation", "records")
NAMES = re.compile(r"(DEADLINE|TIMEOUT)_S$")
WAITS = re.compile(r"_S = |timeout=")
"""Only a file with one of these is parsed: to parse them all takes a second."""
SOON_S = 1.0
"""A wait for what must not come: a machine that is slow makes such a test weaker, and none fail."""


def waits(tree: ast.Module) -> Iterator[tuple[int, float]]:
    """Seconds of a clock for which a test waits, and in which line: those of a constant, and those of a time-out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and NAMES.search(node.targets[0].id):
            given: ast.expr | None = node.value
        elif isinstance(node, ast.keyword) and node.arg == "timeout":
            given = node.value
        else:
            continue
        if isinstance(given, ast.Constant) and isinstance(given.value, int | float):
            yield given.lineno, given.value


def test_a_test_that_waits_for_a_thread_or_a_process_waits_until_it_hangs() -> None:
    found = [
        f"{path.relative_to(TESTS)}:{line}: {seconds:g} s of a clock; HANG_S of tests/support/deadlines.py is for this"
        for folder in IN_MEMORY
        for path in sorted((TESTS / folder).rglob("*.py"))
        if WAITS.search(text := path.read_text(encoding="utf-8"))
        for line, seconds in waits(ast.parse(text))
        if SOON_S < seconds < LIMIT_S
    ]
    assert not found, "\n".join(found)
