"""Which standbys move once a rebalance period (MECHANISMS C7)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from holdfast.services.kernel.protection.reassigning import HALF, LITERAL, Backed, Reassigned, reassigned

WORKERS = ("s1", "s2", "s3", "s4")


def backed(unit: str, primary: str, backup: str, expected_ms: float = 10.0, upkeep_ms: float = 1.0) -> Backed:
    return Backed(unit, primary, backup, expected_ms, upkeep_ms)


def after(units: list[Backed], moves: tuple[Reassigned, ...]) -> list[Backed]:
    to = {move.unit: move.to for move in moves}
    return [replace(one, backup=to.get(one.unit, one.backup)) for one in units]


def four_of_s1() -> list[Backed]:
    """All backed up on s2; the other workers have one unit each, so that s1 is the worst."""
    return [backed(f"u{n}", "s1", "s2") for n in range(4)] + [backed("v", "s2", "s3"), backed("w", "s3", "s2")]


def test_half_of_the_difference_moves_to_the_workers_smallest_group_and_then_it_rests() -> None:
    """The paper's figure 5(a): four and none become two and two."""
    units, three = four_of_s1(), WORKERS[:3]
    moves = reassigned(units, three)
    assert moves == (Reassigned("u0", "s3"), Reassigned("u1", "s3"))
    units = after(units, moves)
    assert Counter(one.backup for one in units if one.primary == "s1") == {"s2": 2, "s3": 2}
    assert reassigned(units, three) == ()


def test_as_printed_four_and_none_become_none_and_four_and_back() -> None:
    units, three = four_of_s1(), WORKERS[:3]
    units = after(units, reassigned(units, three, LITERAL))
    assert Counter(one.backup for one in units if one.primary == "s1") == {"s3": 4}
    units = after(units, reassigned(units, three, LITERAL))
    assert Counter(one.backup for one in units if one.primary == "s1") == {"s2": 4}


def test_a_worker_whose_own_standbys_are_spread_is_relieved_of_those_of_another() -> None:
    """The paper's figure 5(b): s2 is the worst and holds too many images, so s4 moves its standbys from s2 to s1."""
    units = [
        *(backed(f"a{n}", "s2", backup, 20.0) for n, backup in enumerate(("s1", "s3", "s4"))),
        *(backed(f"b{n}", "s4", "s2", 4.0) for n in range(4)),
        backed("c", "s3", "s2", 4.0),
        backed("d", "s1", "s3", 2.0),
    ]
    assert reassigned(units, WORKERS) == (Reassigned("b0", "s1"), Reassigned("b1", "s1"))


def test_a_worker_with_more_peers_than_units_is_relieved_of_the_images_that_it_holds_for_others() -> None:
    """Half of its only unit on s1 is none, and s3 and s4 hold nothing of it: only the flood of images can go."""
    units = [
        backed("a", "s2", "s1", 90.0),
        *(backed(f"b{n}", "s4", "s2", 4.0) for n in range(4)),
        backed("c", "s3", "s2", 4.0),
        backed("d", "s1", "s3", 2.0),
    ]
    assert reassigned(units, WORKERS) == (Reassigned("b0", "s1"), Reassigned("b1", "s1"))


def test_a_standby_that_costs_more_than_is_to_move_stays() -> None:
    units = [
        backed("dear", "s1", "s2", 30.0, upkeep_ms=10.0),
        backed("cheap", "s1", "s2", 10.0, upkeep_ms=2.0),
        backed("v", "s2", "s3"),
        backed("w", "s3", "s2"),
    ]
    assert reassigned(units, WORKERS[:3]) == (Reassigned("cheap", "s3"),)


def test_alone_or_without_units_nothing_moves() -> None:
    assert reassigned([], WORKERS) == ()
    assert reassigned([backed("u", "s1", "s2")], ["s1"]) == ()
    assert reassigned([backed("u", "s1", "gone")], WORKERS) == ()


UNITS = st.lists(
    st.tuples(st.sampled_from(WORKERS), st.sampled_from(WORKERS), st.integers(1, 50), st.integers(1, 9)), max_size=16
)


@given(UNITS)
def test_no_worker_ever_backs_itself_up_and_all_that_moves_comes_from_one_group(
    drawn: list[tuple[str, str, int, int]],
) -> None:
    units = [backed(f"u{n}", i, j, r, h) for n, (i, j, r, h) in enumerate(drawn) if i != j]
    moves = reassigned(units, WORKERS)
    moved = after(units, moves)
    assert all(one.primary != one.backup for one in moved)
    named = {move.unit for move in moves}
    assert len({(one.primary, one.backup) for one in units if one.unit in named}) <= 1
    assert len({move.to for move in moves}) <= 1
    assert all(one.backup != later.backup for one, later in zip(units, moved, strict=True) if one.unit in named)


@given(st.lists(st.sampled_from(WORKERS[1:]), max_size=12), st.integers(0, 9))
def test_with_half_of_the_difference_equal_units_come_to_rest(backups: list[str], others: int) -> None:
    """They never go to and fro."""
    units = [backed(f"u{n}", "s1", backup) for n, backup in enumerate(backups)]
    units += [backed(f"v{n}", WORKERS[1 + n % 3], WORKERS[1 + (n + 1) % 3]) for n in range(others)]
    for _ in range(4 * len(units) + 1):
        moves = reassigned(units, WORKERS, HALF)
        if not moves:
            return
        units = after(units, moves)
    raise AssertionError("it goes to and fro")


# -- what the paper leaves open: docs/decisions/0088 ------------------------------------------------------------------


def test_beside_workers_that_lead_nothing_a_worker_still_spreads_its_own_standbys() -> None:
    """Their R is 0, and no group is smaller than that."""
    units = [backed(f"u{n}", "s1", "s2") for n in range(8)]
    seen = []
    while moves := reassigned(units, WORKERS):
        units = after(units, moves)
        seen.append(Counter(one.backup for one in units))
    assert seen == [{"s2": 4, "s3": 4}, {"s2": 2, "s3": 4, "s4": 2}, {"s2": 3, "s3": 3, "s4": 2}]


def test_a_standby_goes_only_where_it_may_be() -> None:
    """Zones: s1 and s3 are in one."""
    apart = frozenset({"s2", "s4"})
    units = [replace(one, fits=apart if one.primary == "s1" else None) for one in four_of_s1()]
    assert reassigned(units, WORKERS) == (Reassigned("u0", "s4"), Reassigned("u1", "s4"))
    assert reassigned(units, WORKERS[:3]) == ()
    fixed = [replace(one, fits=frozenset()) for one in four_of_s1()]
    assert reassigned(fixed, WORKERS) == ()


def test_a_small_difference_moves_nothing() -> None:
    assert reassigned(four_of_s1(), WORKERS[:3], least_ms=39.0)
    assert reassigned(four_of_s1(), WORKERS[:3], least_ms=40.0) == ()
