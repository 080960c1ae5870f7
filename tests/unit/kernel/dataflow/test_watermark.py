"""PROTOCOL 3: the watermark of a source task."""

from __future__ import annotations

from holdfast.schemas.cuts import LOADED_WATERMARK, NO_WATERMARK, TaskCuts
from holdfast.services.kernel.dataflow.watermark import followed, of_partitions


def cuts(watermark: int, idle: bool = False, final: bool = False) -> TaskCuts:
    return TaskCuts(None, 1, (), watermark, idle, final)


def test_the_slowest_partition_holds_the_watermark_back() -> None:
    assert of_partitions([900, 500], lateness_us=100) == 400
    assert of_partitions([900, None], lateness_us=0) == NO_WATERMARK
    assert of_partitions([], lateness_us=0) == NO_WATERMARK


def test_an_idle_source_follows_the_slowest_that_is_not() -> None:
    assert followed([cuts(70), cuts(60), cuts(5, idle=True), cuts(1, final=True)]) == 60


def test_nothing_is_followed_if_all_are_idle() -> None:
    assert followed([cuts(70, idle=True)]) == NO_WATERMARK
    assert followed([]) == NO_WATERMARK


def test_nobody_follows_a_loaded_table() -> None:
    table = cuts(LOADED_WATERMARK)
    assert followed([table]) == NO_WATERMARK
    assert followed([table, cuts(70)]) == 70
