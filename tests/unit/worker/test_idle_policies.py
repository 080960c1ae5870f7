"""Captures and pastes on idle time: the paper's timelines, what is chosen when, and what always holds (MECHANISMS C3,
C6).
"""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import mean

import pytest

from holdfast.services.kernel.protection.expected import Protected
from holdfast.services.worker.checkpoint.policies.idle import CONFIRM_MS, LOOK_MS, Capture, Idle, Paste
from holdfast.services.worker.checkpoint.policies.idle_minmax import Credit, IdleMinMax, choose
from holdfast.services.worker.checkpoint.policies.idle_roundrobin import IdleRoundRobin
from holdfast.services.worker.checkpoint.policies.policy import REST_MS
from holdfast.services.worker.checkpoint.scheduler import Scheduler
from tests.support.idle_timeline import Timed, Timeline

POLICIES = (IdleMinMax.name, IdleRoundRobin.name)
BOTH = pytest.mark.parametrize("policy", POLICIES)


def papers_units(policy: str) -> dict[str, Timed]:
    """Three units on S1; u1 and u2 are backed up on S2, u3 on S3."""
    return {
        "u1": Timed(policy, "S2", 0.11, 125.0, 125.0, captured_ms=-1.0),
        "u2": Timed(policy, "S2", 0.10, 250.0, 250.0, captured_ms=-1.0),
        "u3": Timed(policy, "S3", 0.665, 125.0, 125.0, captured_ms=-1.0),
    }


def captures(timeline: Timeline) -> dict[str, list[float]]:
    """When each unit was captured, in seconds."""
    return {name: [at / 1000 for one, at in timeline.story if one == name] for name in timeline.units}


# -- the paper's figures 2 and 3 --------------------------------------------------------------------------------------


def test_round_robin_captures_as_in_figure_2() -> None:
    timeline = Timeline(papers_units("idle-roundrobin"))
    timeline.run(5_500)
    assert timeline.story == [("u1", 0.0), ("u2", 1000.0), ("u3", 3000.0), ("u1", 4000.0), ("u2", 5000.0)]


def test_a_capture_that_is_delivered_and_waits_to_be_pasted_lowers_the_expected_recovery_as_in_figure_2() -> None:
    """R_u2 falls from 0.425 to 0.275 s when the capture that began at 5 s ends, at 5.25 s."""
    timeline = Timeline(papers_units("idle-roundrobin"), pasting_ms=500.0, sample_ms=1.0)
    timeline.run(5_500)
    at = dict(timeline.samples)
    assert at[5249.5]["u2"] == pytest.approx(425.0, abs=0.1)
    assert at[5250.5]["u2"] == pytest.approx(275.0, abs=0.1)


def test_min_max_captures_as_in_figure_3() -> None:
    timeline = Timeline(papers_units("idle-minmax"))
    timeline.run(12_500)
    assert captures(timeline) == {"u1": [4, 9, 12], "u2": [6], "u3": [0, 1, 2, 3, 5, 8, 10, 11]}


def test_min_max_lowers_the_mean_expected_recovery_of_the_worker_by_30_percent() -> None:
    """Over 500 s; the paper says 0.697."""
    means = {}
    for policy in POLICIES:
        timeline = Timeline(papers_units(policy), sample_ms=125.0)
        timeline.run(500_000)
        means[policy] = mean(sample["S1"] for _, sample in timeline.samples) / 1000
    assert means["idle-roundrobin"] == pytest.approx(1.470, abs=0.001)
    assert means["idle-minmax"] == pytest.approx(1.025, abs=0.002)
    assert means["idle-minmax"] / means["idle-roundrobin"] == pytest.approx(0.697, abs=0.001)


# -- what min-max chooses ---------------------------------------------------------------------------------------------


def unit(backup: str, load: float, replay_ms: float, **more: float) -> Protected:
    costs = {"gain_ms": replay_ms, "capture_ms": 10.0, "paste_ms": 10.0} | more
    return Protected("i", backup, load, replay_ms, costs["gain_ms"], costs["capture_ms"], costs["paste_ms"])


def image(primary: str, replay_ms: float, waiting: int, paste_ms: float = 10.0) -> Protected:
    return Protected(primary, "i", 0.1, replay_ms, replay_ms, 10.0, paste_ms, waiting)


def test_only_units_of_the_group_with_the_longest_recovery_are_captured() -> None:
    led = {"a": unit("j", 0.1, 100.0), "b": unit("j", 0.1, 90.0), "c": unit("k", 0.1, 150.0)}
    assert choose(led, ["a", "b", "c"], {}, {}) == Capture("a")
    assert choose(led, ["b", "c"], {}, {}) == Capture("b")
    assert choose(led, ["c"], {}, {}) is None


def test_the_recovery_that_counts_is_that_at_the_end_of_the_capture() -> None:
    """Now the group of `a` is the worse one; when a capture of `a` has ended, that of `c` is."""
    led = {"a": unit("j", 0.1, 100.0, capture_ms=50.0), "c": unit("k", 0.5, 90.0)}
    assert choose(led, ["a"], {}, {}) is None


def test_within_a_group_the_most_is_saved_for_the_cost() -> None:
    led = {"dear": unit("j", 0.2, 200.0, capture_ms=50.0), "cheap": unit("j", 0.1, 100.0)}
    assert choose(led, led, {}, {}) == Capture("cheap")


def test_a_capture_that_saves_nothing_is_not_skipped() -> None:
    led = {"a": unit("j", 0.6, 0.0, paste_ms=125.0)}
    assert choose(led, led, {}, {}) == Capture("a")


def test_the_oldest_message_of_a_peer_is_pasted_if_that_peer_is_worse_off() -> None:
    led = {"a": unit("j", 0.1, 100.0)}
    after_capture = 100.0 + 1.0  # when it finishes: its benefit comes with the delivery
    worse, better = image("k", 120.0, waiting=1), image("k", 30.0, waiting=1)
    assert choose(led, led, {"m": worse}, {"k": "m"}) == Paste("k")
    assert choose(led, led, {"m": better}, {"k": "m"}) == Capture("a")
    just = image("k", after_capture - 1.0, waiting=1)  # pasted after 10 ms more, of which 1 ms is load
    assert choose(led, led, {"m": just}, {"k": "m"}) == Capture("a")


def test_the_readings_of_the_paper_differ_in_whose_benefit_counts() -> None:
    """The group of `a` takes 101 ms when the capture ends, and 11 ms once that is delivered; that of `m`, which takes
    30 ms more or less, is shorter by 10 ms once its message is pasted.
    """
    led = {"a": unit("j", 0.1, 100.0)}

    def chosen(image_ms: float) -> dict[Credit, Capture | Paste | None]:
        images = {"m": image("k", image_ms, waiting=1)}
        return {credit: choose(led, led, images, {"k": "m"}, credit=credit) for credit in Credit}

    capture, paste = Capture("a"), Paste("k")
    assert chosen(30.0) == {Credit.PASTE: capture, Credit.BOTH: paste, Credit.NEITHER: capture}
    assert chosen(95.0) == {Credit.PASTE: capture, Credit.BOTH: paste, Credit.NEITHER: paste}
    assert chosen(120.0) == {Credit.PASTE: paste, Credit.BOTH: paste, Credit.NEITHER: paste}
    assert IdleMinMax(Credit.BOTH).name == IdleMinMax.name


def test_the_worst_off_of_several_peers_comes_first_and_without_captures_any() -> None:
    images = {"m": image("k", 30.0, waiting=1), "n": image("l", 40.0, waiting=1), "o": image("l", 40.0, waiting=0)}
    assert choose({}, [], images, {"k": "m", "l": "n"}) == Paste("l")
    assert choose({}, [], images, {"k": "m"}) == Paste("k")
    assert choose({}, [], images, {}) is None


# -- when a worker is idle, and the bounds ----------------------------------------------------------------------------


def two(policy: str) -> dict[str, Timed]:
    return {"a": Timed(policy, "j", 0.1, 10.0, 10.0), "b": Timed(policy, "j", 0.1, 10.0, 10.0)}


def captured(units: dict[str, Timed], now_ms: float) -> list[str]:
    scheduler = Scheduler()
    for name, one in units.items():
        one.now_ms = now_ms
        scheduler.join(name, one)
    return [name for name in units if scheduler.capture(name, now_ms) is not None]


@BOTH
def test_nothing_is_captured_while_data_wait_at_any_unit_of_the_worker(policy: str) -> None:
    units = two(policy)
    assert captured(units, 100.0) == ["a"]
    units["other"] = Timed("sweep", "", 0.1, 1.0, 0.0, batches=0, data_wait=True)
    assert captured(units, 100.0) == []


@BOTH
def test_a_unit_whose_backup_has_not_confirmed_is_not_captured_again_before_the_maximum_interval(policy: str) -> None:
    units = two(policy)
    units["a"].confirmed = False
    assert captured(units, 100.0) == ["b"]
    units["a"].max_interval_ms = 1_000
    units["b"].captured_ms = 900.0
    units["b"].min_interval_ms = 500
    assert captured(units, 999.0) == []
    assert captured(units, 1_000.0) == ["a"]


@BOTH
def test_the_minimum_interval_is_kept_and_the_maximum_one_whether_the_worker_is_idle_or_not(policy: str) -> None:
    units = {"a": Timed(policy, "j", 0.1, 10.0, 10.0, min_interval_ms=100, max_interval_ms=500)}
    assert captured(units, 99.0) == []
    assert captured(units, 100.0) == ["a"]
    units["a"].data_wait = True
    assert captured(units, 499.0) == []
    assert captured(units, 500.0) == ["a"]


@BOTH
def test_a_unit_that_has_ended_waits_for_no_idle_time(policy: str) -> None:
    units = two(policy)
    units["b"].ended = units["a"].data_wait = True
    assert captured(units, 1.0) == ["b"]


@BOTH
def test_a_unit_without_rows_rests_and_one_without_batches_is_not_captured(policy: str) -> None:
    units = two(policy)
    units["a"].still, units["b"].batches = True, 0
    assert captured(units, REST_MS - 1.0) == []
    assert captured(units, REST_MS) == ["a"]


@BOTH
def test_the_second_of_two_units_that_must_be_captured_waits_for_the_first(policy: str) -> None:
    units = two(policy)
    for one in units.values():
        one.max_interval_ms = 50
    assert captured(units, 50.0) == ["a", "b"]
    units["a"].capturing, units["a"].resting = True, False
    assert captured(units, 50.0) == []


@BOTH
def test_a_unit_asks_again_soon_while_another_is_chosen_or_data_wait(policy: str) -> None:
    units = two(policy)
    made: Idle = {"idle-minmax": IdleMinMax, "idle-roundrobin": IdleRoundRobin}[policy]()
    assert made.wait_ms("b", units, 100.0) == LOOK_MS
    units["b"].batches = 0
    assert made.wait_ms("b", units, 100.0) == math.inf
    units["a"].min_interval_ms = 130
    assert made.wait_ms("a", units, 100.0) == 30.0
    units["a"].min_interval_ms, units["a"].confirmed = 0, False
    assert made.wait_ms("a", units, 100.0) == CONFIRM_MS, "a confirmation comes with a heartbeat"


# -- pastes -----------------------------------------------------------------------------------------------------------


def held(policy: str, primary: str, since_ms: float, **more: object) -> Timed:
    """An image of a unit that `primary` runs, with a message that waits."""
    made = Timed(policy, "", 0.1, 10.0, 10.0, leads=False, primary=primary, waiting=1, waiting_since_ms=since_ms)
    return replace(made, apply_ms=10.0, batches=0, **more)  # type: ignore[arg-type]


def pasted(units: dict[str, Timed], now_ms: float) -> list[str]:
    scheduler = Scheduler()
    for name, one in units.items():
        one.now_ms = now_ms
        scheduler.join(name, one)
    return [name for name in units if scheduler.applies(name, now_ms)]


@BOTH
def test_the_oldest_message_of_a_sender_is_pasted_first(policy: str) -> None:
    units = {"a": held(policy, "j", 30.0), "b": held(policy, "j", 20.0)}
    assert pasted(units, 100.0) == ["b"]
    units["b"].waiting, units["b"].waiting_since_ms = 0, math.inf
    assert "a" in pasted(units, 100.0)


@BOTH
def test_a_paste_waits_while_data_wait_or_a_capture_is_written_but_not_longer_than_the_maximum(policy: str) -> None:
    units = {"a": held(policy, "j", 10.0, max_interval_ms=500), "b": Timed(policy, "j", 0.1, 10.0, 10.0, batches=0)}
    assert pasted(units, 100.0)[:1] == ["a"]
    units["b"].data_wait = True
    assert "a" not in pasted(units, 100.0)
    units["b"].data_wait, units["b"].capturing = False, True
    assert "a" not in pasted(units, 100.0)
    assert "a" in pasted(units, 510.0)


def test_round_robin_takes_what_waits_longest() -> None:
    units = {
        "a": Timed("idle-roundrobin", "j", 0.1, 10.0, 10.0, captured_ms=20.0),
        "m": held("idle-roundrobin", "k", 10.0),
    }
    assert IdleRoundRobin().choose(units, 100.0) == Paste("k")
    units["m"].waiting_since_ms = 20.0
    assert IdleRoundRobin().choose(units, 100.0) == Capture("a")


def test_min_max_sees_what_was_captured_and_not_confirmed_as_one_message_that_waits() -> None:
    """With it the group of `a` is the worse one, so `b` is not captured."""
    policy = "idle-minmax"
    units = {
        "a": Timed(policy, "j", 0.1, 10.0, 300.0, confirmed=False),
        "b": Timed(policy, "k", 0.5, 10.0, 10.0),
    }
    assert captured(units, 500.0) == []
    units["a"].confirmed = True
    assert captured(units, 500.0) == ["b"]


@BOTH
def test_a_unit_that_leads_applies_at_once_what_a_former_leader_left(policy: str) -> None:
    """It is no paste for a peer: until then the unit cannot be captured."""
    units = {
        "a": Timed(policy, "j", 0.1, 10.0, 10.0, resting=False, waiting=1, waiting_since_ms=10.0),
        "b": Timed(policy, "j", 0.1, 10.0, 10.0, data_wait=True),
    }
    assert "a" in pasted(units, 100.0)
    units["b"].data_wait = False
    assert captured(units, 100.0) == ["b"]
