"""Where units go."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from holdfast.services.recovery.core.placement.balancing import Host, Placement, Relief, balance
from holdfast.services.recovery.core.placement.room import Candidate, Room

UNITS = [f"job@1-abcdef/n-{index}" for index in range(4)]


def worker(name: str, zone: str = "", slots: int = 8) -> Candidate:
    return Candidate(name, "1", zone, slots)


def place(
    units: list[str], workers: list[Candidate] | tuple[Candidate, ...], held: dict[str, list[str]]
) -> dict[str, Candidate]:
    """A worker for each unit, in this order; held: units that each worker holds already."""
    room, places = Room(workers), {}
    for name, keys in held.items():
        for unit in keys:
            room.hold(unit, name)
    for unit in units:
        chosen = room.for_primary(unit)
        if chosen is not None:
            places[unit] = chosen
            room.hold(unit, chosen.worker)
    return places


def where(units: list[str], *workers: Candidate, held: dict[str, list[str]] | None = None) -> list[str]:
    return [candidate.worker for candidate in place(units, workers, held or {}).values()]


def test_units_of_a_job_are_spread_over_workers() -> None:
    assert where(UNITS, worker("b"), worker("a")) == ["a", "b", "a", "b"]


def test_units_of_a_job_are_spread_over_zones_before_workers() -> None:
    assert where(UNITS[:2], worker("a", "x"), worker("b", "x"), worker("c", "y")) == ["a", "c"]


def test_the_share_of_used_slots_counts_first() -> None:
    assert where(UNITS[:3], worker("small", slots=2), worker("wide", slots=8)) == ["small", "wide", "wide"]


def test_units_of_other_jobs_take_room_but_do_not_spread() -> None:
    held = {"a": ["other@2-abcdef/n-0"]}
    assert where(UNITS[:2], worker("a"), worker("b"), held=held) == ["b", "a"]


def test_slots_are_a_soft_limit() -> None:
    assert where(UNITS, worker("a", slots=1)) == ["a"] * 4


def test_without_workers_no_unit_has_a_place() -> None:
    assert place(UNITS, [], {}) == {}


@given(st.lists(st.tuples(st.sampled_from("xyz"), st.integers(1, 8)), min_size=1, max_size=8), st.integers(0, 40))
def test_every_unit_is_placed_evenly_and_the_order_of_workers_says_nothing(
    workers: list[tuple[str, int]], count: int
) -> None:
    candidates = [worker(f"w{number}", zone, slots) for number, (zone, slots) in enumerate(workers)]
    units = [f"job@1-abcdef/n-{index}" for index in range(count)]
    placed = place(units, candidates, {})
    assert placed == place(units, list(reversed(candidates)), {})
    assert list(placed) == units
    load = Counter(candidate.worker for candidate in placed.values())
    fullest = max((load[c.worker] - 1) / c.slots for c in candidates)
    assert all(load[c.worker] / c.slots >= fullest for c in candidates), "a unit went to a fuller worker"


# -- secondaries ------------------------------------------------------------------------------------------------------


def backups(room: Room, *primaries: str) -> list[str]:
    found = []
    for unit, primary in zip(UNITS, primaries, strict=False):
        chosen = room.for_secondary(primary)
        found.append("" if chosen is None else chosen.worker)
        if chosen is not None:
            room.hold(unit, chosen.worker, backs=primary)
    return found


def test_a_secondary_is_never_on_its_primarys_worker() -> None:
    assert backups(Room([worker("a")]), "a") == [""]
    assert backups(Room([worker("a"), worker("b", slots=1)]), "a", "a", "a") == ["b", "b", "b"]


def test_a_secondary_goes_to_another_zone_even_if_that_is_full() -> None:
    room = Room([worker("a", "x"), worker("b", "x"), worker("c", "y", slots=1)])
    assert backups(room, "a", "a") == ["c", "c"]


def test_a_secondary_goes_to_its_primarys_zone_if_there_is_no_other() -> None:
    assert backups(Room([worker("a", "x"), worker("b", "x")]), "a") == ["b"]


def test_a_full_worker_takes_secondaries_only_after_the_others() -> None:
    room = Room([worker("a"), worker("b", slots=1), worker("c", slots=2)])
    room.hold("other@2-abcdef/n-0", "b")
    assert backups(room, "a", "a", "a") == ["c", "c", "b"]


def test_primaries_of_one_domain_do_not_share_a_secondary_where_avoidable() -> None:
    """MECHANISMS H9."""
    room = Room([worker("a", "x"), worker("b", "x"), worker("c", "y", slots=8), worker("d", "z", slots=4)])
    assert backups(room, "a", "b") == ["c", "d"]
    assert backups(Room([worker("a"), worker("b"), worker("c")]), "a", "a", "b") == ["b", "c", "a"]


def test_the_standbys_of_one_worker_lie_on_as_many_peers_as_there_are() -> None:
    """MECHANISMS C4: they come back in parallel."""
    room = Room([worker(name) for name in "abcde"])
    units = [f"job@1-abcdef/n-{index}" for index in range(8)]
    for unit in units:
        room.hold(unit, "a")
    for unit in units:
        chosen = room.for_secondary("a")
        assert chosen is not None
        room.hold(unit, chosen.worker, backs="a")
    held = Counter({name: room.backed("a", name) for name in "abcde"})
    assert held == {"a": 0, "b": 2, "c": 2, "d": 2, "e": 2}


def test_zones_come_before_peers_and_the_group_of_the_worker_before_that_of_its_zone() -> None:
    fleet = [worker("a", "x"), worker("b", "x"), worker("c", "y"), worker("d", "y"), worker("e", "z")]
    room = Room(fleet)
    for _ in range(3):
        room.hold("other@2-abcdef/n-0", "c", backs="b")
    chosen = []
    for index in range(6):
        found = room.for_secondary("a")
        assert found is not None
        room.hold(f"job@1-abcdef/n-{index}", found.worker, backs="a")
        chosen.append(found.worker)
    assert sorted(chosen) == ["c", "c", "d", "d", "e", "e"]
    assert chosen[0] != "c", "which backs up the zone already"


def test_the_zone_of_a_dead_primary_counts_too() -> None:
    room = Room([worker("b", "x"), worker("c", "y")], {"a": "x"})
    assert backups(room, "a") == ["c"]


def test_a_released_copy_takes_no_room() -> None:
    room = Room([worker("a", "x"), worker("b", "y")])
    for hold in (room.hold, room.release):
        hold(UNITS[0], "a")
        hold(UNITS[0], "b", backs="a")
        hold(UNITS[1], "a")
    assert room.for_primary(UNITS[2]) == worker("a", "x")
    assert backups(room, "a", "b") == ["b", "a"]


# -- what copies are kept apart by ------------------------------------------------------------------------------------


def on_machine(name: str, zone: str, host: str) -> Candidate:
    return Candidate(name, "1", zone, 8, host)


def test_copies_are_kept_apart_by_zone_by_host_or_not_at_all() -> None:
    fleet = [on_machine("a", "x", "m"), on_machine("b", "x", "n"), on_machine("c", "y", "m"), on_machine("d", "y", "n")]
    room = Room(fleet)
    room.hold("other@2-abcdef/n-0", "d")
    places = {spread: room.for_secondary("a", spread) for spread in ("zone", "host", "none")}
    room.hold("other@2-abcdef/n-1", "b")
    assert {spread: one.worker for spread, one in places.items() if one is not None} == {
        "zone": "c",
        "host": "b",
        "none": "b",
    }


def test_balance_keeps_the_copies_of_a_unit_apart_by_what_its_job_says() -> None:
    fleet = [Host("a", "x", 8, "m"), Host("b", "y", 8, "m"), Host("c", "x", 8, "n"), Host("e", "z", 8, "k")]
    load = [Placement(f"u{n}", "a", ("b",)) for n in range(3)]
    moves = {
        spread: balance([*load, Placement("u", "a", ("b",), frozenset("c"), spread)], fleet, calm=True)
        for spread in ("zone", "host")
    }
    assert moves == {"zone": Relief("u", "c"), "host": Relief("u", "c")}
    near = [Host("a", "x", 8, "m"), Host("b", "x", 8, "n"), Host("c", "x", 8, "o")]
    moves = {
        spread: balance([*load, Placement("u", "a", ("b",), frozenset("c"), spread)], near, calm=True)
        for spread in ("zone", "host", "none")
    }
    assert moves == {"zone": None, "host": Relief("u", "c"), "none": Relief("u", "c")}


def test_a_worker_that_may_not_lead_yet_gets_a_secondary_only_where_no_other_does() -> None:
    old, new = worker("b", "x"), Candidate("c", "1", "y", 8, shown=False)
    room = Room([worker("a", "x"), old, new])
    assert room.for_secondary("a") == old, "also in the primary's zone: it can take over"
    assert room.for_primary(UNITS[0], without=["a", "b"]) is None
    assert room.for_primary(UNITS[0], without=["a", "b"], unshown=True) == new
    assert Room([worker("a", "x"), new]).for_secondary("a") == new
