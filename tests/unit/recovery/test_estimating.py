"""How long a takeover would take under each scheme: MECHANISMS A2 and A3, with the golden values of its section 4."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from holdfast.services.recovery.core.adaptive.controller import detection_ms
from holdfast.services.recovery.core.adaptive.estimating import STEPS, Facts, takeover
from holdfast.services.recovery.core.unit.facts.schemes import SCHEMES, Rung
from holdfast.services.recovery.core.unit.facts.verdict import Phases

PAPER = Facts(
    checkpoint_bytes=50e6,
    read_per_ms=25e3,
    events=20_000,
    throughput_per_ms=10,
    send_ms=200,
    receive_ms=300,
    deploy_ms=1_000,
    alone=False,
)
"""State 50 MB, lowest write 25 MB/s, 20k events since the checkpoint, 10k/s."""
SIX = ("active-replication", "active-standby", "passive-hot", "passive-cold", "deployed", "passive")


def seconds(facts: Facts, exact: bool = True) -> list[float]:
    return [round(takeover(SCHEMES[name].secondary, facts, exact=exact).total / 1000, 3) for name in SIX]


def test_precise_recovery_takes_what_the_paper_says() -> None:
    assert seconds(PAPER) == [0, 2.0, 2.2, 2.3, 4.3, 5.3]


def test_gap_recovery_takes_what_the_paper_says() -> None:
    assert seconds(PAPER, exact=False) == [0, 0, 0.2, 0.3, 2.3, 3.3]


def test_every_place_of_a_secondary_has_its_steps() -> None:
    assert {scheme.secondary for scheme in SCHEMES.values()} | {Rung.COLD} == set(STEPS)


@pytest.mark.parametrize(
    ("missing", "takes"),
    [
        ("deploy_ms", [0, 2.0, 2.2, 2.3, 4.3, math.inf]),
        ("checkpoint_bytes", [0, 2.0, 2.2, 2.3, math.inf, math.inf]),
        ("read_per_ms", [0, 2.0, 2.2, 2.3, math.inf, math.inf]),
        ("seek_ms", [0, 2.0, 2.2, 2.3, math.inf, math.inf]),
        ("receive_ms", [0, 2.0, 2.2, math.inf, math.inf, math.inf]),
        ("send_ms", [0, 2.0, math.inf, math.inf, math.inf, math.inf]),
        ("events", [0, math.inf, math.inf, math.inf, math.inf, math.inf]),
        ("throughput_per_ms", [0, math.inf, math.inf, math.inf, math.inf, math.inf]),
    ],
)
def test_an_unknown_part_of_an_estimate_is_infinite_where_it_is_needed(missing: str, takes: list[float]) -> None:
    facts = replace(PAPER, **{missing: None})  # type: ignore[arg-type]
    assert seconds(facts) == takes


def test_a_stateless_unit_at_rest_needs_neither_rates_nor_a_checkpoint() -> None:
    facts = replace(PAPER, checkpoint_bytes=0, read_per_ms=None, events=0, throughput_per_ms=None, seek_ms=20)
    assert seconds(facts) == [0, 0, 0.2, 0.3, 0.32, 1.32]


def test_records_that_come_while_nobody_processes_are_replayed_too() -> None:
    """1 record/ms comes and 10 are processed: 1,300 more wait after 1.3 s, and 9 a millisecond are spare."""
    facts = replace(PAPER, rate_per_ms=1)
    phases = takeover(Rung.COLD, facts, detection_ms=1_000)
    assert phases.replay == pytest.approx((20_000 + 1_300) / 9)
    assert takeover(Rung.STANDBY, facts, detection_ms=1_000).replay == 2_000, "its copy processes all the time"


def test_a_unit_that_processes_no_more_than_what_comes_never_catches_up() -> None:
    assert math.isinf(takeover(Rung.HOT, replace(PAPER, rate_per_ms=10)).total)


def test_a_copy_that_processes_replays_what_it_is_behind_where_that_is_known() -> None:
    assert takeover(Rung.STANDBY, replace(PAPER, lag_events=40)).replay == 4
    assert takeover(Rung.HOT, replace(PAPER, lag_events=40)).replay == 2_000


def test_rows_can_be_delivered_once_the_outputs_are_open_which_goes_beside_the_replay() -> None:
    assert takeover(Rung.HOT, replace(PAPER, open_ms=2_100)).total == 2_200
    assert takeover(Rung.HOT, replace(PAPER, open_ms=2_500)).total == 2_500
    assert takeover(Rung.ACTIVE, replace(PAPER, open_ms=30, alone=True), detection_ms=150).total == 180


def test_a_replica_whose_leader_does_nothing_alone_needs_no_takeover() -> None:
    """Its output comes from both copies: nobody waits until the failure is noticed."""
    assert takeover(Rung.ACTIVE, PAPER, detection_ms=400, slack_ms=40).total == 0
    assert takeover(Rung.STANDBY, PAPER, detection_ms=400, slack_ms=40).total == 2_440


def test_detection_is_the_misses_and_the_grace() -> None:
    """MECHANISMS H7: hybrid waits for one missed heartbeat, passive standby for three; `none` for nobody."""
    found = {name: detection_ms(scheme.misses, 100_000, 30_000) for name, scheme in SCHEMES.items()}
    assert (found["hybrid"], found["active-standby"], found["passive-hot"], found["passive"]) == (130, 130, 330, 330)
    assert math.isinf(found["none"])


def test_the_margin_stretches_what_follows_detection() -> None:
    assert Phases(100, 10, 20, 30, 40, 50, 5, margin=2.0).total == 100 + 5 + 2 * (10 + 20 + 70)


def test_phases_are_named_in_their_order() -> None:
    assert list(takeover(Rung.ABSENT, PAPER, detection_ms=100).named()) == [
        "detection", "deploy", "read", "wire", "replay",
    ]  # fmt: skip
