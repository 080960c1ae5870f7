"""Who is suspected, who is gone, and when nobody is to be suspected."""

from __future__ import annotations

import random

import pytest
from pydantic import ValidationError

from holdfast.schemas.heartbeats import CopyState, Exit, Heartbeat, Turn
from holdfast.services.kernel.liveness.attention import LOOP_US, OUTAGE_US, RECONNECT_US, UNSETTLED_US, Attention
from holdfast.services.kernel.liveness.detector import (
    MIN_GRACE_US,
    OVERHEARD,
    REJOIN_US,
    RETURNED_US,
    UNSETTLED_GRACE_BEATS,
    WARY_US,
    Detector,
)
from holdfast.services.kernel.liveness.grace import fixed_us
from holdfast.services.recovery.core.recovery import Recovery
from holdfast.services.recovery.settings import RecoverySettings

BEAT_US, ECHO_US = 100_000, 20_000
FAIL_STOP_US = 30_000_000
PATIENCE_MS = 5_000


class Ears:
    """A detector that hears worker w, and its own echo."""

    def __init__(self, echo: bool = False) -> None:
        self.now_us = 0
        self.echo = echo
        self.attention = Attention(ECHO_US if echo else None)
        self.detector = Detector(BEAT_US, self.attention)
        self.detector.begin()
        self.attention.advance(0)

    def wait(self, us: int, echo: bool = True) -> Ears:
        """In turns of 10 ms."""
        until_us = self.now_us + us
        while self.now_us < until_us:
            self.now_us = min(self.now_us + 10_000, until_us)
            self.attention.advance(self.now_us)
            if self.echo and echo and self.now_us % ECHO_US == 0:
                self.attention.echo(self.now_us)
        return self

    def pause(self, us: int) -> Ears:
        """The loop hangs."""
        self.now_us += us
        self.attention.advance(self.now_us)
        return self

    def stand(self, us: int) -> Ears:
        """The loop hangs, and reads what has come meanwhile."""
        self.pause(us).attention.echo(self.now_us)
        return self

    def others(self, beats: int, names: str = "ab") -> Ears:
        """Other workers are heard, at each interval."""
        for _ in range(beats):
            for name in names:
                self.detector.read(Heartbeat(name, "1", 0))
            self.wait(BEAT_US)
        return self

    def hear(self, incarnation: str = "1", decided: int = 0, turn_ms: int = 0) -> Ears:
        """turn_ms: of its loop, whose patience is PATIENCE_MS."""
        reports = (CopyState("u", 1, "running"),)
        turn = Turn(turn_ms, PATIENCE_MS, "j@1/u") if turn_ms else None
        self.detector.read(Heartbeat("w", incarnation, 0, decided=decided, copies=reports, turn=turn))
        return self

    def exit(self, incarnation: str = "1") -> Ears:
        self.detector.read(Exit("w", incarnation, 0))
        return self

    def misses(self) -> int:
        return self.detector.misses("w", "1")

    def gone(self, incarnation: str = "1") -> bool:
        return self.detector.gone("w", incarnation, FAIL_STOP_US)


def regular(ears: Ears, beats: int = 20) -> Ears:
    for _ in range(beats):
        ears.hear().wait(BEAT_US)
    return ears.hear()


def after_an_outage() -> Ears:
    """Worker w does not come back; a and b have not yet."""
    return regular(Ears(echo=True).others(20)).others(1).wait(2_000_000, echo=False).wait(RECONNECT_US)


def said(state: str = "running", batch: int = 0, decided: int = 0, leaving: bool = False) -> Heartbeat:
    return Heartbeat("w", "1", 0, decided=decided, copies=(CopyState("u", 1, state, batch),), leaving=leaving)


def test_a_heartbeat_says_nothing_new_if_all_is_as_before_but_for_batches() -> None:
    ears = regular(Ears())
    assert ears.detector.says_nothing_new(said(batch=7))
    for news in (said("ended"), said(leaving=True), said(decided=1), Exit("w", "1", 0)):
        assert not ears.detector.says_nothing_new(news)


def test_the_first_heartbeat_after_a_miss_is_news() -> None:
    ears = regular(Ears()).wait(3 * BEAT_US)
    assert ears.misses()
    assert not ears.detector.says_nothing_new(said())


def test_a_worker_that_is_well_is_neither_silent_nor_gone_nor_leaving() -> None:
    ears = regular(Ears())
    assert ears.detector.well("w", "1", FAIL_STOP_US)
    assert not ears.detector.well("w", "0", FAIL_STOP_US)
    ears.detector.read(said(leaving=True))
    assert not ears.detector.well("w", "1", FAIL_STOP_US)
    ears = regular(Ears()).wait(3 * BEAT_US)
    assert not ears.detector.well("w", "1", FAIL_STOP_US)
    assert not regular(Ears()).exit().detector.well("w", "1", FAIL_STOP_US)


def test_on_a_machine_that_starves_everybody_silence_counts_slowly_and_still_it_counts() -> None:
    """Every turn of the loop is late, and an echo comes back in each."""
    ears = regular(Ears(echo=True))
    turns = 0
    while not ears.misses() and turns < 100:
        ears.pause(LOOP_US * 2).attention.echo(ears.now_us)
        turns += 1
    assert turns == -(-(BEAT_US + MIN_GRACE_US) // ECHO_US), "an interval of the echo counts in each"


def test_the_nth_heartbeat_is_missed_after_n_intervals_and_the_grace() -> None:
    ears = regular(Ears())
    assert ears.detector.grace_us("w") == MIN_GRACE_US == 30_000
    missed = []
    for _ in range(34):
        ears.wait(10_000)
        missed.append(ears.misses())
    assert missed == [0] * 12 + [1] * 10 + [2] * 10 + [3] * 2


@pytest.mark.parametrize("jitter_us", [40_000, 80_000, 150_000])
def test_grace_follows_the_spread_of_a_workers_heartbeats_and_comes_back(jitter_us: int) -> None:
    ears, chance = Ears(), random.Random(1)
    needless = 0
    for number in range(300):
        ears.hear().wait(BEAT_US + chance.randrange(jitter_us))
        needless += number >= 50 and ears.misses() > 0
    assert needless <= 5, "more than 2 % of heartbeats that were only late"
    assert MIN_GRACE_US < ears.detector.grace_us("w") <= 2 * BEAT_US
    assert regular(ears, 50).detector.grace_us("w") == MIN_GRACE_US


def test_a_heartbeat_beside_a_loop_that_hangs_is_no_sign_of_life() -> None:
    ears = regular(Ears())
    for turn_ms in range(5_100, 40_000, 100):
        ears.wait(BEAT_US).hear(turn_ms=turn_ms)
        assert (ears.misses() > 0) == (turn_ms > 5_100), turn_ms
    assert ears.gone(), "past the fail-stop time-out like any that is silent"
    assert str(ears.detector.turn("w", "1")) == "stuck for 39.9 s in j@1/u"
    assert not ears.hear().misses(), "it turns again"
    assert ears.detector.turn("w", "1") is None


def test_a_long_turn_within_its_patience_is_nobodys_business() -> None:
    ears = regular(Ears())
    for turn_ms in range(1_000, PATIENCE_MS + 1, 100):
        ears.wait(BEAT_US).hear(turn_ms=turn_ms)
        assert not ears.misses()


def test_a_single_stall_does_not_make_the_detector_slow() -> None:
    ears = regular(Ears()).wait(5_000_000)
    regular(ears, 1)
    assert ears.detector.grace_us("w") == MIN_GRACE_US


def test_after_a_false_switch_grace_is_doubled_for_a_while() -> None:
    ears = regular(Ears()).wait(140_000)
    assert ears.misses() == 1
    ears.detector.accuse("w", "1")
    ears.hear()
    assert ears.detector.false_switches["w"] == 1
    regular(ears, 50)
    assert ears.detector.grace_us("w") == 2 * MIN_GRACE_US
    regular(ears, WARY_US // BEAT_US)
    assert ears.detector.grace_us("w") == MIN_GRACE_US


def test_a_switch_from_a_worker_that_really_stood_still_was_not_false() -> None:
    ears = regular(Ears()).wait(2_000_000)
    ears.detector.accuse("w", "1")
    ears.hear()
    assert ears.detector.false_switches["w"] == 0
    assert ears.detector.grace_us("w") == MIN_GRACE_US


def test_silence_does_not_count_while_the_own_loop_hangs() -> None:
    ears = regular(Ears()).wait(50_000).pause(10_000_000)
    assert ears.misses() == 0
    ears.wait(70_000)
    assert ears.misses() == 0
    ears.wait(20_000)
    assert ears.misses() == 1


def test_silence_does_not_count_while_the_own_heartbeat_does_not_come_back() -> None:
    ears = regular(Ears(echo=True)).wait(40_000).wait(250_000, echo=False)
    assert ears.misses() == 0
    ears.wait(60_000)
    assert ears.misses() == 0, "what queued up behind the broker is read first"
    ears.wait(60_000)
    assert ears.misses() == 1


def test_after_an_outage_of_the_broker_workers_have_time_to_come_back() -> None:
    ears = regular(Ears(echo=True)).wait(2_000_000, echo=False)
    assert ears.wait(RECONNECT_US + REJOIN_US).misses() == 0, "its client may take so long"
    assert ears.wait(BEAT_US + UNSETTLED_GRACE_BEATS * BEAT_US).misses() > 0, "by now it would have been heard"


def test_after_an_outage_of_the_broker_grace_is_longer_for_a_while_for_every_worker() -> None:
    """The broker that was lost starts again: on a small machine all heartbeats come less evenly meanwhile."""
    ears = regular(Ears(echo=True)).wait(2_000_000, echo=False).wait(RECONNECT_US + 100_000)
    assert regular(ears).detector.grace_us("w") == UNSETTLED_GRACE_BEATS * BEAT_US, "however even its heartbeats were"
    assert ears.wait(BEAT_US + UNSETTLED_GRACE_BEATS * BEAT_US - 10_000).misses() == 0
    assert ears.wait(20_000).misses() == 1, "longer, not for ever"
    assert regular(ears, UNSETTLED_US // BEAT_US).detector.grace_us("w") == MIN_GRACE_US


def test_a_broker_that_is_late_once_leaves_grace_as_it_is() -> None:
    ears = regular(Ears(echo=True)).wait(500_000, echo=False).wait(100_000)
    assert regular(ears).detector.grace_us("w") == MIN_GRACE_US


def test_once_a_worker_is_back_after_an_outage_its_silence_counts_at_once() -> None:
    ears = regular(Ears(echo=True)).wait(2_000_000, echo=False).wait(RECONNECT_US + 100_000).hear()
    assert ears.wait(1_000_000).misses() > 0


def test_a_dead_worker_is_found_out_however_often_the_own_heartbeat_is_late() -> None:
    """On a machine with too much to do it is late for as long as during an outage, every few seconds."""
    ears = regular(Ears(echo=True))
    for _ in range(8):
        ears.wait(400_000, echo=False).wait(RECONNECT_US + 1_000_000)
    assert ears.misses() > 0


def test_a_standstill_of_this_process_is_no_outage_of_the_broker() -> None:
    """Nobody could have heard anything meanwhile: of workers that live what they sent is read in the same turn."""
    ears = regular(Ears(echo=True)).stand(5_000_000)
    assert not ears.attention.resumed
    assert not ears.misses()
    ears.wait(BEAT_US + UNSETTLED_GRACE_BEATS * BEAT_US)
    assert ears.misses() == 1, "it has been silent since before the standstill"


def test_several_standstills_in_a_row_are_no_outage_either() -> None:
    ears = regular(Ears(echo=True))
    for _ in range(10):
        ears.pause(300_000).wait(20_000, echo=False)
    ears.stand(10_000)
    assert not ears.attention.resumed


def test_after_a_standstill_grace_is_longer_for_a_while_as_after_an_outage() -> None:
    """Where this process had no processor for so long, workers may have none either."""
    ears = regular(regular(Ears(echo=True)).stand(OUTAGE_US + 10_000))
    assert ears.detector.grace_us("w") == UNSETTLED_GRACE_BEATS * BEAT_US
    regular(ears, (UNSETTLED_US + RECONNECT_US) // BEAT_US - 30)
    assert ears.detector.grace_us("w") == UNSETTLED_GRACE_BEATS * BEAT_US, "for as long as after an outage"
    assert regular(ears, 30).detector.grace_us("w") == MIN_GRACE_US


def test_an_outage_of_the_broker_is_one_though_turns_are_late() -> None:
    ears = regular(Ears(echo=True))
    for _ in range(20):
        ears.pause(2 * LOOP_US)
    ears.stand(10_000)
    assert len(ears.attention.resumed) == 1
    assert ears.wait(RECONNECT_US + REJOIN_US).misses() == 0


def test_an_outage_of_the_broker_in_which_this_process_stands_for_a_while_is_one() -> None:
    ears = regular(Ears(echo=True)).wait(OUTAGE_US // 2, echo=False).pause(3_000_000).wait(OUTAGE_US // 2, echo=False)
    assert len(ears.wait(100_000).attention.resumed) == 1


def test_the_silence_of_one_counts_once_all_others_have_been_back_for_a_while_after_an_outage() -> None:
    ears = after_an_outage().others(RETURNED_US // BEAT_US - 1)
    assert ears.misses() == 0, "its client may take so long"
    assert ears.others(3).misses() > 0, "the broker is not the reason"
    assert ears.misses() > 2, "the silence is as long as it was"
    assert ears.hear().others(8).misses() == 0
    assert ears.others(3).misses() > 0, "later ones count as always"
    ears.hear().others(1).wait(2_000_000, echo=False).wait(RECONNECT_US).others(RETURNED_US // BEAT_US - 1)
    assert ears.misses() == 0, "after the next outage it has time to return again"


@pytest.mark.parametrize("names", ["", "a"])
def test_a_single_other_that_is_back_proves_nothing(names: str) -> None:
    ears = regular(Ears(echo=True).others(20, names)).others(1, names).wait(2_000_000, echo=False).wait(RECONNECT_US)
    assert ears.others(REJOIN_US // BEAT_US, names).misses() == 0
    assert ears.others(10, names).misses() > 0


def test_while_another_is_away_too_the_broker_may_be_the_reason() -> None:
    ears = regular(Ears(echo=True).others(20, "abc")).others(1, "abc").wait(2_000_000, echo=False).wait(RECONNECT_US)
    assert ears.others(REJOIN_US // BEAT_US, "ab").misses() == 0
    assert ears.others(10, "ab").misses() > 0


def test_a_worker_that_was_lost_before_the_outage_is_not_waited_for() -> None:
    ears = regular(Ears(echo=True).others(20, "abc").others(20)).others(1).wait(2_000_000, echo=False)
    assert ears.wait(RECONNECT_US).others(RETURNED_US // BEAT_US + 2).misses() > 0
    ears = regular(Ears(echo=True).others(20, "abc")).others(1, "abc").wait(2_000_000, echo=False)
    ears.detector.read(Exit("c", "1", 0))
    assert ears.wait(RECONNECT_US).others(RETURNED_US // BEAT_US + 2).misses() > 0


def test_others_are_back_for_as_long_as_they_have_been_heard_again() -> None:
    ears = after_an_outage().wait(1_500_000)
    assert ears.others(RETURNED_US // BEAT_US - 1).misses() == 0
    assert ears.others(3).misses() > 0


def test_another_that_is_heard_now_and_then_is_not_back() -> None:
    ears = after_an_outage()
    for _ in range(4):
        assert ears.others(1).others(10, "b").misses() == 0


def test_another_that_is_silent_again_is_not_back() -> None:
    assert after_an_outage().others(10).others(30, "b").misses() == 0


def test_a_further_outage_lets_a_worker_that_was_silent_before_it_wait_no_longer() -> None:
    ears = regular(Ears(echo=True)).wait(1_000_000, echo=False).wait(RECONNECT_US + REJOIN_US // 2)
    ears.wait(1_000_000, echo=False).wait(RECONNECT_US + REJOIN_US // 2)
    assert ears.wait(BEAT_US + UNSETTLED_GRACE_BEATS * BEAT_US + 100_000).misses() > 0


def test_a_dead_worker_is_found_while_the_broker_answers_only_now_and_then() -> None:
    """Each heartbeat that comes counts for one interval of the echo, except in pauses, which do not follow each other.
    And however many outages there were, the first one counts.
    """
    ears = regular(Ears(echo=True))
    silent_us = BEAT_US + UNSETTLED_GRACE_BEATS * BEAT_US + REJOIN_US
    outages = 0
    while not ears.misses() and outages < 1_000:
        ears.wait(OUTAGE_US + 100_000, echo=False).attention.echo(ears.now_us)
        outages += 1
    assert outages <= 2 * silent_us // ECHO_US + 2


def test_an_exit_notice_counts_during_an_outage_as_always() -> None:
    assert regular(Ears(echo=True)).wait(2_000_000, echo=False).wait(100_000).exit().gone()


def test_an_echo_in_time_does_not_slow_the_detection() -> None:
    ears = regular(Ears(echo=True)).wait(140_000)
    assert ears.misses() == 1


def test_an_exit_notice_is_final_for_its_incarnation_and_says_nothing_of_the_next() -> None:
    ears = regular(Ears()).exit()
    assert ears.gone()
    assert ears.hear("1").gone(), "a heartbeat still in flight revives nothing"
    assert ears.detector.report("w", "1", "u") is None
    ears.hear("2")
    assert ears.gone("1")
    assert not ears.gone("2")
    ears.exit("1")
    assert not ears.gone("2"), "a notice that comes late names the old incarnation"


def test_a_new_incarnation_ends_the_old_one() -> None:
    ears = regular(Ears()).hear("2")
    assert ears.gone("1")
    assert [beat.incarnation for beat in ears.detector.alive()] == ["2"]


def test_the_exit_of_an_incarnation_never_heard_counts() -> None:
    assert Ears().exit("7").gone("7")


def test_silent_past_the_fail_stop_time_out_is_gone() -> None:
    ears = regular(Ears()).wait(FAIL_STOP_US - 10_000)
    assert not ears.gone()
    assert ears.wait(10_000).gone()


def test_an_incarnation_that_only_an_assignment_names_is_given_time() -> None:
    ears = Ears().wait(60_000_000)
    ears.detector.expect("w", "1")
    assert not ears.gone()
    assert ears.wait(140_000).misses() == 1


def test_a_worker_answers_again_after_three_heartbeats_in_a_row_that_carry_the_offset() -> None:
    ears = regular(Ears()).wait(500_000).hear(decided=6)
    said = []
    for decided in (7, 7, 7):
        ears.wait(BEAT_US).hear(decided=decided)
        said.append(ears.detector.answers("w", "1", 7))
    assert said == [False, False, True]
    assert not ears.wait(140_000).detector.answers("w", "1", 7), "not while one is missing"
    ears.hear(decided=7)
    assert not ears.detector.answers("w", "1", 7), "the row begins again"


def test_the_wait_for_the_next_miss_ends_when_it_is_missed() -> None:
    ears = regular(Ears()).wait(30_000)
    wait_us = ears.detector.wait_us("w", "1", FAIL_STOP_US)
    assert wait_us == 100_000
    assert ears.wait(wait_us - 1).misses() == 0
    assert ears.wait(1).misses() == 1
    assert ears.detector.wait_us("w", "1", FAIL_STOP_US) == 100_000


def test_two_workers_of_one_name_at_two_addresses_are_noticed_and_a_host_set_up_again_is_not() -> None:
    detector = Ears().detector
    newer, older = (Heartbeat("w", number, 0, address=f"m{number}:/d") for number in ("2", "1"))
    detector.read(newer)
    for _ in range(OVERHEARD - 1):
        detector.read(older)
        detector.read(newer)
    assert not detector.clashes, "so many may have been on their way"
    detector.read(older)
    assert detector.clashes == {"w": (newer, older)}


def test_late_heartbeats_of_our_former_incarnation_are_no_clash() -> None:
    detector = Ears().detector
    for incarnation in ("2", *["1"] * 2 * OVERHEARD):
        detector.read(Heartbeat("w", incarnation, 0, address="m:/d"))
    assert not detector.clashes


# -- a fixed grace ----------------------------------------------------------------------------------------------------


def test_a_fixed_grace_follows_nothing() -> None:
    """Neither the spread of heartbeats, nor a false switch, nor an outage of the broker."""
    ears = Ears(echo=True)
    ears.detector = Detector(BEAT_US, ears.attention, fixed_grace_us=40_000)
    ears.detector.begin()
    assert ears.detector.grace_us("w") == 40_000
    for late_us in (0, 60_000, 0, 90_000) * 5:
        ears.hear().wait(BEAT_US + late_us)
    ears.detector.accuse("w", "1")
    regular(ears)
    assert ears.detector.grace_us("w") == 40_000
    ears.wait(3_000_000, echo=False).wait(RECONNECT_US + REJOIN_US)
    assert ears.attention.unsettled
    assert ears.detector.grace_us("w") == 40_000


def test_with_a_fixed_grace_a_loaded_worker_is_suspected_sooner() -> None:
    """Heartbeats come by turns at once and 90 ms late: an adaptive grace gets used to that, a fixed one does not."""
    misses = {}
    for grace_us in (None, 30_000):
        ears = Ears()
        ears.detector = Detector(BEAT_US, ears.attention, grace_us)
        ears.detector.begin()
        for late_us in (0, 90_000) * 10:
            ears.hear().wait(BEAT_US + late_us)
        misses[grace_us] = ears.misses()
    assert misses == {None: 0, 30_000: 1}


@pytest.mark.parametrize(("text", "found_us"), [("adaptive", None), ("fixed:30", 30_000), ("fixed:60000", 60_000_000)])
def test_the_setting_of_the_grace(text: str, found_us: int | None) -> None:
    settings = RecoverySettings(grace=text)
    assert Recovery(fixed_grace_us=fixed_us(settings.grace)).known.detector.grace_us("w") == (found_us or MIN_GRACE_US)


@pytest.mark.parametrize("text", ["", "fixed", "fixed:", "fixed:0", "fixed:60001", "fixed:1.5", "fixed:-3", "Adaptive"])
def test_another_text_is_no_grace(text: str) -> None:
    with pytest.raises(ValidationError, match="write 'adaptive', or 'fixed:<ms>' with 1 to 60000 ms"):
        RecoverySettings(grace=text)
