"""PROTOCOL 3: the watermark of a source task."""

from __future__ import annotations

from schemas.checkpoints import TaskCuts
from schemas.cuts import LOADED_WATERMARK, NO_WATERMARK
from services.kernel.watermark import of_partitions, while_idle


def cuts(watermark: int, idle: bool = False, final: bool = False) -> TaskCuts:
    return TaskCuts(None, 1, (), watermark, idle, final)


def test_the_slowest_partition_holds_the_watermark_back() -> None:
    assert of_partitions([900, 500], lateness_us=100) == 400
    assert of_partitions([900, None], lateness_us=0) == NO_WATERMARK
    assert of_partitions([], lateness_us=0) == NO_WATERMARK


def test_an_idle_source_follows_the_slowest_that_is_not() -> None:
    others = {"a": cuts(70), "b": cuts(60), "c": cuts(5, idle=True), "d": cuts(1, final=True)}
    assert while_idle(cuts(50, idle=True), others, elapsed_us=10) == 60
    assert while_idle(cuts(65, idle=True), others, elapsed_us=10) == 65


def test_when_all_are_idle_time_goes_on_by_the_clock() -> None:
    assert while_idle(cuts(50), {"a": cuts(70, idle=True)}, elapsed_us=10) == 60
    assert while_idle(cuts(NO_WATERMARK), {}, elapsed_us=10) == NO_WATERMARK


def test_nobody_follows_a_loaded_table() -> None:
    table = cuts(LOADED_WATERMARK)
    assert while_idle(cuts(NO_WATERMARK), {"table": table}, elapsed_us=10) == NO_WATERMARK
    assert while_idle(cuts(50), {"table": table, "a": cuts(70)}, elapsed_us=10) == 70
    assert while_idle(cuts(50), {"table": table, "a": cuts(70, idle=True)}, elapsed_us=10) == 60
