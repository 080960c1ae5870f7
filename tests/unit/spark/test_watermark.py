"""The watermark of a Spark operator follows the slowest of its input partitions."""

from __future__ import annotations

from holdfast.schemas.commits import Heard
from holdfast.schemas.cuts import NO_WATERMARK
from holdfast.services.spark.core.watermark import listen, lowest


def test_a_partition_that_has_said_nothing_holds_the_watermark_back() -> None:
    heard = listen((), [500, None], 0)
    assert lowest(heard, 0, [30.0] * 2) == NO_WATERMARK
    heard = listen(heard, [None, 200], 1_000)
    assert lowest(heard, 1_000, [30.0] * 2) == 200


def test_no_partition_goes_back() -> None:
    heard = listen(listen((), [500, 400], 0), [300, 450], 10)
    assert heard == (Heard(500, 10), Heard(450, 10))


def test_a_partition_that_is_silent_for_long_does_not_count_until_it_speaks() -> None:
    heard = listen(listen((), [500, 100], 0), [900, None], 30_000)
    assert lowest(heard, 30_000, [30.0] * 2) == 900
    assert lowest(heard, 30_000, [30.0, None]) == 100
    heard = listen(heard, [None, 150], 30_001)
    assert lowest(heard, 30_001, [30.0] * 2) == 150
