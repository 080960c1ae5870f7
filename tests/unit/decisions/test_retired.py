"""What is over is forgotten, and nothing that is said of it later counts."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas import assignments
from holdfast.schemas.assignments import PRIMARY, RUN, Assignment, Change, Copy, Goal
from holdfast.schemas.retired import Retired, submitted
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.decisions.standings import Standings

GENERATIONS = [f"{offset}-{digits * 6}" for offset in range(4) for digits in "ab"]
UNIT = "j@2-aaaaaa/u-0"
HERE = (Copy("w1", "1", PRIMARY),)

some = st.builds(Retired, st.integers(0, 5), st.lists(st.sampled_from(GENERATIONS), unique=True).map(tuple))


def over(one: Retired) -> set[str]:
    return {generation for generation in GENERATIONS if one.has(generation)}


@given(some, some, st.sets(st.sampled_from(GENERATIONS), max_size=2))
def test_joined_is_what_either_has_retired_but_for_what_is_held(one: Retired, other: Retired, held: set[str]) -> None:
    assert over(one.joined(other, held)) == (over(one) | over(other)) - held


@given(st.lists(some, max_size=5), st.randoms())
def test_the_order_and_the_number_of_authors_do_not_matter(all_of: list[Retired], random: object) -> None:
    shuffled = sorted([*all_of, *all_of], key=lambda _: random.random())  # type: ignore[attr-defined]
    first, second = Retired(), Retired()
    for one in all_of:
        first = first.joined(one)
    for one in shuffled:
        second = second.joined(one)
    assert first == second


def test_a_name_that_is_no_generation_is_never_retired() -> None:
    everything = Retired(2**53)
    assert [submitted(text) for text in ("7-abcdef", "x-abcdef", "", "-1-abcdef", "9" * 5_000)] == [7, *[None] * 4]
    assert everything.has("7-abcdef")
    assert not everything.has("x")


def record(*changes: Change, goals: tuple[Goal, ...] = (), retired: Retired | None = None) -> Assignment:
    return Assignment("a", 0, changes, goals=goals, retired=retired)


def test_an_old_placement_of_a_forgotten_unit_is_no_first_one() -> None:
    assigned = Assigned()
    for one in (Change(UNIT, 1, HERE), Change(UNIT, 2)):
        assert assigned.read(record(one)) == [one]
    assigned.read(record(retired=Retired(3)))
    assert assigned.units() == {}
    assert assigned.read(record(Change(UNIT, 1, HERE))) == [], "the proposal of a replica that hung meanwhile"
    later = Change("j@3-bbbbbb/u-0", 1, HERE)
    assert assigned.read(record(later)) == [later]


def test_a_unit_that_has_a_copy_is_not_forgotten_whoever_says_so() -> None:
    assigned = Assigned([Change(UNIT, 1, HERE)])
    assigned.read(record(retired=Retired(9)))
    assert assigned.epoch(UNIT) == 1
    assert assigned.read(record(Change(UNIT, 2))) != []
    assigned.read(record(retired=Retired(9)))
    assert assigned.units() == {}


def test_a_goal_of_a_retired_generation_is_none() -> None:
    standings, goal = Standings(), Goal("j", "2-aaaaaa", RUN)
    standings.read(0, record(goals=(goal,)))
    standings.read(1, record(retired=Retired(3)))
    assert standings.goal(goal.job_key) is None
    standings.read(2, record(goals=(goal,)))
    assert standings.goal(goal.job_key) is None
    assert standings.snapshot().retired == Retired(3)


def test_a_record_without_it_is_as_it_was() -> None:
    plain = assignments.encode(record(Change(UNIT, 1)))
    assert b"retired" not in plain
    assert assignments.decode(plain).retired is None
    with_it = record(retired=Retired(3, ("1-aaaaaa",)))
    assert assignments.decode(assignments.encode(with_it)) == with_it


@pytest.mark.parametrize("below", ["-1", "1e3", '"3"'])
def test_a_record_that_cannot_be_is_malformed(below: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        assignments.decode(b'{"author":"a","time_ms":0,"changes":[],"retired":{"below":%s}}' % below.encode())
