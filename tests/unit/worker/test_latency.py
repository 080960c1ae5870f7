"""How long results take: from the arrival of the oldest record of a batch until the batch is out."""

from __future__ import annotations

import pytest

from holdfast.services.worker.core.latency import MOST_WAITING, Latency, arrived_ms
from holdfast.services.worker.core.spent import Spent


@pytest.mark.parametrize(
    ("stamp", "before", "since"),
    [
        (950, None, 950),  # it came after the last cut
        (500, None, 900),  # recorded long ago, and sent now
        (500, 400, 500),  # after an outage: as the one before it says
        (300, 400, 900),
        (1_500, 400, 900),  # of a clock that is ahead
        (None, 400, 900),
    ],
)
def test_a_stamp_counts_if_it_can_be_true(stamp: int | None, before: int | None, since: int) -> None:
    assert arrived_ms(stamp, before, cut_ms=900, now_ms=1_000) == since


def measured(batch: int = 0) -> tuple[Latency, Spent]:
    spent = Spent()
    return Latency(spent, batch), spent


def test_a_batch_that_is_out_before_its_arrival_is_known() -> None:
    latency, spent = measured()
    for batch in range(1, 11):
        latency.note_out(batch, 1_000 + batch, [])
    latency.note_out(10, 1_500, [("s", 7, 990)])
    latency.note_out(10, 1_600, [("s", 7, 990)])
    assert (spent.latencies, spent.latency_ms, spent.waits_since_ms) == (1, 17, 0)


def test_a_batch_of_which_the_arrival_is_known_before_it_is_out() -> None:
    latency, spent = measured()
    latency.note_out(1, 1_000, [("s", 5, 990)])
    latency.note_out(1, 1_200, [("s", 9, 1_190)])
    assert (spent.latencies, spent.waits_since_ms) == (0, 990)
    latency.note_out(6, 2_000, [("s", 9, 1_190)])
    assert (spent.latencies, spent.latency_ms, spent.waits_since_ms) == (1, 1_010, 1_190)


def test_nothing_is_known_of_batches_that_another_copy_did() -> None:
    latency, spent = measured(batch=20)
    latency.note_out(20, 5_000, [("s", 18, 100)])
    latency.note_out(21, 5_001, [("s", 19, 120)])
    assert spent.latencies == 0


def test_waiting_batches_take_bounded_room_and_the_oldest_stays() -> None:
    latency, spent = measured()
    for batch in range(1, 1_000):
        latency.note_out(0, 0, [("s", batch, batch)])
    assert len(latency._waiting) <= MOST_WAITING
    assert spent.waits_since_ms == 1
    latency.stop()
    assert spent.waits_since_ms == 0
