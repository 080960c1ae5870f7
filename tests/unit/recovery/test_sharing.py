"""Units share workers for their standbys, up to a capacity; the important ones first (MECHANISMS H9)."""

from __future__ import annotations

from collections import Counter

import pytest

from holdfast.services.recovery.core.placement.room import Candidate, Room
from holdfast.services.recovery.core.placement.sharing import Claim, HeldStandby, Outranked, hopeless, outranked
from tests.unit.recovery.clusters import shared
from tests.unit.recovery.workers import Worker
from tests.unit.recovery.world import G, World, plan

pytestmark = pytest.mark.slow

# -- who goes ---------------------------------------------------------------------------------------------------------


def test_nobody_goes_while_nobody_more_important_waits() -> None:
    held = [HeldStandby("a", 2, "w1"), HeldStandby("b", 3, "w2")]
    assert outranked([], held, ()) is None
    assert outranked([Claim("c", 2, ("w1", "w2"))], held, ()) is None
    assert hopeless([Claim("c", 2, ("w1", "w2"))], held) == ["c"]


def test_the_least_important_standby_gives_its_place_to_the_most_important_unit() -> None:
    held = [HeldStandby("a", 2, "w1"), HeldStandby("b", 1, "w2"), HeldStandby("c", 1, "w1"), HeldStandby("d", 1, "w3")]
    claims = [Claim("x", 5, ("w1", "w2")), Claim("y", 9, ("w2", "w1"))]
    assert outranked(claims, held, ()) == Outranked("b", "w2", "y"), "on the worker that suits it best"
    assert hopeless(claims, held) == []


def test_a_standby_is_of_no_use_to_a_unit_that_cannot_have_its_worker_and_one_that_is_busy_stays() -> None:
    claim = Claim("x", 5, ("w2",))
    assert outranked([claim], [HeldStandby("a", 1, "w1")], ()) is None
    busy = [HeldStandby("a", 1, "w2", at_rest=False)]
    assert outranked([claim], busy, ()) is None
    assert hopeless([claim], busy) == [], "it gets the place soon"


def test_surplus_copies_go_before_less_important_ones() -> None:
    held = [HeldStandby("a", 2, "w1"), HeldStandby("b", 3, "w1"), HeldStandby("c", 1, "w2")]
    assert outranked([Claim("x", 5, ("w2",))], held, ["w1"]) == Outranked("a", "w1")


# -- places -----------------------------------------------------------------------------------------------------------


def test_a_worker_takes_as_many_standbys_as_it_may_and_primaries_as_before() -> None:
    room = Room([Candidate(name, "1", "", 8, standbys=most) for name, most in (("a", 0), ("b", 1), ("c", -1))])
    places = []
    for index in range(3):
        unit = f"job@1-abcdef/n-{index}"
        chosen = room.for_secondary("c")
        places.append(None if chosen is None else chosen.worker)
        if chosen is not None:
            room.enter(_change(unit, "c", chosen.worker))
    assert places == ["b", None, None]
    assert room.for_primary("job@1-abcdef/n-9").worker == "a"  # type: ignore[union-attr]
    assert room.overfull() == []


def _change(unit: str, *workers: str):  # type: ignore[no-untyped-def]
    from holdfast.schemas.assignments import PRIMARY, Change, Copy
    from holdfast.services.recovery.core.unit.facts.schemes import Rung

    first, *others = workers
    copies = Copy(first, "1", PRIMARY), *(Copy(one, "1", Rung.HOT.flags) for one in others)
    return Change(unit, 1, copies, "hybrid")


# -- on a cluster -----------------------------------------------------------------------------------------------------


def key(name: str) -> str:
    return f"job@{G}/{name}"


def served(world: World) -> dict[str, str]:
    """The worker with the standby, by unit."""
    return {
        unit.rpartition("/")[2]: copies[1].worker
        for unit in world.units
        if len(copies := world.change(unit).copies) > 1
    }


def cluster(priorities: dict[str, int], *capacities: int, scheme: str = "hybrid") -> World:
    """All units lead on w1; the others take so many standbys."""
    workers = [Worker(f"w{number}", f"z{number}", standbys=most) for number, most in enumerate((0, *capacities), 1)]
    return World(*workers, made=plan(dict.fromkeys(priorities, scheme), priorities=priorities)).start()


def rest(world: World, within_s: float = 15.0) -> World:
    """Until all is protected that can be."""
    for _ in range(round(within_s / 0.1)):
        world.run(0.1)
        cores = [replica.core for replica in world.replicas if replica.alive]
        if not any(core.known.exposed() for core in cores) and all(core.known.at_rest() for core in cores):
            return world
    raise AssertionError("\n".join(["never at rest:", *world.story]))


PRIORITIES = {"u-0": 1, "u-1": 5, "u-2": 3, "u-3": 5}


def test_several_units_share_a_worker_and_the_important_ones_come_first() -> None:
    world = rest(cluster(PRIORITIES, 3).run(3))
    assert served(world) == {"u-1": "w2", "u-2": "w2", "u-3": "w2"}
    core = world.replicas[0].core
    assert core.known.unprotected() == [key("u-0")]
    assert core.known.sharing.unserved == {key("u-0"): "full: w2; none of their standbys is of a less important unit"}


def test_without_priorities_the_first_by_name_come_first() -> None:
    world = rest(cluster(dict.fromkeys(PRIORITIES, 1), 2).run(3))
    assert set(served(world)) == {"u-0", "u-1"}


def test_a_unit_that_becomes_protected_later_takes_the_place_of_a_less_important_one() -> None:
    world = shared()
    assert served(world) == {"u-1": "w2"}
    world.ask("hybrid")
    rest(world.run(3))
    assert served(world) == {"u-0": "w2"}
    assert [line.partition(": ")[2] for line in world.story[-2:]] == [
        "normal -> alone (hybrid): w1 leads; the place of its standby is needed: the primary continues alone (for u-0)",
        "alone -> normal (hybrid): w1 leads, w2 hot; there is no secondary: a new secondary",
    ]


def test_a_worker_that_comes_takes_what_had_no_place() -> None:
    world = rest(cluster(PRIORITIES, 2).run(3))
    assert set(served(world)) == {"u-1", "u-3"}
    world.add_worker(Worker("w9", "z9", standbys=1))
    rest(world.run(3))
    assert served(world) == {"u-1": "w2", "u-2": "w9", "u-3": "w2"}
    world.add_worker(Worker("w8", "z8"))
    rest(world.run(3))
    assert set(served(world)) == set(PRIORITIES)
    assert world.replicas[0].core.known.sharing.unserved == {}


def test_after_a_failure_the_important_units_get_the_places_that_are_left() -> None:
    world = rest(cluster(PRIORITIES, 2, 2).run(3))
    assert set(served(world)) == set(PRIORITIES)
    world.kill(next(worker for unit, worker in served(world).items() if unit == "u-1"))
    rest(world.run(4))
    assert set(served(world)) == {"u-1", "u-3"}
    (period,) = world.replicas[0].core.stable_again
    assert period.workers[0] in ("w2", "w3"), "what cannot be protected does not prolong the period"


def test_a_takeover_may_leave_more_standbys_than_a_worker_takes_and_one_of_them_moves_or_goes() -> None:
    """The old primary stays as standby under the active schemes: w1 takes none."""
    world = rest(cluster({"u-0": 1, "u-1": 2}, 2, scheme="active-standby").run(3))
    world.stall("w1")
    world.run(0.5)
    assert {world.leader_of(unit) for unit in world.units} == {"w2"}
    world.stall("w1", False)
    rest(world.run(3))
    assert served(world) == {}
    assert len(world.replicas[0].core.known.sharing.unserved) == 2


def test_a_standby_too_many_moves_to_a_worker_that_has_a_place() -> None:
    world = rest(cluster({"u-0": 1, "u-1": 2}, 2, -1).run(3))
    assert Counter(served(world).values()) == {"w2": 1, "w3": 1}
    world.workers["w2"].standbys = 0
    rest(world.run(3))
    assert Counter(served(world).values()) == {"w3": 2}
    assert any(change.backing for change in world.history), "the new one is made first"


@pytest.mark.parametrize("replicas", [1, 2])
def test_no_worker_ever_takes_more_than_it_may(replicas: int) -> None:
    names = {f"u-{index}": 1 + index % 3 for index in range(9)}
    workers = [Worker(f"w{number}", f"z{number}", standbys=2) for number in range(1, 5)]
    world = World(*workers, made=plan(dict.fromkeys(names, "hybrid"), priorities=names), replicas=replicas).start()
    rest(world.run(3))
    for name in ("w1", "w3"):
        world.kill(name)
        world.run(2)
        world.restart(name)
        rest(world.run(3))
    counts = Counter(served(world).values())
    assert max(counts.values()) <= 2
    assert sum(counts.values()) >= 6
    lowest = min(names[unit] for unit in served(world))
    left = {unit for unit in names if unit not in served(world)}
    assert all(names[unit] <= lowest + 1 for unit in left)


def test_units_that_have_lost_all_copies_are_placed_again_the_important_ones_first() -> None:
    made = plan(dict.fromkeys(PRIORITIES, "passive"), priorities=PRIORITIES)
    world = World(Worker("w1"), Worker("w2", slots=8), made=made).start().settle()
    world.kill("w1")
    world.run(0.5)
    placed = [change.unit.rpartition("/")[2] for change in world.history if "placed again" in change.reason]
    assert placed == ["u-1", "u-3", "u-2", "u-0"]
