"""What units use of a CPU, as plans count it: by powers of two of the median, and only where it really differs."""

from __future__ import annotations

import pytest

from holdfast.schemas.costs import Costs
from holdfast.schemas.heartbeats import Heartbeat
from holdfast.services.recovery.core.job.consumption import MOST, Consumption, relative


def said(consumption: Consumption, time_ms: int, incarnation: str = "1", leads: bool = True, **cpu_ms: float) -> None:
    costs = tuple(Costs(unit, cpu_ms=ms, leads=leads) for unit, ms in cpu_ms.items())
    consumption.read(Heartbeat("w1", incarnation, 0, costs=costs), 1000 * time_ms)


def test_units_are_alike_unless_they_differ_by_half_a_power_of_two() -> None:
    assert relative({}) == relative({"a": 0.3}) == {}
    assert relative({"a": 0.2, "b": 0.25, "c": 0.27}) == {}
    assert relative({"a": 0.2, "b": 0.2, "c": 0.38, "d": 0.09}) == {"c": 2.0, "d": 0.5}
    assert relative({"a": 0.0001, "b": 0.008, "c": 0.01}) == {}, "an empty loop costs as much"
    assert relative({"a": 0.02, "b": 0.02, "c": 0.9}) == {"c": MOST}


def test_a_counter_says_nothing_before_its_second_word_and_begins_again_with_a_process() -> None:
    consumption = Consumption()
    said(consumption, 0, a=0, b=0, c=5_000)
    assert consumption.of("abc") == {}
    said(consumption, 1_000, a=100, b=110, c=5_400)
    assert consumption.of("abc") == {"c": 4.0}
    assert consumption.of("ab") == {}
    said(consumption, 2_000, "2", c=0)
    said(consumption, 2_100, "2", c=90)
    assert consumption.of("abc") == {"c": 4.0}, "a new process, and too short a time"
    said(consumption, 60_000, leads=False, a=99_999)
    assert consumption.of("abc") == {"c": 4.0}, "of standbys nothing counts"
    consumption.forget("c")
    assert consumption.of("abc") == {}


@pytest.mark.parametrize("seconds", [30, 90])
def test_a_load_that_has_changed_counts_as_it_is_now(seconds: int) -> None:
    consumption, cpu_ms = Consumption(), 0.0
    for second in range(0, 30 + seconds):
        cpu_ms += 800 if second < 30 else 100
        said(consumption, 1_000 * second, a=100 * second, b=100 * second, c=cpu_ms)
    assert consumption.of("abc") == ({"c": 4.0} if seconds == 30 else {})
