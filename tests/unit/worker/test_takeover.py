"""How long a copy takes to lead its unit, by phase."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.services.worker.unit.facts.takeover import GIVEN_UP_MS, Takeover


@dataclass
class Copy:
    """batch: at least what is out."""

    began: int = 0
    out: int = 0
    busy: bool = False
    done: int = 0

    @property
    def batch(self) -> int:
        return max(self.done, self.out)


def test_each_phase_ends_when_what_it_waits_for_is_there() -> None:
    copy, takeover = Copy(out=0, busy=True), Takeover(placed_ms=100, reached=7)
    assert not takeover.follow(copy, 130)
    assert takeover.phases == {"activation": 30}
    copy.done = 6
    assert not takeover.follow(copy, 140)
    assert takeover.phases == {"activation": 30}, "it is not as far as it was, whether or not a batch waits"
    copy.done = 7
    assert not takeover.follow(copy, 150)
    assert takeover.phases == {"activation": 30, "replay": 20}, "replay is counted from when it works"
    copy.out = 7
    assert not takeover.follow(copy, 180), "its outputs are open, and nothing of its own is out"
    copy.out = 8
    assert takeover.follow(copy, 190)
    assert takeover.phases == {"activation": 30, "replay": 20, "recovered": 80, "first_output": 90}


def test_batches_that_went_out_before_are_no_output_of_the_takeover() -> None:
    copy, takeover = Copy(began=7, out=7), Takeover(placed_ms=0)
    assert not takeover.follow(copy, 1)
    assert not takeover.follow(copy, 5_000)
    assert "first_output" not in takeover.phases


def test_the_first_output_may_come_before_all_is_replayed() -> None:
    copy, takeover = Copy(busy=True), Takeover(placed_ms=0, before=lambda: 5)
    takeover.follow(copy, 1)
    copy.out = 1
    assert not takeover.follow(copy, 2)
    copy.done = 5
    assert not takeover.follow(copy, 9)
    copy.out = 5
    assert takeover.follow(copy, 11)
    assert takeover.phases == {"activation": 1, "first_output": 2, "replay": 8, "recovered": 11}


def test_while_batches_wait_a_long_replay_is_not_given_up() -> None:
    takeover = Takeover(placed_ms=0, before=lambda: 100)
    assert not takeover.follow(Copy(done=9, busy=True), 10)
    assert not takeover.follow(Copy(out=99, busy=True), 2 * GIVEN_UP_MS)
    assert takeover.follow(Copy(out=100, busy=True), 2 * GIVEN_UP_MS + 5)
    assert takeover.phases["replay"] == 2 * GIVEN_UP_MS - 5


def test_a_takeover_has_recovered_once_all_that_was_processed_before_is_out() -> None:
    """MECHANISMS P13. What is known of it when the copy begins to work counts, not what it then does itself."""
    known = 3
    takeover = Takeover(placed_ms=0, before=lambda: known)
    copy, known = Copy(began=5, out=5), 9
    assert not takeover.follow(copy, 10)
    copy.out, known = 9, 40
    assert takeover.follow(copy, 25)
    assert takeover.phases["recovered"] == 25


def test_a_copy_that_loses_its_state_on_the_way_has_as_far_to_go() -> None:
    takeover = Takeover(placed_ms=0, before=lambda: 9)
    takeover.follow(Copy(busy=True), 10)
    again = takeover.again()
    assert not again.follow(Copy(out=8), 50)
    assert again.follow(Copy(out=9), 60)
    assert again.phases["recovered"] == 60


def test_batches_that_nobody_can_reach_are_left_out_at_last() -> None:
    takeover = Takeover(placed_ms=0, before=lambda: 10**9)
    assert not takeover.follow(Copy(out=9), 10)
    assert takeover.follow(Copy(out=9), 10 + GIVEN_UP_MS)
    assert takeover.phases.keys() == {"activation", "first_output"}


def test_after_a_long_restore_the_other_phases_are_waited_for() -> None:
    takeover = Takeover(placed_ms=0, before=lambda: 9)
    assert not takeover.follow(Copy(), 2 * GIVEN_UP_MS)
    assert takeover.follow(Copy(out=9), 2 * GIVEN_UP_MS + 7)
    assert takeover.phases["replay"] == 7
