"""What a process was at is read by its parent, once it is gone."""

from __future__ import annotations

import threading

import pytest

from holdfast.schemas.heartbeats import LINE, At
from holdfast.services.hosting.traces import BYTES, SLOT_BYTES, SLOTS, Traces, read

UNIT = "j@1-abcdef/u-0"


@pytest.fixture
def memory() -> memoryview:
    return memoryview(bytearray(BYTES))


def test_the_batch_at_hand_is_there_and_gone_when_it_is_done(memory: memoryview) -> None:
    traces = Traces(memory)
    with traces.runs(UNIT, 7):
        assert read(memory) == (At(UNIT, 7),)
        traces.runs(UNIT, 8)
        assert read(memory) == (At(UNIT, 8),)
    assert read(memory) == ()
    with pytest.raises(ZeroDivisionError), traces.runs(UNIT, 9):
        _ = 1 // 0
    assert read(memory) == (), "what Python raises ends no process"


def test_work_while_others_are_out_is_told_from_a_batch(memory: memoryview) -> None:
    traces = Traces(memory)
    with traces.runs(UNIT, 7):
        traces.runs(UNIT, 0, LINE)
        assert read(memory) == (At(UNIT, 0, LINE),)
        traces.runs(UNIT, 7)
        assert read(memory) == (At(UNIT, 7),)


def test_calls_beside_the_loop_have_slots_of_their_own(memory: memoryview) -> None:
    traces, free = Traces(memory), threading.Event()
    began = threading.Barrier(SLOTS + 3)

    def call() -> None:
        began.wait(300)
        free.wait(300)

    calls = [traces.beside(f"j@1-abcdef/u-{number}", "loading", call) for number in range(SLOTS + 2)]
    threads = [threading.Thread(target=one) for one in calls]
    for thread in threads:
        thread.start()
    began.wait(300)
    with traces.runs(UNIT, 3):
        found = read(memory)
    assert found[0] == At(UNIT, 3)
    assert len(found) == SLOTS, "what finds no slot leaves no trace"
    assert {(one.batch, one.what) for one in found[1:]} == {(0, "loading")}
    free.set()
    for thread in threads:
        thread.join(300)
    assert read(memory) == ()
    assert traces.beside(UNIT, "loading", lambda: "loaded")() == "loaded"


def test_a_trace_that_is_too_long_or_torn_blames_nobody(memory: memoryview) -> None:
    traces = Traces(memory)
    with traces.runs("x" * SLOT_BYTES, 1):
        assert read(memory) == ()
    memory[:6] = b"j@1/u\0"
    assert read(memory) == ()


def test_without_a_parent_nothing_is_left() -> None:
    traces = Traces()
    with traces.runs(UNIT, 1):
        pass
    assert traces.beside(UNIT, "loading", lambda: 5)() == 5
