"""A goal for a whole job becomes records for its units, in the order of its plan."""

from __future__ import annotations

import pytest

from holdfast.schemas.assignments import PRIMARY, Assignment, Change, Copy, Goal, unit_key
from holdfast.schemas.decided import Id
from holdfast.schemas.plans import Ended
from holdfast.services.decisions.standings import Standings
from holdfast.services.recovery.core.observed import AssignmentRead, Began, CaughtUp, DecisionRead, Event
from holdfast.services.recovery.core.recovery import Recovery
from holdfast.services.recovery.core.unit.facts.schemes import Rung
from holdfast.services.recovery.core.unit.facts.stance import MOST, Stance
from tests.unit.recovery.workers import Worker
from tests.unit.recovery.world import G, World, plan

NAMES = ("z-0", "a-0", "m-0", "b-0")
"""Not in the order of the alphabet."""


def cluster(scheme: str = "none", workers: int = 2, replicas: int = 1) -> World:
    """Four units that have no place yet."""
    made = plan(dict.fromkeys(NAMES, scheme))
    return World(*(Worker(f"w{n}", f"z{n}") for n in range(1, workers + 1)), made=made, replicas=replicas).run(0.5)


def names(record: Assignment) -> list[str]:
    return [change.unit.rpartition("/")[2] for change in record.changes]


def test_without_a_goal_nothing_is_placed() -> None:
    assert cluster().run(2).log == []


def test_new_units_are_placed_in_the_order_of_the_plan_in_one_record_spread_over_the_workers() -> None:
    world = cluster()
    world.goal("run")
    world.run(0.02)
    assert [names(record) for record in world.log[1:]] == [list(NAMES)]
    assert [change.copies[0].worker for change in world.history] == ["w1", "w2", "w1", "w2"]
    assert world.story[0] == "z-0#1: unplaced -> alone (none): w1 leads; its job is to run: placed"


def test_a_unit_gets_the_scheme_of_its_job_with_its_first_record() -> None:
    world = cluster("hybrid")
    world.goal("run")
    world.settle()
    assert [change.scheme for change in world.history] == ["hybrid"] * 8
    assert world.change(world.units[0]).copies[1].flags == Rung.HOT.flags


def test_without_a_worker_units_wait_and_the_first_that_comes_gets_them() -> None:
    world = cluster(workers=1)
    world.kill("w1")
    world.goal("run")
    assert world.run(2).history == []
    world.restart("w1")
    world.settle()
    assert {change.copies[0] for change in world.history} == {Copy("w1", "2", PRIMARY)}


def test_a_replica_that_has_just_started_waits_until_all_workers_were_heard() -> None:
    world = cluster(workers=3)
    world.replicas[0].alive = False
    world.goal("run")
    world.add_replica()
    world.settle()
    assert {change.copies[0].worker for change in world.history} == {"w1", "w2", "w3"}


def test_workers_of_another_kind_or_that_leave_take_no_unit() -> None:
    world = cluster(workers=3)
    world.workers["w1"].hosts = "spark"
    world.leave("w2")
    world.run(0.3)
    world.goal("run")
    world.settle()
    assert {change.copies[0].worker for change in world.history} == {"w3"}


def test_a_stop_takes_all_units_down_in_one_record_that_names_the_command() -> None:
    world = cluster()
    world.goal("run")
    world.settle()
    before = len(world.log)
    world.goal("stop", asked=11, reason="drained")
    world.run(0.02)
    assert [names(record) for record in world.log[before + 1 :]] == [list(NAMES)]
    last = [world.change(unit) for unit in world.units]
    assert {(c.copies, c.asked, c.reason) for c in last} == {((), 11, "its job is to stop: unplaced (drained)")}
    assert all(not worker.copies for worker in world.run(1).workers.values())
    assert {world.change(unit).epoch for unit in world.units} == {2}


def test_units_that_were_never_placed_are_unplaced_so_that_a_slow_replica_cannot_place_them() -> None:
    world = cluster()
    world.goal("stop", asked=11)
    world.run(0.1)
    assert [change.epoch for change in world.history] == [1] * 4
    late = [Change(unit, 1, (Copy("w1", "1", PRIMARY),), reason="its job is to run: placed") for unit in world.units]
    world.append("slow", late)
    world.run(1)
    assert not any(world.change(unit).copies for unit in world.units)


def test_a_unit_that_lost_its_place_before_the_stop_is_unplaced_once_more_behind_it() -> None:
    """A replica that has not read the stop places it again."""
    world = cluster()
    world.goal("run")
    world.settle()
    world.replicas[0].late_us = 100_000
    world.append("stranger", [Change(world.units[0], 2, reason="a mistake")])
    world.goal("stop", asked=11)
    world.run(1)
    assert [change.epoch for change in world.history[5:] if change.unit == world.units[0]] == [3, 4]
    assert not any(world.change(unit).copies for unit in world.units)


def test_a_replica_that_reads_the_stop_unplaces_what_has_no_place() -> None:
    world = cluster()
    world.goal("run")
    world.settle()
    world.replicas[0].alive = False
    world.append("stranger", [Change(unit, 2, reason="a mistake") for unit in world.units])
    world.goal("stop", asked=11)
    world.add_replica()
    world.run(1)
    assert [world.change(unit).epoch for unit in world.units] == [3] * 4
    assert not any(change.copies for change in world.history[4:])


def test_a_stop_is_final() -> None:
    world = cluster()
    world.goal("run")
    world.settle()
    world.goal("stop", asked=11)
    world.run(0.1)
    world.goal("run")
    world.run(2)
    assert not any(world.change(unit).copies for unit in world.units)


@pytest.mark.parametrize("state", ["running", "ended"])
def test_a_stop_takes_units_down_whatever_their_copies_say(state: str) -> None:
    world = cluster("hybrid")
    world.goal("run")
    world.settle()
    if state == "ended":
        for unit in world.units:
            world.end(unit)
    world.goal("stop", asked=11)
    world.run(0.1)
    assert not any(world.change(unit).copies for unit in world.units)


def test_an_unplaced_unit_of_a_running_job_is_placed_again_whatever_the_record_says() -> None:
    world = cluster()
    world.goal("run")
    world.settle()
    world.append("stranger", [Change(world.units[1], 2, (), "by-magic", "cancelled", 2**53, moved=2**53)])
    world.run(0.3)
    change = world.change(world.units[1])
    asked = "it was unplaced, and nobody asked for the end of its job: placed again from the checkpoint log"
    assert (change.epoch, change.scheme, change.asked, change.moved, change.reason) == (3, "none", 3, -1, asked)


def test_a_goal_of_a_generation_that_no_plan_names_is_nobody_s() -> None:
    world = cluster()
    world.append("controller", (), [Goal("job", "9-abcdef", "run"), Goal("other", G, "run")])
    assert world.run(1).history == []


def test_nothing_is_placed_for_a_job_that_has_ended() -> None:
    world = cluster()
    ended = Ended("job", G, Id("c", 2), world.plan.id, "drained")
    for replica in world.replicas:
        replica.core.observe(DecisionRead(ended), world.now_us)
    world.goal("run")
    assert world.run(1).history == []


def test_a_replica_that_begins_with_a_snapshot_knows_the_goals() -> None:
    world = cluster()
    world.goal("run")
    world.settle()
    world.goal("stop", asked=11)
    standings = Standings()
    for offset, record in enumerate(world.log[:-1]):
        standings.read(offset, record)
    standings.read(len(world.log) - 1, world.log[-1])
    core = Recovery()
    core.observe(Began(Standings.of(standings.snapshot())), 10_000)
    core.observe(DecisionRead(world.plan), 10_000)
    assert [change.copies for change in core.observe(CaughtUp(), 10_000)] == [()] * 4


@pytest.mark.parametrize("first", ["plan", "goal"])
def test_the_order_in_which_plan_and_goal_are_read_does_not_matter(first: str) -> None:
    made = plan(dict.fromkeys(NAMES, "none"))
    goal = Assignment("c", 0, (), goals=(Goal("job", G, "stop", "cancelled", 11),))
    events: list[Event] = [DecisionRead(made), AssignmentRead(goal, 0)]
    core = Recovery()
    core.observe(CaughtUp(), 10_000)
    proposed = [core.observe(event, 10_000) for event in (events if first == "plan" else reversed(events))]
    assert [change.unit.rpartition("/")[2] for change in proposed[1]] == list(NAMES)


def test_several_replicas_place_each_unit_once() -> None:
    world = cluster(replicas=3)
    world.goal("run")
    world.settle()
    assert sorted(change.unit for change in world.history) == sorted(world.units)


# -- records that no row makes ----------------------------------------------------------------------------------------


def strange(world: World, *copies: Copy, scheme: str = "hybrid") -> list[tuple[int, str]]:
    """What the replica has to tell of a record with these copies."""
    last = world.change(world.units[0])
    world.append("stranger", [Change(last.unit, last.epoch + 1, copies, scheme, "strange")])
    world.run(0.05)
    return [(change.epoch, why) for change, why in world.replicas[0].core.reading.unexplained]


def crowd() -> tuple[Copy, ...]:
    others = (Copy(f"w{n}", "1", Rung.HOT.flags) for n in range(2, 5))
    return Copy("w1", "1", PRIMARY), *others


def test_more_copies_than_any_row_gives_are_reported_and_left_alone() -> None:
    world = World(*(Worker(f"w{n}") for n in range(1, 5)), made=plan({"u-0": "hybrid"})).start().settle()
    epoch = world.change().epoch + 1
    assert strange(world, *crowd()) == [(epoch, "4 copies, and a unit that is normal has at most 2")]
    world.kill("w3")
    world.run(3)
    assert world.change().epoch == epoch
    assert len(world.replicas[0].core.reading.unexplained) == 1, "it is reported once"


def test_a_unit_with_more_copies_than_any_row_gives_is_taken_down_with_its_job() -> None:
    world = World(*(Worker(f"w{n}") for n in range(1, 5)), made=plan({"u-0": "hybrid"})).start().settle()
    strange(world, *crowd())
    world.goal("stop", asked=11)
    world.run(0.1)
    assert world.change().copies == ()


def test_flags_and_schemes_that_nobody_knows_are_reported() -> None:
    world = World(*(Worker(f"w{n}") for n in range(1, 5)), made=plan({"u-0": "hybrid"})).start().settle()
    odd = Copy("w2", "1", type(PRIMARY)(receive=False, commit=False))
    told = strange(world, Copy("w1", "1", PRIMARY), odd)
    assert "w2 has flags of no scheme" in told[0][1]
    told = strange(world, Copy("w1", "1", PRIMARY), scheme="by-magic")
    assert told[1][1] == "there is no scheme 'by-magic'"


def test_events_of_before_the_start_of_a_replica_are_not_told() -> None:
    world = World(*(Worker(f"w{n}") for n in range(1, 5)), made=plan({"u-0": "hybrid"})).start().settle()
    strange(world, *crowd())
    assert world.add_replica().core.reading.unexplained == []


def test_every_stance_has_a_limit() -> None:
    assert set(MOST) == set(Stance)


def test_a_unit_key_names_its_job() -> None:
    assert Goal("job", G, "run").job_key == unit_key("job", G, "u-0").partition("/")[0]
