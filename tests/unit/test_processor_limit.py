"""Tests without Kafka and Spark are limited in processor time, not in the time of a clock that others share."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from tests.support.processor_limit import LIMIT_S, processor_limit

SHORT_S = 0.2
BUSY = f"import time\nwhile time.process_time() < {2 * SHORT_S}: pass"


def run_for_ever() -> None:
    while True:
        pass


def test_what_takes_more_of_a_processor_fails() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"over 0\.2 s of processor time"), processor_limit(SHORT_S):
        run_for_ever()


def test_what_waits_for_others_does_not_fail() -> None:
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
