"""What workers report, and for how long it counts."""

from __future__ import annotations

from holdfast.schemas.assignments import PRIMARY, Copy
from holdfast.schemas.heartbeats import CopyState, Exit, Heartbeat
from holdfast.services.controller.core.fleet import Fleet
from holdfast.services.kernel.liveness.detector import REPORT_US

STEP_MS = 50


def beat(worker: str, incarnation: str = "1", *copies: CopyState) -> Heartbeat:
    return Heartbeat(worker, incarnation, 0, slots=8, copies=copies)


def alive(fleet: Fleet) -> list[tuple[str, str]]:
    return [(one.worker, one.incarnation) for one in fleet.alive()]


def answers(fleet: Fleet, worker: str, incarnation: str = "1") -> bool:
    return fleet.answers(Copy(worker, incarnation, PRIMARY))


class Clock:
    """A fleet whose turns come often enough."""

    def __init__(self, beat_us: int = 100_000) -> None:
        self.fleet = Fleet(beat_us)
        self.now_ms = 0
        self.fleet.advance(0)

    def to(self, now_ms: int) -> Fleet:
        while self.now_ms < now_ms:
            self.now_ms = min(self.now_ms + STEP_MS, now_ms)
            self.fleet.advance(self.now_ms)
        return self.fleet


def test_a_silent_worker_gets_no_units_and_a_while_later_gives_no_sign_of_life() -> None:
    clock = Clock()
    clock.fleet.read(beat("a"))
    assert alive(clock.to(300)) == [("a", "1")]
    assert alive(clock.to(500)) == []
    assert answers(clock.to(REPORT_US // 1000), "a")
    assert not answers(clock.to(REPORT_US // 1000 + STEP_MS), "a")


def test_an_exit_is_final_for_its_incarnation() -> None:
    fleet = Clock().fleet
    fleet.read(beat("a"))
    assert fleet.read(Exit("a", "1", 0))
    fleet.read(beat("a"))
    assert alive(fleet) == []
    fleet.read(beat("a", "2"))
    assert alive(fleet) == [("a", "2")]
    assert not fleet.read(Exit("a", "1", 0))
    assert alive(fleet) == [("a", "2")]


def test_an_exit_before_the_first_heartbeat_counts() -> None:
    fleet = Clock().fleet
    fleet.read(Exit("a", "1", 0))
    fleet.read(beat("a"))
    assert alive(fleet) == []


def test_a_zombie_does_not_replace_its_successor_in_whatever_order_they_are_read() -> None:
    fleet = Clock().fleet
    fleet.read(beat("a", "2"))
    assert not fleet.read(beat("a", "1", CopyState("u", 1, "running")))
    assert alive(fleet) == [("a", "2")]
    assert list(fleet.reports("u")) == []
    assert not answers(fleet, "a", "1")


def test_reports_of_a_silent_worker_no_longer_count() -> None:
    clock = Clock()
    clock.fleet.read(beat("a", "1", CopyState("u", 1, "running")))
    assert [worker for worker, _ in clock.to(1_000).reports("u")] == ["a"]
    assert list(clock.to(3_000).reports("u")) == []
    assert clock.fleet.report(Copy("a", "1", PRIMARY), "u") is None


def test_a_controller_that_stood_still_takes_nobody_for_silent() -> None:
    clock = Clock()
    clock.fleet.read(beat("a"))
    clock.fleet.advance(600_000)
    assert answers(clock.fleet, "a")


def test_for_a_controller_that_starts_a_worker_that_it_knows_from_history_alone_counts_for_a_moment() -> None:
    clock = Clock()
    for name in ("a", "b"):
        clock.fleet.read(beat(name, "1", CopyState("u", 1, "running")))
    clock.fleet.begin()
    assert [worker for worker, _ in clock.to(300).reports("u")] == ["a", "b"]
    clock.fleet.read(beat("a", "1", CopyState("u", 1, "running")))
    assert [worker for worker, _ in clock.to(700).reports("u")] == ["a"]


def test_a_clock_that_is_set_back_makes_nobody_silent() -> None:
    fleet = Clock().to(1_000)
    fleet.read(beat("a"))
    fleet.advance(5)
    assert answers(fleet, "a")


def test_a_worker_that_leaves_takes_no_units() -> None:
    fleet = Clock().fleet
    assert fleet.read(beat("a"))
    assert fleet.read(Heartbeat("a", "1", 0, slots=8, leaving=True))
    assert alive(fleet) == []


def test_only_what_matters_counts_as_news() -> None:
    fleet = Clock().fleet
    assert fleet.read(beat("a"))
    assert not fleet.read(beat("a"))
    assert fleet.read(beat("a", "1", CopyState("u", 1, "restoring")))
    assert not fleet.read(beat("a", "1", CopyState("u", 1, "restoring", batch=9)))
    assert fleet.read(beat("a", "1", CopyState("u", 1, "running")))


def test_workers_that_beat_seldom_are_given_more_time() -> None:
    clock = Clock(5_000_000)
    clock.fleet.read(beat("a"))
    assert answers(clock.to(50_000), "a")
    assert not answers(clock.to(50_100), "a")
