"""Of the dozens of events that a failure leaves people see one line."""

from __future__ import annotations

import pytest

from holdfast.schemas.events import Event
from holdfast.services.view.happenings import Story, happenings_of, summary

HYBRID_TAKES_OVER = "hybrid: the primary is gone: the secondary takes its place (worker ended) ({} commits)"
ADDED = "hybrid: there is no secondary: a new secondary ({} commits, {})"


def placed(unit: str, worker: str, at_ms: int = 0) -> Event:
    return Event(at_ms, "placed", "flights", unit, 1, worker, "its job is to run: placed")


def decided(at_ms: int, unit: str, epoch: int, detail: str, detection_ms: float | None = None) -> Event:
    phases = {} if detection_ms is None else {"detection": detection_ms}
    return Event(at_ms, "decided", "flights", unit, epoch, detail=detail, phases_ms=phases)


def active(at_ms: int, unit: str, epoch: int, worker: str, first_ms: float) -> Event:
    phases = {"activation": 10.0, "replay": 20.0, "first_output": first_ms, "recovered": 90.0}
    return Event(at_ms, "unit-active", "flights", unit, epoch, worker, phases_ms=phases)


def begun() -> list[Event]:
    """Two units that worker-1 leads, and one whose standby it has."""
    return [
        Event(0, "job-admitted", "flights", detail="3 units"),
        placed("a-0", "worker-1"),
        placed("b-0", "worker-1"),
        placed("c-0", "worker-2"),
        active(900, "a-0", 1, "worker-1", 300.0),
        decided(1_000, "a-0", 2, ADDED.format("worker-1", "worker-2")),
        decided(1_000, "b-0", 2, ADDED.format("worker-1", "worker-3")),
        decided(1_000, "c-0", 2, ADDED.format("worker-2", "worker-1")),
        Event(1_200, "copy-restoring", "flights", "a-0", 2, "worker-2"),
    ]


def killed(at_ms: int) -> list[Event]:
    return [
        Event(at_ms, "worker-crashed", worker="worker-1", detail="status -9, at batch 7 of a-0"),
        decided(at_ms + 1, "a-0", 3, HYBRID_TAKES_OVER.format("worker-2"), 40.0),
        decided(at_ms + 1, "b-0", 3, HYBRID_TAKES_OVER.format("worker-3"), 40.0),
        decided(at_ms + 2, "c-0", 3, "hybrid: the secondary is gone: the primary continues alone (worker-2 commits)"),
        active(at_ms + 90, "a-0", 3, "worker-2", 56.0),
        Event(at_ms + 95, "copy-running", "flights", "b-0", 3, "worker-3"),
        active(at_ms + 99, "b-0", 3, "worker-3", 80.0),
        decided(at_ms + 1_100, "a-0", 4, ADDED.format("worker-2", "worker-1")),
        Event(at_ms + 2_300, "protected-again", worker="worker-1", phases_ms={"instability": 2_300.0}),
    ]


LINE = (
    "worker-1 died (status -9, at batch 7 of a-0): a-0 silent for 96 ms, worker-2 leads; "
    "b-0 silent for 120 ms, worker-3 leads; standby of c-0; all protected again after 2.3 s"
)


def test_a_kill_is_one_line_with_the_silence_of_each_unit() -> None:
    found = happenings_of([*begun(), *killed(10_000)], "flights")
    assert [str(one) for one in found] == ["job-admitted 3 units", LINE]
    assert [one.kind for one in found] == ["job-admitted", "failure"]


def test_a_silence_that_was_over_at_once_says_so() -> None:
    over = Event(12_300, "protected-again", worker="worker-1", phases_ms={"instability": 20.0})
    found = happenings_of([*begun(), *killed(10_000)[:-1], over], "flights")
    assert str(found[-1]) == LINE.replace("after 2.3 s", "at once")


def test_the_units_of_all_jobs_are_named_with_their_jobs() -> None:
    (line,) = [one for one in happenings_of([*begun(), *killed(10_000)]) if one.kind == "failure"]
    assert "flights/a-0 silent for 96 ms" in line.text
    assert happenings_of([*begun(), *killed(10_000)], "other") == []


def test_a_second_kill_of_the_same_worker_is_a_second_line() -> None:
    back = [
        decided(15_000, "a-0", 5, "hybrid: a move: x (worker-1 commits, worker-2)"),
        decided(15_000, "b-0", 5, "hybrid: a move: x (worker-1 commits, worker-3)"),
        decided(15_000, "c-0", 5, ADDED.format("worker-2", "worker-1")),
    ]
    again = [
        Event(one.time_ms, one.kind, one.job, one.unit, one.epoch + 4 if one.epoch >= 0 else -1, one.worker,
              one.detail, one.phases_ms)
        for one in killed(20_000)
    ]  # fmt: skip
    failures = [
        one for one in happenings_of([*begun(), *killed(10_000), *back, *again], "flights") if one.kind == "failure"
    ]
    assert [one.time_ms for one in failures] == [10_001, 20_001]
    assert [one.text for one in failures] == [LINE, LINE]
    assert summary(failures) == f"2 failures, the last: {LINE}"


def test_a_silent_worker_that_turns_out_to_be_gone_is_one_line() -> None:
    found = happenings_of([
        *begun(),
        decided(5_000, "a-0", 3, "hybrid: the primary is silent: the secondary takes over until the primary answers "
                "(worker-1, worker-2 commits)", 230.0),
        active(5_100, "a-0", 3, "worker-2", 70.0),
        decided(35_000, "a-0", 4, HYBRID_TAKES_OVER.format("worker-2")),
    ], "flights")  # fmt: skip
    assert [one.text for one in found if one.kind == "failure"] == [
        "worker-1 was silent: a-0 silent for 300 ms, worker-2 leads"
    ]


def test_a_unit_without_a_standby_says_what_it_waits_for() -> None:
    alone = [placed("a-0", "worker-1"), decided(5_000, "a-0", 2, "none: the primary is gone: placed again from the "
             "checkpoint log (worker worker-1 returned) (worker-1 commits)", 1_800.0)]  # fmt: skip
    (silent,) = happenings_of(alone, "flights")
    assert silent.text == "worker-1 died: a-0 silent, worker-1 leads"
    (over,) = happenings_of([*alone, active(7_000, "a-0", 2, "worker-1", 200.0)], "flights")
    assert over.text == "worker-1 died: a-0 silent for 2,000 ms, worker-1 leads"


def test_equal_lines_in_a_row_are_one_with_their_number() -> None:
    refused = [Event(at, "record-refused", "flights", detail="no frame") for at in range(12)]
    assert [str(one) for one in happenings_of(refused, "flights")] == ["record-refused no frame (12 times)"]


def test_a_follower_hears_of_a_failure_once_all_is_over() -> None:
    story = Story("flights")
    lines = [one for event in [*begun(), *killed(10_000)] for one in story.read(event)]
    assert [one.text for one in lines] == ["job-admitted 3 units", LINE]
    assert story.rest() == []


@pytest.mark.parametrize("detail", ["", "hybrid", "hybrid: the primary is gone", "(", "a: b: c ()"])
def test_a_decision_that_says_less_is_no_error(detail: str) -> None:
    happenings_of([placed("a-0", "worker-1"), decided(1, "a-0", 2, detail), decided(2, "x-0", 2, detail)])
