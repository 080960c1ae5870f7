"""Stairs of an incident: how many queries were available since when."""

from __future__ import annotations

from holdfast.schemas.events import Event
from holdfast.services.view.stairs import Stair, Stairs, stairs

JOB, QUERIES = "j", ("a", "b", "c")


def told(*lines: tuple[int, str, str]) -> list[Event]:
    return [Event(at_ms, kind, job=JOB, detail=detail) for at_ms, kind, detail in lines]


BEGUN = told(
    (1_000, "query-unavailable", "a"),
    (1_010, "query-unavailable", "b"),
    (1_100, "incident", "worker-1 failed"),
    (1_200, "incident-planned", "a plan"),
    (2_100, "query-available", "b"),
)


def test_each_query_that_is_back_is_a_step() -> None:
    found = stairs(JOB, QUERIES, BEGUN)
    assert found is not None
    assert (found.began_ms, found.queries, found.over) == (1_100, 3, False)
    assert found.steps == (Stair(0, 1), Stair(1_000, 2))
    more = told(
        (3_100, "query-unavailable", "a catches up, 4 times the latency before"),
        (4_100, "query-available", "a, 1.1 times"),
    )
    assert [one.available for one in (stairs(JOB, QUERIES, [*BEGUN, *more]) or found).steps] == [1, 2, 3]


def test_an_incident_that_grows_is_one_and_the_next_one_begins_again() -> None:
    grown = [*BEGUN, *told((2_500, "incident", "worker-2 failed"))]
    assert (stairs(JOB, QUERIES, grown) or fail()).began_ms == 1_100
    over = [*grown, *told((3_000, "incident-over", ""), (3_100, "query-available", "a"))]
    found = stairs(JOB, QUERIES, over) or fail()
    assert (found.over, found.steps[-1]) == (True, Stair(2_000, 3)), "a query may be as fast as before only later"
    later = [*over, *told((9_000, "query-unavailable", "c"))]
    assert (stairs(JOB, QUERIES, later) or fail()).steps == found.steps, "it has nothing to do with the incident"
    again = [*later, *told((9_100, "incident", ""))]
    assert (stairs(JOB, QUERIES, again) or fail()).steps == (Stair(0, 2),)


def test_a_query_whose_first_event_says_that_it_is_available_was_not_before() -> None:
    assert (stairs(JOB, QUERIES, BEGUN[2:]) or fail()).steps == (Stair(0, 2), Stair(1_000, 3))


def test_events_of_other_jobs_and_of_no_incident_give_none() -> None:
    assert stairs("k", QUERIES, BEGUN) is None
    assert stairs(JOB, QUERIES, BEGUN[:2]) is None


def fail() -> Stairs:
    raise AssertionError("there are stairs")
