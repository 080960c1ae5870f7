"""A unit moves without an outage: by request, when its worker leaves, and for balance. The stories, word for word."""

from __future__ import annotations

from collections import Counter

import pytest

from holdfast.services.recovery.core.unit.facts.schemes import SCHEMES
from holdfast.services.recovery.core.unit.facts.stance import Stance, stance
from tests.unit.recovery.clusters import cluster, loaded, moving, story, switched
from tests.unit.recovery.workers import Worker
from tests.unit.recovery.world import UNIT, World, plan

pytestmark = pytest.mark.slow


def workers(world: World, unit: str = UNIT) -> list[str]:
    return [copy.worker for copy in world.change(unit).copies]


def test_a_unit_moves_to_a_third_worker_while_both_its_copies_stay_until_the_new_one_has_caught_up() -> None:
    world = cluster()
    world.move("w3")
    assert story(world.run(1)) == [
        "u-0#4: normal -> moving (hybrid): w1 leads, w2 hot, w3 catching; a move was asked for: a new copy catches up",
        "u-0#5: moving -> normal (hybrid): w3 leads, w2 hot; "
        "the new copy has caught up: it leads, and another one stands by",
    ]
    assert world.unprotected() == []


def test_a_move_to_the_standby_changes_places() -> None:
    world = cluster()
    world.move("w2")
    assert story(world.run(1)) == [
        "u-0#4: normal -> moving (hybrid): w1 leads, w2 catching; a move was asked for: a new copy catches up",
        "u-0#5: moving -> normal (hybrid): w2 leads, w1 hot; "
        "the new copy has caught up: it leads, and another one stands by",
    ]


@pytest.mark.parametrize("scheme", ["none", "passive"])
def test_a_unit_with_one_copy_has_two_for_as_long_as_it_moves(scheme: str) -> None:
    world = cluster(scheme)
    world.move("w3")
    world.run(1)
    assert world.story[-2:] == [
        f"{one} ({scheme}): {two}"
        for one, two in (
            ("u-0#{}: alone -> moving", "w1 leads, w3 catching; a move was asked for: a new copy catches up"),
            (
                "u-0#{}: moving -> alone",
                "w3 leads; the new copy has caught up and no other stays: it leads",
            ),
        )
        for one in [one.format(world.change().epoch - (1 if "alone ->" in one else 0))]
    ]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("to", ["w2", "w3"])
def test_a_move_ends_with_the_flags_of_the_scheme(scheme: str, to: str) -> None:
    world = cluster(scheme)
    before = world.change()
    world.move(to)
    world.run(3)
    now = world.change()
    assert world.leader_of() == to
    assert [copy.flags for copy in now.copies] == [copy.flags for copy in before.copies]
    assert world.unprotected() == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_leader_during_a_move_runs_and_has_caught_up(scheme: str) -> None:
    """Else nobody processes the unit between the two."""
    world = cluster(scheme)
    seen = []

    def look(before: object, after: object) -> None:
        name = world.checked.of(UNIT).committer.worker  # type: ignore[union-attr]
        copy = world.workers[name].copies[UNIT]
        seen.append((copy.state, world.shared[UNIT].batch - copy.batch <= 2))

    world.watchers.append(look)
    for to in ("w3", "w2", "w1"):
        world.move(to)
        world.run(1.5)
    assert len(seen) >= 6
    assert set(seen) == {("running", True)}


def test_the_copy_that_stays_is_one_in_another_zone() -> None:
    zones = {"w1": "x", "w2": "y", "w3": "y"}
    world = World(*(Worker(*one) for one in zones.items())).start().settle()
    assert workers(world) == ["w1", "w2"]
    world.move("w3")
    world.run(1)
    assert workers(world) == ["w3", "w1"]


def test_a_move_that_cannot_be_made_is_answered_once_with_the_reason() -> None:
    world = cluster()
    world.move("w9")
    world.run(1.5)
    assert story(world) == [], "perhaps it is about to be heard"
    world.run(5)
    assert story(world) == [
        "u-0#4: normal -> normal (hybrid): w1 leads, w2 hot; "
        "a move was asked for that cannot be made: nothing moves (w9 does not answer)"
    ]
    world.move("w1")
    world.run(1)
    assert story(world)[1].endswith("nothing moves (w1 runs it already)")


def test_a_new_replica_does_not_move_again_what_was_moved() -> None:
    world = cluster()
    world.move("w3")
    world.run(2)
    world.move("w1")
    world.run(2)
    epoch = world.change().epoch
    world.replicas[-1].alive = False
    world.add_replica()
    world.run(5)
    assert world.change().epoch == epoch


def test_a_move_waits_until_a_switch_is_over() -> None:
    world = switched()
    world.move("w3")
    world.run(1)
    assert stance(world.change()) is Stance.SWITCHED
    world.heal().settle()
    world.run(2)
    assert world.leader_of() == "w3"


def test_a_scheme_asked_for_during_a_move_comes_after_it() -> None:
    world = cluster()
    world.move("w3")
    world.until(Stance.MOVING)
    world.ask("none")
    world.run(5)
    assert (workers(world), world.change().scheme) == (["w3"], "none")


def test_the_primary_dies_while_its_unit_moves_and_the_standby_takes_over_at_once() -> None:
    world = moving()
    world.kill("w1")
    world.run(0.02)
    assert world.leader_of() == "w2"


def test_an_accusation_needs_a_failure() -> None:
    """A worker that hands a unit over was not suspected: its grace stays as it is."""
    world = cluster()
    world.move("w2")
    world.run(3)
    assert not world.replicas[0].core.known.detector.false_switches


# -- a worker that leaves ---------------------------------------------------------------------------------------------


def test_a_leaving_worker_hands_its_units_to_their_standbys_and_gets_no_new_ones() -> None:
    world = cluster()
    world.leave("w1")
    world.run(3)
    assert story(world) == [
        "u-0#4: normal -> moving (hybrid): w1 leads, w2 catching; "
        "the worker of the primary is leaving: a new copy catches up",
        "u-0#5: moving -> alone (hybrid): w2 leads; the new copy has caught up and no other stays: it leads",
        "u-0#6: alone -> normal (hybrid): w2 leads, w3 hot; there is no secondary: a new secondary",
    ]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_leaving_worker_leads_nothing_within_a_second(scheme: str) -> None:
    world = cluster(scheme)
    world.leave("w1")
    world.run(1)
    assert world.leader_of() != "w1"


def test_a_leaving_worker_without_a_standby_elsewhere_hands_over_to_whoever_has_room() -> None:
    world = cluster()
    world.kill("w2")
    world.run(0.2)
    world.leave("w1")
    world.run(1)
    assert world.leader_of() == "w3"


def test_a_lone_worker_that_leaves_hands_nothing_over() -> None:
    world = World(Worker("w1"), made=plan({"u-0": "none"})).start().settle()
    world.leave("w1")
    world.run(2)
    assert len(world.story) == 1
    world.kill("w1")
    world.restart("w1")
    world.settle()


def test_a_new_copy_on_a_worker_that_leaves_is_given_up() -> None:
    world = moving()
    world.leave("w3")
    world.run(1)
    assert workers(world) == ["w1", "w2"]


def test_a_spark_unit_moves_by_a_takeover_once_the_other_driver_stands_by() -> None:
    """It cannot process beside another one: its query is fenced and started."""
    drivers = [Worker(f"w{number}", f"z{number}", hosts="spark") for number in (1, 2, 3)]
    world = World(*drivers, made=plan({"u-0": "passive-hot"}, host="spark"), calm_us=100_000).start().settle()
    world.move("w3")
    assert story(world.run(3)) == [
        "u-0#4: normal -> moving (passive-hot): w1 leads, w2 hot, w3 hot; a move was asked for: a new copy catches up",
        "u-0#5: moving -> normal (passive-hot): w3 leads, w2 hot; "
        "the new copy has caught up: it leads, and another one stands by",
    ]


def test_balance_leaves_spark_units_where_they_are() -> None:
    drivers = [Worker(f"w{number}", f"z{number}", hosts="spark") for number in (1, 2)]
    made = plan({f"u-{index}": "none" for index in range(4)}, host="spark")
    world = World(*drivers, made=made, calm_us=100_000).start().settle().run(10)
    assert share(world) == {"w1": 4}


def test_a_unit_does_not_move_to_a_worker_of_the_other_kind() -> None:
    world = World(Worker("w1"), Worker("w2", hosts="spark"), made=plan({"u-0": "none"})).start().settle()
    world.move("w2")
    world.run(1)
    assert world.story[-1].endswith("nothing moves (w2 takes no such units)")


# -- balance ----------------------------------------------------------------------------------------------------------


def share(world: World) -> Counter[str]:
    return Counter(world.leader_of(unit) for unit in world.units)


@pytest.mark.parametrize("scheme", ["none", "hybrid", "active-standby"])
def test_units_on_one_worker_are_shared_out_and_then_stay(scheme: str) -> None:
    world = loaded(scheme)
    assert share(world) == {"w1": 4}
    world.run(15)
    assert sorted(share(world).values()) == [1, 1, 2]
    epochs = [world.change(unit).epoch for unit in world.units]
    world.run(60)
    assert epochs == [world.change(unit).epoch for unit in world.units]


def test_a_single_unit_moves_at_a_time_whatever_replicas_there_are() -> None:
    world = loaded("hybrid")
    world.add_replica()
    under_way = set()
    world.watchers.append(
        lambda *_: under_way.add(sum(stance(world.checked.of(unit)) is Stance.MOVING for unit in world.units))
    )
    world.run(15)
    assert under_way == {0, 1}
    moves = [change for change in world.history if change.moving]
    assert len(moves) == 2


@pytest.mark.parametrize("trouble", ["stall", "leave", "kill"])
def test_nothing_is_balanced_while_a_worker_is_in_trouble(trouble: str) -> None:
    world = loaded("none")
    getattr(world, trouble)("w3")
    before = len(world.history)
    world.run(0.9)
    assert len(world.history) == before


def test_balance_can_be_switched_off() -> None:
    world = World(
        *(Worker(f"w{number}", f"z{number}") for number in (1, 2, 3)), made=plan({f"u-{i}": "none" for i in range(4)})
    )
    world.start().settle().run(30)
    assert share(world) == {"w1": 4}


def test_twelve_active_units_on_one_of_four_workers_are_shared_out() -> None:
    """The history of the issue: after many failovers one of four workers held all."""
    made = plan({f"u-{index}": "hybrid" for index in range(12)})
    world = World(*(Worker(f"w{number}", f"z{number % 3}") for number in range(4)), made=made, calm_us=1_000_000)
    world.start().settle()
    for round_ in range(3):
        for name in ("w1", "w2", "w3"):
            world.kill(name)
            world.run(0.2)
            world.restart(name)
        world.run(1.5 + round_)
    assert max(share(world).values()) >= 8
    world.run(60)
    assert sorted(share(world).values()) == [3, 3, 3, 3]
    held = Counter(worker for unit in world.units for worker in workers(world, unit))
    assert max(held.values()) <= 8


def test_a_unit_that_somebody_waits_for_is_not_at_rest() -> None:
    """Else balance would move a unit that a user is about to move."""
    world = World(Worker("w1"), Worker("w2"), made=plan({"u-0": "none"})).start().settle().rest()
    world.move("w3")
    world.run(0.1)
    assert world.unprotected() == []
    assert not world.replicas[0].core.known.at_rest(), "nobody knows yet whether w3 will answer"
    world.rest()
    assert world.change().reason.startswith("a move was asked for that cannot be made")
