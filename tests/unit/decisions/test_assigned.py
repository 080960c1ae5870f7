"""Who runs which unit, whatever anybody appends."""

from __future__ import annotations

import pytest

from holdfast.schemas.assignments import PRIMARY, Assignment, Change, Copy, Flags
from holdfast.services.decisions.assigned import Assigned

SUSPENDED = Flags(state="synced", process=False, send=False, commit=False, checkpoint_target=True)
W1, W2 = Copy("w1", "1", PRIMARY), Copy("w2", "1", SUSPENDED)


def read(*changes: Change) -> list[int]:
    """Epochs of the changes that are valid."""
    assigned = Assigned()
    return [change.epoch for change in assigned.read(Assignment("a", 0, changes))]


def test_a_change_is_valid_if_its_epoch_follows_the_last_one() -> None:
    assert read(Change("u", 1, (W1,)), Change("u", 1, (W2,)), Change("u", 3, (W1,)), Change("u", 2)) == [1, 2]


@pytest.mark.parametrize(
    "copies",
    [
        (W2,),
        (W1, Copy("w2", "1", PRIMARY)),
        (W1, Copy("w1", "2", SUSPENDED)),
        (Copy("w1", "1", Flags(process=False)), W2),
        (Copy("w1", "1", Flags(receive=False)), W2),
        (Copy("w1", "1", Flags(send=False)), W2),
    ],
    ids=["nobody commits", "two commit", "two copies on one worker", "it sleeps", "it is deaf", "it is mute"],
)
def test_a_change_that_nobody_could_carry_out_safely_is_invalid(copies: tuple[Copy, ...]) -> None:
    assert read(Change("u", 1, copies), Change("u", 1, (W1, W2))) == [1]
