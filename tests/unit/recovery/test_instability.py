"""The period of instability (MECHANISMS C4): it lasts until all that lost a copy is protected again."""

from __future__ import annotations

import pytest

from holdfast.services.recovery.core.instability import Instability, Period
from tests.unit.recovery.workers import Worker
from tests.unit.recovery.world import World, plan

SECOND_US = 1_000_000


def test_instability_lasts_until_the_last_unit_is_protected_again_and_has_later_failures() -> None:
    found = Instability()
    found.failed("w1", ["a", "b"], since_us=1_000)
    assert found.look(["a", "b", "c"], ["a", "b"], 2_000) is None
    found.failed("w2", ["c"], since_us=2_500)
    assert found.look(["a", "b", "c"], ["c"], 3_000) is None
    assert found.look(["a", "b", "c"], ["other"], 4_000) == Period(("w1", "w2"), ("a", "b", "c"), 3_000)
    assert not found.open


def test_a_worker_without_copies_begins_none_and_what_was_taken_down_needs_no_protection() -> None:
    found = Instability()
    found.failed("w1", [], since_us=0)
    assert not found.open
    found.failed("w1", ["a"], since_us=0)
    assert found.look([], [], 1_000) is None
    assert not found.open


def cluster(workers: int = 4, units: int = 3, **tolerance: object) -> World:
    fleet = [Worker(f"w{number}", f"z{number}") for number in range(1, workers + 1)]
    made = plan({f"u-{index}": "hybrid" for index in range(units)}, **tolerance)  # type: ignore[arg-type]
    return World(*fleet, made=made).start().settle()


def periods(world: World) -> list[Period]:
    return world.replicas[-1].core.stable_again


@pytest.mark.parametrize("notice", [True, False])
def test_a_killed_worker_makes_one_period_that_ends_when_every_unit_has_its_standby_again(notice: bool) -> None:
    """Takeover at once or after a miss; a second of calm; loading and restoring the new standby."""
    world = cluster()
    world.kill("w1", notice=notice)
    if not notice:
        world.run(4)  # past the fail-stop time-out of 3 s
    world.settle().run(0.2)
    (period,) = periods(world)
    assert period.workers == ("w1",)
    assert period.units == tuple(world.units)
    least_s = 1.3 if notice else 4.3
    assert least_s * SECOND_US <= period.lasted_us <= (least_s + 0.5) * SECOND_US


def test_a_standby_that_is_lost_makes_one_too_and_what_does_not_fail_makes_none() -> None:
    world = cluster()
    world.move("w3", world.units[0])
    world.run(3)
    world.leave("w4")
    world.run(3)
    assert periods(world) == []
    standby = world.change().copies[1].worker
    world.kill(standby)
    world.settle().run(0.2)
    assert [period.workers for period in periods(world)] == [(standby,)]


def test_a_switch_and_the_switch_back_are_one_period() -> None:
    world = cluster(units=1)
    world.stall("w1")
    world.run(0.5)
    assert periods(world) == []
    world.stall("w1", False)
    world.settle().run(0.2)
    (period,) = periods(world)
    assert (period.workers, period.units) == (("w1",), tuple(world.units))


def test_a_second_failure_belongs_to_the_period_of_the_first() -> None:
    world = cluster(workers=5)
    world.kill("w1")
    world.run(0.5)
    world.kill(world.leader_of())
    world.settle().run(0.2)
    (period,) = periods(world)
    assert period.workers[0] == "w1"
    assert len(period.workers) == 2
