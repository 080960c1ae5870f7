"""Takeovers are folded from events: why, who leads since, the phases, and whether the promise was kept."""

from __future__ import annotations

from holdfast.schemas.events import Alternative, Event
from holdfast.services.view.takeovers import Takeovers

GONE = "hybrid: the primary is gone: the secondary takes its place (worker ended) (worker-2 commits)"
ADDED = "hybrid: there is no secondary: a new secondary (worker-2 commits, worker-3)"
DRILLED = "hybrid: a drill was asked for: the secondary takes its place (worker-3 commits, worker-2)"


def read(*events: Event) -> Takeovers:
    found = Takeovers()
    for one in events:
        found.read(one)
    return found


def of_unit(at_ms: int, kind: str, epoch: int, detail: str = "", worker: str = "", **more: object) -> Event:
    return Event(at_ms, kind, "flights", "a-0", epoch, worker, detail, **more)  # type: ignore[arg-type]


PLACED = of_unit(0, "placed", 1, "its job is to run: placed", "worker-1")
FAILED = of_unit(1_000, "decided", 2, GONE, phases_ms={"detection": 40.0})


def test_a_takeover_has_its_phases_and_says_whether_the_promise_was_kept() -> None:
    phases = {"activation": 10.0, "replay": 20.0, "first_output": 56.0, "recovered": 90.0}
    found = read(
        PLACED,
        FAILED,
        of_unit(1_100, "unit-active", 2, worker="worker-2", phases_ms=phases),
        of_unit(1_200, "promise-kept", 2, promise_ms=500.0, predicted_ms={"total": 200.0}),
        of_unit(2_000, "decided", 3, ADDED),
    )
    (one,) = found.newest()
    assert (one.failed, one.leads, one.scheme, one.drill) == ("worker-1", "worker-2", "hybrid", False)
    assert (one.sign, one.move) == ("the primary is gone", "the secondary takes its place (worker ended)")
    assert (one.silent_ms, one.total_ms, one.promise_ms, one.kept) == (96.0, 130.0, 500.0, True)


def test_a_takeover_has_the_schemes_that_were_weighed_when_its_scheme_was_chosen() -> None:
    weighed = (Alternative("hybrid", 90.0, 0.4), Alternative("passive", 900.0, 0.1, rejected="810 ms too long"))
    chosen = of_unit(500, "scheme-chosen", 1, alternatives=weighed)
    assert read(PLACED, chosen, FAILED).newest()[0].alternatives == weighed
    another = of_unit(600, "scheme-chosen", 1, alternatives=weighed[::-1])
    assert read(PLACED, chosen, another, FAILED).newest()[0].alternatives == (), "the unit had another scheme by then"
    assert read(PLACED, FAILED, chosen).newest()[0].alternatives == (), "a later choice says nothing of it"


def test_a_takeover_under_way_has_no_times_yet() -> None:
    (one,) = read(PLACED, FAILED).newest("flights")
    assert (one.detection_ms, one.silent_ms, one.total_ms, one.kept) == (40.0, None, None, None)
    assert read(PLACED, FAILED).newest("another") == []


def test_a_drill_is_a_takeover_that_no_failure_made_and_the_newest_comes_first() -> None:
    found = read(PLACED, FAILED, of_unit(3_000, "decided", 3, DRILLED)).newest()
    assert [(one.epoch, one.drill, one.failed, one.leads) for one in found] == [
        (3, True, "worker-2", "worker-3"),
        (2, False, "worker-1", "worker-2"),
    ]


def test_a_new_standby_before_the_end_changes_nothing_and_another_takeover_supersedes_it() -> None:
    phases = {"activation": 10.0, "first_output": 56.0, "recovered": 90.0}
    active = of_unit(3_100, "unit-active", 3, worker="worker-2", phases_ms=phases)
    judged = of_unit(3_200, "promise-broken", 2, promise_ms=50.0)
    (one,) = read(PLACED, FAILED, of_unit(2_000, "decided", 3, ADDED), active, judged).newest()
    assert (one.epoch, one.total_ms, one.kept) == (2, 130.0, False)

    moved = of_unit(9_000, "unit-active", 5, phases_ms={"recovered": 1.0})
    newer = of_unit(4_000, "decided", 4, GONE, phases_ms={"detection": 5.0})
    last, first = read(PLACED, FAILED, newer, moved, of_unit(9_500, "unit-active", 6, phases_ms=phases)).newest()
    assert (first.superseded, first.total_ms, last.superseded, last.total_ms) == (True, None, False, 6.0)


def test_the_times_of_the_judge_stand_where_the_copy_has_told_none() -> None:
    phases = {"detection": 40.0, "activation": 10.0, "catching-up": 80.0, "total": 130.0}
    (one,) = read(PLACED, FAILED, of_unit(1_200, "takeover-judged", 2, phases_ms=phases)).newest()
    assert (one.activation_ms, one.total_ms, one.silent_ms, one.kept) == (10.0, 130.0, None, None)
