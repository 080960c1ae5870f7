"""One run at a time; the ack only after the marker was read back."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from services.worker.core.checkpointing import (
    Abandoned,
    Action,
    Checkpointing,
    Due,
    Encoded,
    Flushed,
    MarkerRead,
    Phase,
    Settled,
    Since,
    sweep_due,
    sweep_wait_ms,
)


def test_a_run_captures_encodes_flushes_proposes_acks_and_settles() -> None:
    core = Checkpointing()
    assert core.handle(Due(5)) == (Action.CAPTURE,)
    assert core.handle(Encoded()) == ()
    assert core.handle(Flushed(5)) == (Action.PROPOSE,)
    assert core.handle(MarkerRead(valid=True)) == (Action.ACK, Action.SETTLE)
    assert core.handle(Settled()) == ()
    assert core.phase is Phase.RESTING


def test_no_marker_before_everything_up_to_its_batch_is_acknowledged() -> None:
    core = Checkpointing()
    core.handle(Due(5))
    core.handle(Encoded())
    assert core.handle(Flushed(4)) == ()
    assert core.phase is Phase.FLUSHING


def test_an_invalid_marker_makes_what_it_held_dirty_again() -> None:
    core = Checkpointing()
    for event in (Due(5), Encoded(), Flushed(9)):
        core.handle(event)
    assert core.handle(MarkerRead(valid=False)) == (Action.THAW,)
    assert core.phase is Phase.RESTING


def test_a_second_checkpoint_waits_for_the_first() -> None:
    core = Checkpointing()
    core.handle(Due(5))
    assert core.handle(Due(6)) == ()
    assert core.batch == 5


def test_a_marker_out_of_turn_changes_nothing() -> None:
    core = Checkpointing()
    assert core.handle(MarkerRead(valid=True)) == ()
    core.handle(Due(1))
    assert core.handle(Abandoned()) == (Action.THAW,)
    assert core.phase is Phase.RESTING


def since(
    batches: int = 3,
    elapsed_ms: float = 600,
    trimmed: bool = False,
    sinkmost: bool = False,
    ended: bool = False,
    still: bool = False,
) -> Since:
    return Since(batches, elapsed_ms, trimmed, sinkmost, ended, still)


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (since(sinkmost=True), True),
        (since(sinkmost=True, elapsed_ms=400), False),
        (since(trimmed=True), True),
        (since(), False),
        (since(elapsed_ms=2000), True),
        (since(batches=0, elapsed_ms=9999, sinkmost=True, ended=True), False),
        (since(elapsed_ms=1, ended=True), True),
        (since(sinkmost=True, trimmed=True, elapsed_ms=7999, still=True), False),
        (since(elapsed_ms=8000, still=True), True),
        (since(elapsed_ms=1, still=True, ended=True), True),
    ],
)
def test_the_sweep_begins_at_the_sinks_and_follows_the_trims(moment: Since, expected: bool) -> None:
    assert sweep_due(moment, interval_ms=500) is expected


@pytest.mark.parametrize(
    "moment", [since(), since(sinkmost=True, elapsed_ms=400), since(elapsed_ms=1, ended=True), since(batches=0)]
)
def test_a_sweep_that_is_waited_for_is_due_then_and_not_before(moment: Since) -> None:
    wait_ms = sweep_wait_ms(moment, interval_ms=500)
    if wait_ms == math.inf:
        assert not sweep_due(replace(moment, elapsed_ms=1e9), interval_ms=500)
        return
    assert sweep_due(replace(moment, elapsed_ms=moment.elapsed_ms + wait_ms), interval_ms=500)
    assert wait_ms == 0 or not sweep_due(replace(moment, elapsed_ms=moment.elapsed_ms + wait_ms - 1), interval_ms=500)
