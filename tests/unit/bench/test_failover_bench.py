"""What the failover bench plans, and what it says of what it found."""

from __future__ import annotations

import random
from collections import Counter, deque

import msgspec

from bench.failover.arrivals import Arrivals
from bench.failover.strikes import (
    BETWEEN,
    EDGE,
    FAULTS,
    FLAP,
    FULL,
    KILL,
    KILL_UNNOTICED,
    STALL,
    Outcome,
    Plan,
    Strike,
    compared,
    left_of,
    report,
    rounds,
    strikes,
    victim,
)
from holdfast.services.recovery.core.unit.facts.schemes import SCHEMES


def made(scheme: str, fault: str, operator: str = "count", ms: float = 40.0, **more: float) -> Outcome:
    found = {"takeover_ms": ms, "silence_ms": ms, "before_ms": 30.0, "back_ms": 5_000.0} | more
    return Outcome(scheme, fault, operator, **found)  # type: ignore[arg-type]


def test_the_full_bench_makes_as_many_strikes_as_were_asked_for() -> None:
    wanted = Counter(strikes(FULL, list(SCHEMES), list(FAULTS)))
    assert wanted[Strike("hybrid", KILL)] == 100
    assert wanted[Strike("active-standby", KILL_UNNOTICED)] == 20
    assert wanted[Strike("active-replication", STALL)] == 10
    assert wanted[Strike("hybrid", FLAP)] == 10
    assert wanted[Strike("passive", STALL)] == wanted[Strike("passive", FLAP)] == 0, (
        "it waits for three misses: a stall is over by then, or a death"
    )


def test_strikes_already_made_are_not_made_again() -> None:
    wanted = [Strike("hybrid", KILL)] * 3 + [Strike("hybrid", STALL)]
    assert left_of(wanted, [made("hybrid", KILL), made("none", KILL)]) == wanted[1:]


def test_a_round_has_one_scheme_and_one_way_of_noticing() -> None:
    wanted = strikes(FULL, ["hybrid", "passive"], list(FAULTS))
    found = rounds(wanted, 25, random.Random(1))
    assert Counter(one for some in found for one in some) == Counter(wanted)
    for some in found:
        assert len(some) <= 25
        assert len({(one.scheme, one.fault == KILL_UNNOTICED) for one in some}) == 1


def test_strikes_with_a_viewer_and_without_come_by_turns_of_all_operators() -> None:
    wanted = strikes(Plan.times(12), ["hybrid"], [KILL], viewer=True)
    (found,) = rounds(wanted, 24, random.Random(1))
    sides = [{one.viewed for one in found[at : at + 4]} for at in range(0, 24, 4)]
    assert sides in ([{False}, {True}] * 3, [{True}, {False}] * 3)
    assert left_of(wanted, [made("hybrid", KILL, viewed=True)] * 12) == [Strike("hybrid", KILL)] * 12


def test_a_strike_with_a_viewer_is_compared_with_one_without_on_the_same_operator() -> None:
    alone = [made("hybrid", KILL, operator, ms) for operator, ms in (("count", 40.0), ("sink", 80.0))]
    viewed = [made("hybrid", KILL, operator, ms, viewed=True) for operator, ms in (("sink", 84.0), ("count", 42.0))]
    (one,) = compared([*alone, *viewed, made("hybrid", KILL, "sink", 900.0)]).values()
    assert (one.median, one.pairs) == (1.05, 2), "one without a partner does not count"
    assert compared(alone) == {}


def test_a_row_is_met_when_every_bound_is() -> None:
    quick = [made("hybrid", KILL, ms=40.0)] * 99
    (row,) = report([*quick, made("hybrid", KILL, ms=149.0)])
    assert (row.times, row.measured["p50"], row.met) == (100, 40.0, True)
    (row,) = report([*quick[:90], *[made("hybrid", KILL, ms=151.0)] * 10])
    assert row.met is False


def test_places_are_told_apart_where_the_goals_do() -> None:
    found = report(
        [made("active-replication", KILL, "count", silence_ms=80.0), made("active-replication", KILL, "sink")]
    )
    assert [(row.place, row.met) for row in found] == [(BETWEEN, True), (EDGE, True)]
    assert found[0].measured["max"] == 50.0, "beyond the silence there was before"


def test_a_worker_that_led_a_source_as_well_counts_as_a_worker_of_the_edge() -> None:
    outcome = made("active-replication", KILL, "count")
    alone, both = (msgspec.structs.replace(outcome, charged=held) for held in (("count",), ("count", "source")))
    assert (alone.place, both.place) == (BETWEEN, EDGE)


def test_the_copy_beside_no_source_or_sink_is_struck_if_both_copies_do_the_same() -> None:
    charges = {"a": ["count", "sink"], "b": ["largest"], "c": ["source"]}
    assert victim("active-replication", "count", ["a", "b"], charges) == "b"
    assert victim("active-replication", "count", ["a", "c"], charges) == "a", "there is none"
    assert victim("active-replication", "sink", ["a", "b"], charges) == "a", "one of the two commits"
    assert victim("hybrid", "count", ["a", "b"], charges) == "a"


def test_a_single_lost_row_makes_the_line_inexact() -> None:
    (row,) = report([made("hybrid", STALL), made("hybrid", STALL, lost=1)])
    assert not row.exact


def test_a_result_counts_by_when_its_record_was_sent() -> None:
    arrivals = Arrivals.__new__(Arrivals)
    arrivals.seen = deque([(100.0, 90), (130.0, 118), (300.0, 119), (310.0, 205)])
    assert arrivals.first_after(200) == 310.0, "the one at 300 was on its way before"
    assert arrivals.silence(120, 320) == 170.0
    assert arrivals.first_after(206) is None
