"""A drill is a takeover of a unit of which nothing has failed: whoever would take over does, and the unit is protected
again."""

from __future__ import annotations

from itertools import pairwise

import pytest

from holdfast.services.recovery.core.unit.facts.schemes import SCHEMES
from holdfast.services.recovery.core.unit.facts.stance import Stance
from holdfast.services.recovery.core.unit.rules.unanswered import HEARD_US
from holdfast.services.recovery.core.unit.table.reasons import drilled, move_kind
from tests.unit.recovery.test_adaptive import Load
from tests.unit.recovery.test_schemes import start
from tests.unit.recovery.workers import Worker
from tests.unit.recovery.world import UNIT, World, plan

TAKEN_OVER = [name for name, scheme in SCHEMES.items() if scheme.misses is not None]


def refused(world: World) -> list[str]:
    return [change.reason for change in world.history if "a drill was asked for that cannot be made" in change.reason]


@pytest.mark.parametrize("scheme", TAKEN_OVER)
def test_the_copy_that_would_take_over_leads_and_the_unit_is_protected_again(scheme: str) -> None:
    world = start(scheme)
    standby = [copy.worker for copy in world.change().copies[1:]]
    world.drill()
    world.run(0.1)
    assert world.leader_of() != "w1"
    assert world.leader_of() in (standby or world.workers)
    world.settle()
    (change,) = [change for change in world.history if drilled(change)]
    assert (change.scheme, change.moved) == (scheme, 10)
    assert world.change().scheme == scheme
    epoch = world.change().epoch
    assert world.run(3).change().epoch == epoch, "one drill a command, and nothing moves back"
    assert all(not replica.core.known.detector.false_switches for replica in world.replicas), "nobody was suspected"


def test_a_drill_is_foreseen_where_the_leader_has_measured() -> None:
    world = start("passive-hot")
    world.measured = Load()
    world.run(2).drill()
    world.run(0.1)
    foreseen = world.replicas[0].core.known.adaptive.foreseen[UNIT]
    assert (foreseen.drilled, foreseen.scheme, foreseen.promise_ms, foreseen.worker) == (
        True, "passive-hot", 0.0, world.leader_of(),
    )  # fmt: skip
    assert foreseen.phases.detection == 330


def test_nobody_takes_over_under_none() -> None:
    world = start("none")
    world.drill()
    world.run(HEARD_US / 1_000_000 + 0.3)
    assert refused(world) == ["a drill was asked for that cannot be made: nothing moves (under none nobody takes over)"]
    assert (world.leader_of(), world.change().moved) == ("w1", 10)


def test_a_unit_that_is_not_protected_is_left_alone_and_the_user_hears_of_it() -> None:
    world = start("hybrid")
    world.kill("w2")
    world.kill("w3")
    world.run(0.1).drill()
    world.run(HEARD_US / 1_000_000 + 0.3)
    assert "it is not protected as it should be" in refused(world)[0]
    assert world.leader_of() == "w1"


def test_a_drill_waits_a_moment_until_the_unit_is_protected() -> None:
    world = start("active-standby")
    world.kill("w2")
    world.run(0.05).drill()
    world.settle()
    assert not refused(world)
    assert world.leader_of() == "w3"


def test_without_another_worker_there_is_nobody_to_take_over() -> None:
    world = World(Worker("w1"), made=plan({"u-0": "passive"})).start().settle()
    world.drill()
    world.run(HEARD_US / 1_000_000 + 0.3)
    assert "no other worker can take it" in refused(world)[0]


def test_a_drill_during_a_switch_waits_for_its_end() -> None:
    world = start("hybrid")
    world.stall("w1")
    world.until(Stance.SWITCHED)
    world.drill()
    world.run(0.3)
    assert world.leader_of() == "w2"
    world.heal().settle().rest()
    assert [drilled(change) for change in world.history].count(True) == 1


def test_a_drill_that_is_asked_for_during_a_move_comes_after_it() -> None:
    world = start("passive-hot")
    world.move("w3")
    world.drill()
    world.settle().rest()
    assert len([change for change in world.history if drilled(change)]) == 1
    assert world.change().moved == 11
    kinds = [move_kind(before, after) for before, after in pairwise(world.history)]
    assert kinds.index("move-done") < [drilled(change) for change in world.history[1:]].index(True)


def test_a_drill_is_no_move_for_people() -> None:
    world = start("passive-hot")
    before = world.change()
    world.drill()
    world.run(0.1)
    assert move_kind(before, world.change()) is None


def test_replicas_decide_a_drill_once() -> None:
    world = World(*[Worker(f"w{n}", f"z{n}") for n in (1, 2, 3)], made=plan({"u-0": "hybrid"}), replicas=3)
    world.start().settle()
    world.drill()
    world.settle().run(2)
    assert [drilled(change) for change in world.history].count(True) == 1
