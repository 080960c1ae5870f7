"""An estimate that swings with the load of the machine changes no scheme each time: docs/decisions/0101."""

from __future__ import annotations

from holdfast.services.recovery.core.adaptive.choosing import better, choose
from holdfast.services.recovery.core.adaptive.controller import PACE_US
from holdfast.services.recovery.core.adaptive.estimating import Facts, takeover
from holdfast.services.recovery.core.adaptive.steadying import COOL_DOWNS, Steady
from holdfast.services.recovery.core.unit.facts.schemes import SCHEMES, Rung
from holdfast.services.recovery.core.unit.facts.verdict import Estimate

S_US = 1_000_000
PROMISE_MS, COOL_DOWN_US, BEAT_MS = 2_500.0, 2 * S_US, 100.0
FACTS = Facts(
    checkpoint_bytes=40_000, read_per_ms=1_000, seek_ms=183.4, events=1_000, throughput_per_ms=5.0, deploy_ms=68.1,
    send_ms=0.0, receive_ms=213.4, open_ms=1_867.6, alone=True,
)  # fmt: skip
COSTS = {
    Rung.ABSENT: 0.0, Rung.EMPTY: 2.0, Rung.COLD: 2.7, Rung.HOT: 3.06, Rung.STANDBY: 3.35, Rung.ACTIVE: 3.35,
}  # fmt: skip
GRACE_MS = (53, 580, 128, 300, 136, 306, 60, 64, 517, 213, 36, 480)
"""What late heartbeats made of the grace of one worker, on a machine whose two cores ran four test processes."""


def look(grace_ms: float) -> list[Estimate]:
    return [
        Estimate(
            name,
            takeover(scheme.secondary, FACTS, detection_ms=scheme.misses * BEAT_MS + grace_ms, slack_ms=40.0),
            COSTS[scheme.secondary],
        )
        for name, scheme in SCHEMES.items()
        if scheme.misses is not None
    ]


def schemes_of(graces_ms: tuple[int, ...], each_us: int) -> list[str]:
    """The schemes of a unit, one after another, while its worker's grace has each of these values for so long."""
    now_us, changed_us, steady = 0, 0, Steady()
    found = ["active-replication"]
    for grace_ms in graces_ms:
        for _ in range(each_us // PACE_US):
            now_us += PACE_US
            estimates = look(grace_ms)
            steady.look({one.scheme for one in better(choose(PROMISE_MS, estimates, found[-1]))}, now_us)
            if now_us - changed_us < COOL_DOWN_US:
                continue
            chosen = choose(PROMISE_MS, estimates, found[-1], steady.found(now_us, COOL_DOWN_US)).chosen
            if chosen != found[-1]:
                found, changed_us, steady = [*found, chosen], now_us, Steady()
    return found


def test_the_story_of_a_loaded_machine() -> None:
    """It had nine changes in 110 s: down with each calm moment, and up to two active copies with the next noise."""
    assert schemes_of(GRACE_MS, 2 * S_US) == ["active-replication"]
    assert schemes_of(GRACE_MS, 10 * S_US) == ["active-replication", "hybrid", "passive-cold", "hybrid"]


def test_a_scheme_counts_once_it_has_suited_better_in_every_look_of_some_cool_downs() -> None:
    steady, waits_us = Steady(), COOL_DOWNS * COOL_DOWN_US
    for now_us in range(0, waits_us, PACE_US):
        assert not steady.found(now_us, COOL_DOWN_US)
        steady.look({"passive"}, now_us)
    steady.look({"passive"}, waits_us)
    assert steady.found(waits_us, COOL_DOWN_US) == {"passive"}
    steady.look({"hybrid"}, waits_us + PACE_US)
    steady.look({"hybrid", "passive"}, waits_us + 2 * PACE_US)
    assert not steady.found(waits_us + 2 * PACE_US, COOL_DOWN_US), "not in that look: it begins again"
