"""Predicted against actual: every takeover is judged once, and corrects the estimates of its unit."""

from __future__ import annotations

import math

import pytest

from holdfast.services.recovery.core.adaptive.judging import (
    GIVEN_UP_US,
    MAX_MARGIN,
    MOST_UNMATCHED,
    WAITS_US,
    Foreseen,
    Judgement,
    Judging,
    corrected,
    judge,
    needed,
    rounded,
)
from holdfast.services.recovery.core.unit.facts.verdict import Phases

PREDICTED = Phases(detection=330, deploy=100, read=50, wire=20, replay=30, opening=10, slack=40)
FORESEEN = Foreseen(4, "w2", "passive", PREDICTED, promise_ms=700)
REPORT = {"activation": 150.0, "replay": 9.0, "first_output": 260.0, "recovered": 240.0}
UNIT = "job@3-abcdef/u-0"


def judged(detection_ms: float = 12.0, foreseen: Foreseen = FORESEEN, **report: float) -> Judgement:
    found = judge(foreseen, detection_ms, REPORT | report)
    assert found is not None
    return found


def test_each_phase_is_beside_what_was_predicted_of_it() -> None:
    found = judged()
    assert found.predicted == {"detection": 330, "activation": 190, "catching-up": 50, "total": 570}
    assert found.actual == {"detection": 12, "activation": 150, "catching-up": 90, "total": 252}
    assert (found.kept, found.kind) == (True, "promise-kept")
    assert needed(found.actual, found.predicted) == 1.0


def test_a_promise_that_was_broken_names_the_longest_phase() -> None:
    found = judged(330.0, recovered=640.0)
    assert (found.kept, found.kind) == (False, "promise-broken")
    assert str(found) == "passive took 970 ms, 570 ms predicted, 700 ms promised: most of it was catching-up"
    assert needed(found.actual, found.predicted) == pytest.approx(640 / 240)


def test_no_promise_is_broken_if_none_was_made() -> None:
    found = judged(9_000.0, Foreseen(4, "w2", "hybrid", PREDICTED))
    assert (found.kept, found.kind) == (True, "takeover-judged")


def test_a_takeover_that_was_not_predicted_is_judged_and_corrects_nothing() -> None:
    found = judged(foreseen=Foreseen(4, "w2", "passive", Phases(replay=math.inf), 700))
    assert "nothing was predicted" in str(found)
    assert needed(found.actual, found.predicted) == 1.0
    assert rounded(found.predicted) == {"detection": 0.0, "activation": 0.0}
    assert needed(found.actual, {"detection": 0.0, "activation": 5.0}) == 1.0


def test_nobody_waits_for_a_takeover_if_the_other_copy_sends_all_the_time() -> None:
    found = judged(foreseen=Foreseen(4, "w2", "active-replication", Phases(), 100))
    assert (found.actual["total"], found.predicted["total"], found.kept) == (0.0, 0.0, True)
    assert needed(found.actual, found.predicted) == 1.0


def test_a_copy_that_does_not_say_when_it_had_recovered_is_not_judged() -> None:
    assert judge(FORESEEN, 12.0, {"activation": 1.0, "replay": 2.0, "first_output": 3.0}) is None


def test_the_margin_rises_at_once_falls_slowly_and_is_bounded() -> None:
    assert corrected(1.0, 2.5) == 2.5
    assert corrected(2.5, 1.5) == 2.25
    assert corrected(1.0, 0.2) == 1.0
    assert corrected(1.0, 90.0) == MAX_MARGIN
    margin = MAX_MARGIN
    for _ in range(30):
        margin = corrected(margin, 0.5)
    assert margin == pytest.approx(1.0, abs=0.01)


def begun(mine: bool = True, foreseen: Foreseen = FORESEEN) -> Judging:
    made = Judging()
    made.began(UNIT, foreseen, 12.0, mine, now_us=0)
    return made


def test_the_replica_whose_record_it_is_publishes_at_once_and_another_one_only_if_nobody_does() -> None:
    for mine, waits_us in ((True, 0), (False, WAITS_US)):
        judging = begun(mine)
        assert judging.due(1) == []
        judging.active(UNIT, 4, "w2", REPORT, 5)
        if waits_us:
            assert judging.due(5 + waits_us - 1) == []
        ((unit, found),) = judging.due(5 + waits_us)
        assert (unit, found.actual["total"]) == (UNIT, 252)
        assert judging.due(5 + waits_us) == [], "once"


def test_no_replica_publishes_what_another_has_published() -> None:
    judging = begun(mine=False)
    judging.active(UNIT, 4, "w2", REPORT, 5)
    judging.published(UNIT, 4)
    assert judging.due(5 + WAITS_US) == []


def test_a_report_may_be_read_before_the_record_that_it_belongs_to() -> None:
    judging = Judging()
    judging.active(UNIT, 4, "w2", REPORT, 5)
    judging.began(UNIT, FORESEEN, 12.0, True, 6)
    assert len(judging.due(6)) == 1


@pytest.mark.parametrize(("epoch", "worker"), [(3, "w2"), (4, "w1")])
def test_a_report_of_another_takeover_is_not_this_ones(epoch: int, worker: str) -> None:
    judging = begun()
    judging.active(UNIT, epoch, worker, REPORT, 5)
    assert judging.due(10) == []
    judging.active(UNIT, 6, "w2", REPORT, 5)
    assert len(judging.due(10)) == 1, "a new secondary was added meanwhile"


def test_a_takeover_amid_another_one_counts_from_the_first_failure() -> None:
    judging = begun()
    judging.began(UNIT, Foreseen(6, "w3", "passive", PREDICTED, 700), 20.0, True, now_us=500_000)
    judging.active(UNIT, 6, "w3", REPORT, 600_000)
    ((_, found),) = judging.due(600_000)
    assert found.actual["detection"] == 12 + 500 + 20


def test_a_takeover_that_the_primary_cut_short_is_judged_only_if_its_promise_was_broken_by_then() -> None:
    judging = begun()
    judging.leads(UNIT, "w2", 100_000)
    judging.leads(UNIT, "w1", 600_000)
    assert judging.due(700_000) == []
    judging.began(UNIT, FORESEEN, 12.0, True, now_us=30_000_000)
    judging.leads(UNIT, "w1", 31_000_000)
    ((_, found),) = judging.due(31_000_000)
    assert (found.kind, found.actual["total"]) == ("promise-broken", 1012), "and the one long before it is not its part"


def test_takeovers_that_never_end_and_that_nobody_asks_for_are_forgotten() -> None:
    judging = begun()
    assert judging.due(GIVEN_UP_US) == []
    judging.active(UNIT, 4, "w2", REPORT, GIVEN_UP_US)
    assert judging.due(GIVEN_UP_US) == []
    for epoch in range(2 * MOST_UNMATCHED):
        judging.active(UNIT, epoch, "w9", REPORT, 5)
    assert len(judging._unmatched) == MOST_UNMATCHED
