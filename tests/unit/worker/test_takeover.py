"""How long a copy takes to lead its unit, by phase."""

from __future__ import annotations

from dataclasses import dataclass

from services.worker.unit.takeover import GIVEN_UP_MS, Takeover


@dataclass
class Copy:
    began: int = 0
    out: int = 0
    busy: bool = False


def test_each_phase_ends_when_what_it_waits_for_is_there() -> None:
    copy, takeover = Copy(out=0, busy=True), Takeover(placed_ms=100, reached=7)
    assert not takeover.look(copy, 130)
    assert takeover.phases == {"activation": 30}
    copy.busy = False
    assert not takeover.look(copy, 150)
    assert takeover.phases == {"activation": 30, "replay": 20}, "replay is counted from when it works"
    copy.out = 7
    assert not takeover.look(copy, 180), "its outputs are open, and nothing of its own is out"
    copy.out = 8
    assert takeover.look(copy, 190)
    assert takeover.phases == {"activation": 30, "replay": 20, "recovered": 80, "first_output": 90}


def test_what_went_out_before_is_no_output_of_the_takeover() -> None:
    copy, takeover = Copy(began=7, out=7), Takeover(placed_ms=0)
    assert not takeover.look(copy, 1)
    assert not takeover.look(copy, 5_000)
    assert "first_output" not in takeover.phases


def test_the_first_output_may_come_before_all_is_replayed() -> None:
    copy, takeover = Copy(busy=True), Takeover(placed_ms=0)
    takeover.look(copy, 1)
    copy.out = 1
    assert not takeover.look(copy, 2)
    copy.busy = False
    assert takeover.look(copy, 9)
    assert takeover.phases == {"activation": 1, "replay": 8, "first_output": 2, "recovered": 2}


def test_it_has_recovered_once_all_that_was_processed_before_is_out() -> None:
    """MECHANISMS P13. What is known of it when the copy begins to work counts, not what it then does itself."""
    known = 3
    takeover = Takeover(placed_ms=0, before=lambda: known)
    copy, known = Copy(began=5, out=5), 9
    assert not takeover.look(copy, 10)
    copy.out, known = 9, 40
    assert takeover.look(copy, 25)
    assert takeover.phases["recovered"] == 25


def test_a_copy_that_loses_its_state_on_the_way_has_as_far_to_go() -> None:
    takeover = Takeover(placed_ms=0, before=lambda: 9)
    takeover.look(Copy(busy=True), 10)
    again = takeover.again()
    assert not again.look(Copy(out=8), 50)
    assert again.look(Copy(out=9), 60)
    assert again.phases["recovered"] == 60


def test_what_nobody_can_reach_is_left_out_at_last() -> None:
    takeover = Takeover(placed_ms=0, before=lambda: 10**9)
    assert not takeover.look(Copy(out=9), 10)
    assert takeover.look(Copy(out=9), GIVEN_UP_MS)
    assert takeover.phases.keys() == {"activation", "replay", "first_output"}
