"""What the bench of choosing calls the same on both sides, and what it makes of turns."""

from __future__ import annotations

from itertools import islice

import pytest

from bench.measures.choosing import ADAPTIVE, FIXED, Stood, Turn, Unlike, figures, order, paired, speed
from bench.rig.followed import MeasureFailed, Reached
from holdfast.schemas.assignments import PRIMARY, Copy
from holdfast.services.recovery.core.unit.facts.schemes import Rung

COPIES = (Copy("w1", "1", PRIMARY), Copy("w2", "1", Rung.ACTIVE.flags))
SAME = Stood(FIXED, COPIES)


def turn(side: str, records_per_s: float, begun: Stood = SAME, ended: Stood = SAME) -> Turn:
    return Turn(side, records_per_s, 0.05 if side == FIXED else 0.06, (begun, ended))


def test_each_side_is_first_as_often_as_last() -> None:
    assert list(islice(order("a", "b"), 8)) == ["a", "b", "b", "a", "a", "b", "b", "a"]


def test_neighbours_are_a_pair_and_one_that_is_left_over_does_not_count() -> None:
    turns = [turn(FIXED, 100), turn(ADAPTIVE, 98), turn(ADAPTIVE, 110), turn(FIXED, 100), turn(FIXED, 5)]
    found = figures(paired(turns))
    assert (found["fixed_records_per_s"], found["adaptive_records_per_s"]) == (100, 104)
    assert (found["adaptive_over_fixed"], found["differs_by"], found["pairs"]) == (1.038, 0.038, 2)
    assert found["low"] < 0.98 < 1.1 < found["high"]
    assert (found["fixed_services_cores"], found["adaptive_services_cores"]) == (0.05, 0.06)


def test_a_job_too_short_for_both_sides_is_no_measure() -> None:
    with pytest.raises(MeasureFailed, match="more --records"):
        figures(paired([turn(FIXED, 100)]))


@pytest.mark.parametrize(
    "other",
    [
        Stood("hybrid", COPIES),
        Stood(FIXED, COPIES[:1]),
        Stood(FIXED, (COPIES[0], Copy("w2", "1", Rung.HOT.flags))),
        Stood(FIXED, (Copy("w1", "2", PRIMARY), COPIES[1])),
    ],
    ids=["scheme", "no standby", "standby that sleeps", "worker that began again"],
)
def test_sides_that_did_not_run_the_same_are_refused(other: Stood) -> None:
    for odd in (turn(ADAPTIVE, 100, other, other), turn(ADAPTIVE, 100, SAME, other)):
        with pytest.raises(Unlike, match="did not run the same"):
            paired([turn(FIXED, 100), odd])


def test_the_speed_of_a_turn_is_of_what_was_reported_in_it() -> None:
    reached = [Reached(0, 0), Reached(900, 10), Reached(1_000, 100), Reached(1_500, 150), Reached(2_000, 300)]
    assert speed(reached, 1_000) == 200
    with pytest.raises(MeasureFailed, match="progress"):
        speed(reached, 1_800)
