"""The text by which people learn what a job waits for, while it starts on Spark."""

from __future__ import annotations

import pytest

from holdfast.schemas.assignments import PRIMARY, Assignment, Change, Copy, unit_key
from holdfast.schemas.heartbeats import CopyState, Heartbeat
from holdfast.services.controller.core.fleet import Fleet
from holdfast.services.controller.core.job import Job
from holdfast.services.controller.core.life import Life, Phase
from holdfast.services.controller.core.obstacles import NO_DRIVER, waiting
from holdfast.services.decisions.assigned import Assigned

UNIT = unit_key("heavy", "0-abcdef", "spark-h-0")


def job() -> Job:
    return Job("0-abcdef", "heavy", units={UNIT: "spark-h-0"}, hosts={UNIT: "spark"}, life=Life("", Phase.PLACING))


def placed() -> Assigned:
    found = Assigned()
    found.read(Assignment("r", 0, (Change(UNIT, 1, (Copy("spark-1", "1", PRIMARY),)),)))
    return found


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("deploying", "spark-h-0 on spark-1: Spark's JVM starts"),
        ("opening", "spark-h-0 on spark-1: its query starts"),
        ("running", ""),
    ],
)
def test_each_step_of_a_driver_is_named_until_the_unit_runs(state: str, text: str) -> None:
    fleet, starting = Fleet(100_000), job()
    fleet.advance(0)
    fleet.read(Heartbeat("spark-1", "1", 0, slots=8, copies=(CopyState(UNIT, 1, state),), hosts="spark"))
    assert waiting(starting, placed(), fleet) == text
    starting.was_up = True
    assert waiting(starting, placed(), fleet) == ""


def test_before_there_is_a_driver_its_start_is_what_the_job_waits_for() -> None:
    assert waiting(job(), Assigned(), Fleet(100_000)) == NO_DRIVER
