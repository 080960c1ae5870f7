"""Calls of one lane run in order; a call that waits holds up no other lane."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from services.hosting.blocking import BlockingThreads
from tests.support.commands import until


@pytest.fixture
def blocking() -> Iterator[BlockingThreads]:
    blocking = BlockingThreads("test", limit=4)
    yield blocking
    blocking.close()


def test_a_call_that_waits_holds_up_its_own_lane_alone(blocking: BlockingThreads) -> None:
    """A trim waited three seconds for a leader, and every restore and takeover of the worker behind it."""
    free, done = threading.Event(), list[object]()
    blocking.run(lambda: free.wait(30), lambda _: done.append("first"), "a")
    blocking.run(lambda: None, lambda _: done.append("second"), "a")
    blocking.run(lambda: None, lambda _: done.append("other"), "b")
    until(lambda: blocking.poll() and done == ["other"], "the other lane has run")
    assert blocking.under_way
    free.set()
    until(lambda: (blocking.poll(), done == ["other", "first", "second"])[1], "the lane has run, in order")
    assert not blocking.under_way


def test_more_lanes_than_threads_all_have_their_turn(blocking: BlockingThreads) -> None:
    done = list[int]()
    for number in range(400):
        blocking.run(lambda: None, lambda _, n=number: done.append(n), f"lane {number % 40}")  # type: ignore[misc]
    until(lambda: (blocking.poll(), len(done) == 400)[1], "all calls have run")
    for lane in range(40):
        mine = [number for number in done if number % 40 == lane]
        assert mine == sorted(mine)


def test_an_exception_is_an_outcome(blocking: BlockingThreads) -> None:
    found = list[object]()
    blocking.run(lambda: 1 // 0, found.append)
    until(lambda: blocking.poll() and found, "the call has failed")
    assert isinstance(found[0], ZeroDivisionError)
