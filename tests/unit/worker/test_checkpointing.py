"""One run at a time; the ack only after the marker was read back."""

from __future__ import annotations

from holdfast.services.worker.core.checkpoint_run import (
    Abandoned,
    Action,
    CheckpointRun,
    Due,
    Encoded,
    Flushed,
    MarkerRead,
    Phase,
    Settled,
)


def test_a_run_captures_encodes_flushes_proposes_acks_and_settles() -> None:
    core = CheckpointRun()
    assert core.handle(Due(5)) == (Action.CAPTURE,)
    assert core.handle(Encoded()) == ()
    assert core.handle(Flushed(5)) == (Action.PROPOSE,)
    assert core.handle(MarkerRead(valid=True)) == (Action.ACK, Action.SETTLE)
    assert core.handle(Settled()) == ()
    assert core.phase is Phase.RESTING


def test_no_marker_before_everything_up_to_its_batch_is_acknowledged() -> None:
    core = CheckpointRun()
    core.handle(Due(5))
    core.handle(Encoded())
    assert core.handle(Flushed(4)) == ()
    assert core.phase is Phase.FLUSHING


def test_an_invalid_marker_makes_what_it_held_dirty_again() -> None:
    core = CheckpointRun()
    for event in (Due(5), Encoded(), Flushed(9)):
        core.handle(event)
    assert core.handle(MarkerRead(valid=False)) == (Action.THAW,)
    assert core.phase is Phase.RESTING


def test_a_second_checkpoint_waits_for_the_first() -> None:
    core = CheckpointRun()
    core.handle(Due(5))
    assert core.handle(Due(6)) == ()
    assert core.batch == 5


def test_a_marker_out_of_turn_changes_nothing() -> None:
    core = CheckpointRun()
    assert core.handle(MarkerRead(valid=True)) == ()
    core.handle(Due(1))
    assert core.handle(Abandoned()) == (Action.THAW,)
    assert core.phase is Phase.RESTING
