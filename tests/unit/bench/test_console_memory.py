"""Figures of the memory of the console's process."""

from __future__ import annotations

from bench.rig.memory import SHARES, Memory


def test_a_slope_counts_from_when_the_process_is_warm() -> None:
    memory = Memory(60.0)
    said = [memory.note(minute, 200.0 + (min(minute, 9.0))) for minute in range(61)]
    found = memory.figures()
    assert (found["slope_mib_per_h"], found["last_mib"]) == (0.0, 209.0), "it has grown for nine minutes alone"
    assert len([one for one in said if one]) == SHARES
    assert (found["after_5_min_mib"], found["after_60_min_mib"]) == (205.0, 209.0)


def test_memory_that_grows_by_a_mebibyte_a_minute_has_a_slope_of_sixty() -> None:
    memory = Memory(10.0)
    for second in range(600):
        memory.note(second / 60, 100.0 + second / 60)
    assert memory.figures()["slope_mib_per_h"] == 60.0
