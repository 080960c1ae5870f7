"""Units that are alike are captured one after the other, as one entry of the capture queue (MECHANISMS C8)."""

from __future__ import annotations

import pytest

from holdfast.services.kernel.protection.expected import Protected
from holdfast.services.kernel.protection.merged_captures import merged
from holdfast.services.worker.checkpoint.policies.idle import Capture, Paste
from holdfast.services.worker.checkpoint.policies.idle_minmax import IdleMinMax, choose
from holdfast.services.worker.checkpoint.policies.policy import Kind
from tests.support.idle_timeline import Timed, Timeline
from tests.unit.worker.test_idle_policies import held

POLICY = IdleMinMax.name


def unit(backup: str, load: float, replay_ms: float, capture_ms: float = 2.0) -> Protected:
    return Protected("i", backup, load, replay_ms, replay_ms, capture_ms, capture_ms)


def four(merge_ms: float) -> dict[str, Timed]:
    """Two pairs: a and b on S2, c and d on S3; a and c save more for what they cost."""
    made = {
        "a": Timed(POLICY, "S2", 0.030, 2.0, 0.0, merge_ms=merge_ms),
        "b": Timed(POLICY, "S2", 0.020, 2.0, 0.0, merge_ms=merge_ms),
        "c": Timed(POLICY, "S3", 0.029, 2.0, 0.0, merge_ms=merge_ms),
        "d": Timed(POLICY, "S3", 0.019, 2.0, 0.0, merge_ms=merge_ms),
    }
    for one in made.values():
        one.min_interval_ms = 100
    return made


def story(merge_ms: float) -> list[str]:
    """Of the first captures; the minimum interval ends at 100 ms."""
    timeline = Timeline(four(merge_ms))
    timeline.run(150.0)
    return [name for name, _ in timeline.story]


def test_only_units_are_merged_whose_loads_for_their_costs_differ_by_no_more_than_twice() -> None:
    """No history shows it: ratios there are those of the moment, and differ from one look to the next."""
    most_ms = dict.fromkeys("abc", 50.0)
    assert merged({"a": unit("j", 0.10, 30.0), "b": unit("j", 0.20, 30.0)}, most_ms) == (("a", "b"),)
    assert merged({"a": unit("j", 0.10, 30.0), "b": unit("j", 0.21, 30.0)}, most_ms) == (("a",), ("b",))
    dearer = unit("j", 0.21, 30.0, capture_ms=4.0)
    assert merged({"a": unit("j", 0.10, 30.0), "b": dearer}, most_ms) == (("a", "b"),), "load for cost, not load"


def test_the_entry_is_weighed_as_one_capture() -> None:
    """Alone `big` saves more for its cost; the pair saves 60 ms for 4 ms, big 50 ms for 5 ms."""
    led = {"x": unit("j", 0.1, 30.0), "y": unit("j", 0.1, 30.0), "big": unit("j", 0.1, 50.0, 5.0)}
    assert choose(led, led, {}, {}, [("x", "y"), ("big",)]) == Capture("x")
    led["big"] = unit("j", 0.1, 90.0, 5.0)
    assert choose(led, led, {}, {}, [("x", "y"), ("big",)]) == Capture("big")


def test_only_what_is_in_the_queue_of_an_entry_is_weighed() -> None:
    led = {"x": unit("j", 0.1, 30.0), "y": unit("j", 0.1, 500.0), "big": unit("j", 0.1, 90.0, 5.0)}
    assert choose(led, ["x", "big"], {}, {}, [("x", "y"), ("big",)]) == Capture("big")


def test_units_that_are_alike_are_captured_one_after_the_other() -> None:
    """The first of the second pair would be next if each unit were an entry of its own."""
    assert story(merge_ms=5.0) == ["a", "b", "c", "d"]
    assert story(merge_ms=0.0) == ["a", "c", "b", "d"]


def test_between_two_units_of_an_entry_nothing_is_pasted_and_data_come_first() -> None:
    units = four(5.0)
    policy = IdleMinMax()
    for one in units.values():
        one.now_ms = 100.0
    assert policy.choose(units, 100.0) == Capture("a")
    policy.captured("a", [], Kind.SWEEP)
    assert policy.under_way == ("b",)
    units["a"].captured_ms = units["a"].saved_ms = 100.0
    units["m"] = held(POLICY, "k", 10.0, now_ms=101.0)
    assert IdleMinMax().choose(units, 101.0) == Paste("k"), "without an entry under way"
    assert policy.choose(units, 101.0) == Capture("b")
    assert not policy.applies("m", units, 101.0)
    units["c"].data_wait = True
    assert policy.wait_ms("b", units, 101.0) > 0.0
    units["c"].data_wait = False
    policy.captured("b", [], Kind.SWEEP)
    assert len(policy.under_way) == 0


@pytest.mark.parametrize("gone", ["leaves", "is captured by the maximum interval", "has nothing to capture"])
def test_an_entry_does_not_wait_for_a_unit_that_cannot_be_captured(gone: str) -> None:
    units = four(5.0)
    policy = IdleMinMax()
    for one in units.values():
        one.now_ms = 100.0
    assert policy.choose(units, 100.0) == Capture("a")
    policy.captured("a", [], Kind.SWEEP)
    units["a"].captured_ms = units["a"].saved_ms = 100.0
    if gone == "leaves":
        del units["b"]
        policy.forget("b")
    elif gone == "has nothing to capture":
        units["b"].batches = 0
    else:
        policy.captured("b", [], Kind.SWEEP)
        units["b"].captured_ms = units["b"].saved_ms = 100.0
    chosen = policy.choose(units, 101.0)
    assert isinstance(chosen, Capture)
    assert chosen.unit in "cd"
    assert policy.under_way == ()


def test_a_capture_of_a_unit_that_nobody_chose_begins_no_entry() -> None:
    """The maximum interval was over."""
    policy, units = IdleMinMax(), four(5.0)
    for one in units.values():
        one.now_ms = 100.0
    assert policy.choose(units, 100.0) == Capture("a")
    policy.captured("d", [], Kind.SWEEP)
    assert policy.under_way == ()
    assert not isinstance(policy.choose(units, 100.0), Paste)
