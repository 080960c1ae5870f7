"""Calls of one lane run in order; a call that waits holds up no other lane."""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections.abc import Iterator

import pytest

from holdfast.services.hosting.blocking_calls import MOST_HUNG, BlockingThreads, further
from holdfast.services.kernel.errors import Retriable, WorkerUnfit
from tests.support.commands import until


@pytest.fixture
def blocking() -> Iterator[BlockingThreads]:
    blocking = BlockingThreads("test", limit=4)
    yield blocking
    blocking.close()


def test_a_call_that_waits_holds_up_its_own_lane_alone(blocking: BlockingThreads) -> None:
    """A trim waited three seconds for a leader, and every restore and takeover of the worker behind it."""
    free, done = threading.Event(), list[object]()
    blocking.run(lambda: free.wait(300), lambda _: done.append("first"), "a")
    blocking.run(lambda: None, lambda _: done.append("second"), "a")
    blocking.run(lambda: None, lambda _: done.append("other"), "b")
    until(lambda: blocking.poll() and done == ["other"], "the other lane has run")
    assert blocking.look_ms() < math.inf
    free.set()
    until(lambda: (blocking.poll(), done == ["other", "first", "second"])[1], "the lane has run, in order")
    assert blocking.look_ms() == math.inf


def test_looks_are_further_apart_the_longer_a_call_takes(
    blocking: BlockingThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They came each 2 ms, 500 turns of the loop a second while a transaction or a restore was under way."""
    now_s = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    free = threading.Event()
    blocking.run(lambda: free.wait(300), lambda _: None, "trim", soon=False)
    assert blocking.look_ms() == math.inf, "nothing waits for it"
    blocking.run(lambda: free.wait(300), lambda _: None, "a")
    looks = []
    for passed_s in (0.0, 0.008, 0.08, 3.0):
        now_s += passed_s
        looks.append(round(blocking.look_ms(), 3))
    assert looks == [2.0, 2.0, 11.0, 20.0]
    free.set()
    monkeypatch.undo()
    until(lambda: (blocking.poll(), blocking.look_ms() == math.inf)[1], "nothing is under way")


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


def test_a_thread_that_has_nothing_to_do_holds_no_outcome(blocking: BlockingThreads) -> None:
    """A producer is in the traceback of the error that it has ended with, and has threads of its own."""
    found = list[weakref.ref[Exception]]()

    def fail() -> None:
        raise Retriable("once")

    blocking.run(fail, lambda outcome: found.append(weakref.ref(outcome)))
    until(lambda: blocking.poll() or found, "the call has failed")
    until(lambda: found[0]() is None, "the error is gone")


@pytest.fixture
def hasty() -> Iterator[BlockingThreads]:
    blocking = BlockingThreads("test", limit=1, patience_s=0.3)
    yield blocking
    blocking.close()


def test_a_call_that_hangs_is_given_up_and_what_waits_behind_it_runs(hasty: BlockingThreads) -> None:
    free, done, causes = threading.Event(), list[object](), list[str]()
    hasty.gave_up = causes.append
    hasty.run(lambda: free.wait(300), done.append, "a")
    hasty.run(lambda: "behind", done.append, "a")
    hasty.run(lambda: "beside", done.append, "b")
    until(lambda: (hasty.poll(), len(done) == 3)[1], "the call is given up, the others run")
    assert isinstance(done[0], Retriable)
    assert set(done[1:]) == {"behind", "beside"}
    assert causes == ["test: a call of a came no further for 0.3 s, and is given up"]
    free.set()
    hasty.run(lambda: "later", done.append, "a")
    until(lambda: (hasty.poll(), hasty.look_ms() == math.inf)[1], "the next one runs, and what came late is nobody's")
    assert done[3:] == ["later"]


def test_a_call_that_comes_further_does_not_hang() -> None:
    blocking = BlockingThreads("test", limit=1, patience_s=300.0)
    step, came = threading.Semaphore(0), threading.Semaphore(0)
    done = list[object]()

    def restores() -> str:
        for _ in range(3):
            step.acquire()
            further()
            came.release()
        return "restored"

    blocking.run(restores, done.append)
    until(lambda: blocking._lanes[""][0].further_s < math.inf, "the call has begun")
    for _ in range(3):
        blocking._lanes[""][0].further_s -= 200  # so much time passes
        blocking.poll()
        assert not done
        step.release()
        came.acquire()
    until(lambda: blocking.poll() and done, "the call is over")
    assert done == ["restored"]
    blocking.close()


def test_a_process_with_too_many_calls_that_hang_is_unfit() -> None:
    free, hasty = threading.Event(), BlockingThreads("test", limit=1, patience_s=0.02)
    for number in range(MOST_HUNG):
        hasty.run(lambda: free.wait(300), lambda _: None, f"lane {number}")
    with pytest.raises(WorkerUnfit, match="calls of test hang"):
        until(lambda: (hasty.poll(), False)[1], "too many calls hang")
    free.set()
    hasty.close()


def test_while_nobody_looks_no_call_hangs(hasty: BlockingThreads) -> None:
    """The process was stopped, or its loop held up: the call may have been answered meanwhile."""
    free, done = threading.Event(), list[object]()
    hasty.run(lambda: free.wait(300), done.append)
    until(lambda: hasty._lanes[""][0].further_s < math.inf, "the call has begun")
    hasty._looked_s -= 100
    hasty._lanes[""][0].further_s -= 100
    hasty.poll()
    assert not done
    free.set()
    until(lambda: hasty.poll() and done == [True], "the call is answered")
