"""Who lives."""

from __future__ import annotations

from schemas.heartbeats import CopyState, Exit, Heartbeat
from services.controller.core.fleet import ALIVE_MS, GAP_MS, Fleet


def beat(worker: str, incarnation: str = "1", *copies: CopyState) -> Heartbeat:
    return Heartbeat(worker, incarnation, 0, 0, slots=8, copies=copies)


def alive(fleet: Fleet, now_ms: int) -> list[tuple[str, str]]:
    return [(seen.worker, seen.incarnation) for seen in fleet.alive(now_ms)]


def test_a_silent_worker_stops_counting_as_alive() -> None:
    fleet = Fleet(100)
    fleet.read(beat("a"), 0)
    assert alive(fleet, ALIVE_MS) == [("a", "1")]
    assert alive(fleet, ALIVE_MS + 1) == []


def test_an_exit_is_final_for_its_incarnation() -> None:
    fleet = Fleet(100)
    fleet.read(beat("a"), 0)
    assert fleet.read(Exit("a", "1", 0), 10)
    fleet.read(beat("a"), 20)
    assert alive(fleet, 20) == []
    fleet.read(beat("a", "2"), 30)
    assert alive(fleet, 30) == [("a", "2")]
    assert not fleet.read(Exit("a", "1", 0), 40)
    assert alive(fleet, 40) == [("a", "2")]


def test_an_exit_before_the_first_heartbeat_counts() -> None:
    fleet = Fleet(100)
    fleet.read(Exit("a", "1", 0), 0)
    fleet.read(beat("a"), 10)
    assert alive(fleet, 10) == []


def test_a_zombie_does_not_replace_its_successor_in_whatever_order_they_are_read() -> None:
    fleet = Fleet(100)
    fleet.read(beat("a", "2"), 0)
    assert not fleet.read(beat("a", "1", CopyState("u", 1, "running")), 10)
    assert alive(fleet, 10) == [("a", "2")]
    assert list(fleet.reports("u", 10)) == []
    assert fleet.successor("a", "1", 10) is not None
    assert fleet.living("a", "1", 10) is None


def test_silence_is_measured_while_others_are_heard() -> None:
    fleet = Fleet(100)
    fleet.read(beat("a"), 0)
    for now_ms in range(0, 5_001, 100):
        fleet.read(beat("b"), now_ms)
    assert fleet.silent_ms("a") == 5_000
    assert fleet.silent_ms("b") == 0


def test_an_outage_of_the_broker_is_nobodys_silence() -> None:
    fleet = Fleet(100)
    fleet.read(beat("a"), 0)
    fleet.read(beat("b"), 0)
    fleet.read(beat("b"), 600_000)
    assert fleet.silent_ms("a") == GAP_MS


def test_a_clock_that_is_set_back_makes_nobody_younger_or_older() -> None:
    fleet = Fleet(100)
    fleet.read(beat("a"), 1_000_000)
    fleet.read(beat("b"), 5)
    assert fleet.silent_ms("a") == 0


def test_a_worker_that_the_log_no_longer_knows_is_silent_from_the_start() -> None:
    fleet = Fleet(100)
    fleet.read(beat("b"), 0)
    fleet.read(beat("b"), 900)
    fleet.begin()
    fleet.read(beat("b"), 1_000)
    assert fleet.silent_ms("gone") == 100


def test_only_what_matters_counts_as_a_change() -> None:
    fleet = Fleet(100)
    assert fleet.read(beat("a"), 0)
    assert not fleet.read(beat("a"), 100)
    assert fleet.read(beat("a", "1", CopyState("u", 1, "restoring")), 200)
    assert not fleet.read(beat("a", "1", CopyState("u", 1, "restoring", batch=9)), 300)
    assert fleet.read(beat("a", "1", CopyState("u", 1, "running")), 400)


def test_workers_that_beat_seldom_are_given_more_time() -> None:
    fleet = Fleet(5_000)
    fleet.read(beat("a"), 0)
    assert alive(fleet, 50_000) == [("a", "1")]
    fleet.read(beat("b"), 20_000)
    assert fleet.silent_ms("a") == 20_000
