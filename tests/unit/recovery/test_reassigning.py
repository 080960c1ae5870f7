"""Standbys move between workers while their units stay protected (MECHANISMS C7 and C9). The stories, word for word."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from holdfast.services.kernel.protection.reassigning import HALF, LITERAL
from holdfast.services.recovery.core.placement.reassignment import MOST
from holdfast.services.recovery.core.unit.facts.stance import Stance, stance
from tests.unit.recovery.clusters import cluster, reassigning, story
from tests.unit.recovery.workers import Worker
from tests.unit.recovery.world import UNIT, World, plan

pytestmark = pytest.mark.slow


def workers(world: World, unit: str = UNIT) -> list[str]:
    return [copy.worker for copy in world.change(unit).copies]


# -- one standby ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("scheme", "rung"), [("hybrid", "hot"), ("passive-hot", "hot"), ("passive-cold", "cold")])
def test_the_new_standby_is_made_first_and_the_former_one_goes_when_it_holds_a_whole_checkpoint(
    scheme: str, rung: str
) -> None:
    world = cluster(scheme)
    world.back("w3")
    assert story(world.run(1)) == [
        f"u-0#4: normal -> reassigning ({scheme}): w1 leads, w2 {rung}, w3 {rung}; "
        "its standby is to be on another worker: a new one is made first",
        f"u-0#5: reassigning -> normal ({scheme}): w1 leads, w3 {rung}; "
        "the new standby holds a whole checkpoint: it is the standby, and the former one goes",
    ]
    assert world.unprotected() == []


def test_until_the_new_one_has_restored_the_former_standby_keeps_its_image_and_takes_over() -> None:
    world = reassigning()
    assert workers(world) == ["w1", "w2", "w3"]
    assert world.unprotected() == [], "two of the three protect it"
    world.run(5)
    assert workers(world) == ["w1", "w2", "w3"]
    world.kill("w1")
    world.run(0.02)
    assert world.leader_of() == "w2"


def test_if_the_former_standby_is_gone_too_the_new_one_takes_over_once_it_has_restored() -> None:
    world = cluster()
    world.back("w3")
    world.until(Stance.REASSIGNING)
    world.kill("w2")
    world.run(0.02)
    assert workers(world) == ["w1", "w3"]
    world.run(0.6)
    world.kill("w1")
    world.run(0.02)
    assert world.leader_of() == "w3"


@pytest.mark.parametrize("scheme", ["none", "passive", "deployed", "active-standby", "active-replication"])
def test_only_standbys_that_follow_checkpoints_move(scheme: str) -> None:
    world = cluster(scheme)
    before = world.change()
    world.back("w3")
    assert world.run(2).change() == before


@pytest.mark.parametrize("to", ["w1", "w2", "w9"])
def test_a_standby_does_not_move_to_where_a_copy_is_or_to_a_worker_that_does_not_answer(to: str) -> None:
    world = cluster()
    world.back(to)
    assert story(world.run(1)) == []


def test_a_standby_waits_until_its_unit_is_at_rest() -> None:
    world = cluster()
    world.stall("w1")
    world.until(Stance.SWITCHED)
    world.back("w3")
    world.run(0.5)
    assert stance(world.change()) is Stance.SWITCHED


def test_a_spark_unit_keeps_its_standby() -> None:
    drivers = [Worker(f"w{number}", f"z{number}", hosts="spark") for number in (1, 2, 3)]
    world = World(*drivers, made=plan({"u-0": "passive-hot"}, host="spark")).start().settle()
    world.back("w3")
    assert story(world.run(2)) == []


def test_a_replica_of_a_former_version_leaves_three_copies_alone() -> None:
    """It does not know `backing`: for it they are a crowd."""
    world = reassigning()
    copies = world.change().copies
    plain = type(world.change())(UNIT, 99, copies, "hybrid")
    assert stance(plain) is Stance.NORMAL
    assert len(plain.copies) > 2


# -- plans ------------------------------------------------------------------------------------------------------------


def uneven(*workers: Worker, units: int = 4, share: float | None = HALF, replicas: int = 1, rest_s: float = 2) -> World:
    """All units lead on w1 and stand by on w2; the other workers have just come."""
    made = plan({f"u-{index}": "hybrid" for index in range(units)}, rebalance_period_s=rest_s)
    world = World(*workers, made=made, share=share, replicas=replicas)
    for name in list(world.workers)[2:]:
        world.workers[name].hears = False
    world.start().settle()
    assert {tuple(each(world)) for each in [standbys]} == {("w2",)}
    for worker in world.workers.values():
        worker.hears = True
    return world


def standbys(world: World) -> Counter[str]:
    return Counter(workers(world, unit)[1] for unit in world.units)


def fleet(*zones: str) -> list[Worker]:
    return [Worker(f"w{number}", zone) for number, zone in enumerate(zones, 1)]


def test_once_a_period_half_of_the_difference_moves_until_the_groups_are_even_and_then_it_rests() -> None:
    world = uneven(*fleet("a", "b", "c", "d", "e"), units=8)
    world.expected_ms = dict.fromkeys(world.units, 100.0)
    assert standbys(world) == {"w2": 8}
    world.run(30)
    assert standbys(world) == {"w2": 2, "w3": 2, "w4": 2, "w5": 2}
    epochs = [world.change(unit).epoch for unit in world.units]
    world.run(60)
    assert [world.change(unit).epoch for unit in world.units] == epochs


def test_as_printed_all_of_a_group_goes_to_and_fro() -> None:
    world = uneven(*fleet("a", "b", "c"), share=LITERAL)
    world.expected_ms = dict.fromkeys(world.units, 100.0)
    seen = set()
    for _ in range(60):
        world.run(0.5)
        seen.add(tuple(sorted(standbys(world).items())))
    assert {(("w2", 4),), (("w3", 4),)} <= seen


@pytest.mark.parametrize(("expected_ms", "share"), [(100.0, None), (5.0, HALF), (None, HALF)])
def test_nothing_moves_if_it_is_off_if_little_is_saved_or_if_nobody_says_what_a_failure_costs(
    expected_ms: float | None, share: float | None
) -> None:
    world = uneven(*fleet("a", "b", "c"), share=share)
    if expected_ms is not None:
        world.expected_ms = dict.fromkeys(world.units, expected_ms)
    world.run(20)
    assert standbys(world) == {"w2": 4}


def test_zones_come_first() -> None:
    world = uneven(*fleet("a", "b", "a", "c"))
    world.expected_ms = dict.fromkeys(world.units, 100.0)
    world.run(20)
    assert standbys(world) == {"w2": 2, "w4": 2}


def test_a_standby_moves_at_most_once_in_its_jobs_period() -> None:
    world = uneven(*fleet("a", "b", "c"), share=LITERAL, rest_s=6)
    world.expected_ms = dict.fromkeys(world.units, 100.0)
    begun = dict[str, list[int]]()
    world.watchers.append(
        lambda _, after: begun.setdefault(after.unit, []).append(world.now_us) if after.backing else None
    )
    world.run(40)
    for times in begun.values():
        assert len(times) > 1
        assert all(later - sooner >= 6_000_000 for sooner, later in pairwise(times))


def test_only_a_few_are_made_at_once_whatever_replicas_there_are() -> None:
    world = uneven(*fleet("a", "b", "c"), units=14, replicas=2)
    world.expected_ms = dict.fromkeys(world.units, 100.0)
    under_way = set()
    world.watchers.append(
        lambda *_: under_way.add(sum(stance(world.checked.of(unit)) is Stance.REASSIGNING for unit in world.units))
    )
    world.run(30)
    assert max(under_way) == MOST
    assert sorted(standbys(world).values()) == [7, 7]


def test_two_replicas_move_no_more_than_one() -> None:
    moved = []
    for replicas in (1, 2):
        world = uneven(*fleet("a", "b", "c"), units=6, replicas=replicas)
        world.expected_ms = dict.fromkeys(world.units, 100.0)
        world.run(20)
        moved.append((standbys(world), sum(bool(change.backing) for change in world.history)))
    assert moved[0] == moved[1] == ({"w2": 3, "w3": 3}, 3)
