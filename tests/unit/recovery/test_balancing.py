"""Balance: from whatever placement, a few moves lead to a fair one, and then nothing moves any more."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from holdfast.services.recovery.core.placement.balancing import Host, Placement, Relief, balance

Units = dict[str, list[str]]
"""Of each unit the workers of its copies, the active one first."""


def fleet(*slots: int, zones: str = "") -> list[Host]:
    return [Host(f"w{n}", zones[n % len(zones)] if zones else f"z{n}", count) for n, count in enumerate(slots)]


def placements(units: Units, hosts: list[Host]) -> list[Placement]:
    fits = frozenset(host.worker for host in hosts)
    return [Placement(unit, copies[0], tuple(copies[1:]), fits) for unit, copies in units.items()]


def carried_out(units: Units, move: Relief, hosts: list[Host]) -> Units:
    """As recovery does it: the standby changes places, or a new copy drives out one of the two."""
    active, *others = units[move.unit]
    zones = {host.worker: host.zone for host in hosts}
    if move.worker in others or not others:
        left = [active] if others else []
    else:
        both = [*others, active]
        left = [next((one for one in both if zones[one] != zones[move.worker]), both[0])]
    return units | {move.unit: [move.worker, *left]}


def course(units: Units, hosts: list[Host], most: int = 500) -> list[Units]:
    """The placements on the way."""
    found = [units]
    while (move := balance(placements(found[-1], hosts), hosts, calm=True)) is not None:
        assert len(found) <= most, "it does not end"
        found.append(carried_out(found[-1], move, hosts))
    return found


def active(units: Units) -> Counter[str]:
    return Counter(copies[0] for copies in units.values())


def beyond_slots(units: Units, hosts: list[Host]) -> int:
    held = Counter(worker for copies in units.values() for worker in copies)
    return sum(max(0, held[host.worker] - host.slots) for host in hosts)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Units, list[Host]]:
    hosts = fleet(
        *draw(st.lists(st.integers(1, 12), min_size=2, max_size=6)),
        zones=draw(st.sampled_from(["", "xyz", "xxy", "x"])),
    )
    names = [host.worker for host in hosts]
    copies = st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True)
    drawn = draw(st.lists(copies, max_size=16))
    return {f"job@1/u-{index}": one for index, one in enumerate(drawn)}, hosts


@given(clusters())
def test_from_any_placement_it_comes_to_rest_and_no_placement_comes_back(made: tuple[Units, list[Host]]) -> None:
    units, hosts = made
    way = course(units, hosts)
    seen = [sorted((unit, tuple(copies)) for unit, copies in one.items()) for one in way]
    assert len({str(one) for one in seen}) == len(seen)
    assert beyond_slots(way[-1], hosts) <= beyond_slots(units, hosts)


@given(st.integers(2, 6), st.data())
def test_workers_of_the_same_size_end_with_as_many_active_units_each_as_can_be(count: int, data: st.DataObject) -> None:
    hosts = fleet(*[32] * count)
    names = [host.worker for host in hosts]
    copies = st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True)
    drawn = data.draw(st.lists(copies, max_size=14))
    units = {f"job@1/u-{index}": one for index, one in enumerate(drawn)}
    way = course(units, hosts)
    shares = [active(way[-1])[name] for name in names]
    assert max(shares) - min(shares) <= 1
    assert len(way) - 1 <= len(units), "no unit more often than once on average"


@given(clusters())
def test_copies_in_two_zones_stay_in_two_zones(made: tuple[Units, list[Host]]) -> None:
    units, hosts = made
    zones = {host.worker: host.zone for host in hosts}
    last = course(units, hosts)[-1]
    for unit, copies in units.items():
        if len({zones[one] for one in copies}) == 2:
            assert len({zones[one] for one in last[unit]}) == 2


def test_a_standby_takes_over_before_a_new_copy_is_made() -> None:
    units = {"a": ["w0", "w2"], "b": ["w0", "w2"], "c": ["w0", "w2"]}
    assert balance(placements(units, fleet(8, 8, 8)), fleet(8, 8, 8), calm=True) == Relief("a", "w2")


def test_a_difference_of_one_is_left_alone() -> None:
    units = {"a": ["w0"], "b": ["w0"], "c": ["w1"]}
    assert balance(placements(units, fleet(8, 8)), fleet(8, 8), calm=True) is None


def test_a_larger_worker_takes_more() -> None:
    units = {str(index): ["w1"] for index in range(12)}
    assert active(course(units, fleet(16, 8))[-1]) == {"w0": 8, "w1": 4}


def test_more_copies_than_slots_are_relieved_though_the_active_units_are_even() -> None:
    hosts = fleet(2, 4, 4)
    units = {"a": ["w0", "w1"], "b": ["w1", "w0"], "c": ["w2", "w0"]}
    assert beyond_slots(units, hosts) == 1
    assert beyond_slots(course(units, hosts)[-1], hosts) == 0


def test_a_unit_that_may_not_move_stays_and_counts() -> None:
    hosts = fleet(8, 8)
    fixed = [Placement(str(index), "w0") for index in range(3)]
    free = Placement("x", "w0", (), frozenset({"w0", "w1"}))
    assert balance([*fixed, free], hosts, calm=True) == Relief("x", "w1")
    assert balance(fixed, hosts, calm=True) is None


def test_no_unit_moves_while_the_cluster_is_not_calm() -> None:
    units = {str(index): ["w0"] for index in range(6)}
    assert balance(placements(units, fleet(8, 8)), fleet(8, 8), calm=False) is None


def test_units_of_a_worker_that_is_no_longer_there_are_no_business_of_balance() -> None:
    hosts = fleet(8, 8)
    gone = [Placement(str(index), "w7", (), frozenset({"w0", "w1"})) for index in range(6)]
    assert balance(gone, hosts, calm=True) is None
