"""`holdfast explain`: why this scheme, what each other would take and cost, what would have to change."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.schemas.assignments import PRIMARY, Change, Copy
from holdfast.schemas.events import Alternative, Event
from holdfast.schemas.heartbeats import CopyState, Heartbeat
from holdfast.services.cli.explanations import _draw
from holdfast.services.recovery.core.unit.facts.schemes import Rung
from holdfast.services.view.explanations import Explanation, explain
from tests.unit.recovery.test_adaptive import costs
from tests.unit.recovery.world import UNIT, plan

COPIES = Copy("w1", "1", PRIMARY), Copy("w2", "1", Rung.ACTIVE.flags)
REPLICATED = Change(UNIT, 4, COPIES, "active-replication", asked=3, adaptive=True)
CHOSEN = Event(
    7_000, "scheme-chosen", "job", "u-0", 4, detail="active-replication: 170 ms, costs 4.00; passive: ...",
    alternatives=(Alternative("active-replication", 170.0, 4.0),),
)  # fmt: skip


def beats(state_bytes: int = 0, leads: bool = True) -> list[Heartbeat]:
    def beat(time_ms: int) -> Heartbeat:
        measured = msgspec.structs.replace(costs(state_bytes, rate=time_ms), unit=UNIT, leads=leads)
        small = msgspec.structs.replace(measured, restore_ms=30.0, restore_bytes=10)
        both = (measured, small) if time_ms % 1_000 == 0 else ()
        return Heartbeat("w1", "1", time_ms, copies=(CopyState(UNIT, 4, "running", 8),), costs=both)

    return [beat(time_ms) for time_ms in range(1_000, 4_001, 100)]


def found(
    change: Change = REPLICATED, state_bytes: int = 0, recovery_ms: int = 5_000, *events: Event, leads: bool = True
) -> Explanation:
    made = plan({"u-0": "adaptive", "u-1": "hybrid"}, recovery_time_ms=recovery_ms, weights={"cpu": 2.0})
    (one,) = explain(made, {"u-0": change, "u-1": None}, beats(state_bytes, leads), events)
    return one


def test_explain_says_what_was_asked_for_what_runs_and_what_would_be_better() -> None:
    one = found()
    assert (one.unit, one.scheme, one.adaptive, one.promise_ms, one.precision) == (
        "u-0", "active-replication", True, 5_000, "exact",
    )  # fmt: skip
    assert (one.weights, one.chosen, one.decision) == ({"cpu": 2.0}, "passive", "")
    assert one.alternatives[0].scheme == "passive"
    assert {each.scheme: each.rejected for each in one.alternatives}["none"] == "waits for its worker to return"


def test_the_last_choice_counts_as_long_as_the_unit_has_it() -> None:
    one = found(REPLICATED, 0, 5_000, CHOSEN)
    assert (one.decided_ms, one.decision) == (7_000, "active-replication: 170 ms, costs 4.00")
    hybrid = msgspec.structs.replace(REPLICATED, scheme="hybrid", copies=(COPIES[0], Copy("w2", "1", Rung.HOT.flags)))
    assert found(hybrid, 0, 5_000, CHOSEN).decision == ""
    assert found(msgspec.structs.replace(REPLICATED, adaptive=False), 0, 5_000, CHOSEN).decision == ""


def test_every_cheaper_scheme_has_the_change_that_it_would_need() -> None:
    """4 MB of state: a log of 16 MB at a megabyte a second."""
    one = found(state_bytes=4_000_000)
    deployed = next(each for each in one.alternatives if each.scheme == "deployed")
    assert deployed.takes_ms is not None
    assert deployed.takes_ms > 16_000
    assert [text.split()[0] for text in one.changes] == ["passive", "deployed"]
    assert "recovery_time_ms would have to be" in one.changes[0]
    assert ", or read shorter by that, of 16030 ms" in one.changes[1]


def test_a_unit_without_reports_has_no_alternatives() -> None:
    one = found(leads=False)
    assert (one.alternatives, one.changes, one.chosen) == ((), (), "")


def test_the_view_is_drawn_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    _draw(found(REPLICATED, 4_000_000, 5_000, CHOSEN))
    shown = capsys.readouterr().out
    for part in (
        "u-0: adaptive, now active-replication; promise 5000 ms, exact, weights cpu 2",
        "chosen at",
        "before it",
    ):
        assert part in shown
    _draw(found(leads=False))
    assert "nothing is known yet" in capsys.readouterr().out
