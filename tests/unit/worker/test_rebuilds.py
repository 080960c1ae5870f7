"""A copy that rebuilds and gets no further ends; an outage of Kafka ends no copy."""

from __future__ import annotations

from holdfast.services.kernel.errors import Retriable, StateCorrupted
from holdfast.services.worker.core.rebuilds import MAX_REBUILDS, PATIENT_MS, Rebuilds


def rebuilt(often: int) -> Rebuilds:
    made = Rebuilds()
    assert {made.again("cause", unanswered=False) for _ in range(often)} == {""}
    return made


def test_a_copy_that_gets_no_further_gives_up() -> None:
    made = rebuilt(MAX_REBUILDS)
    assert made.again("cause", unanswered=False) == f"gave up after {MAX_REBUILDS} rebuilds without a batch: cause"


def test_a_batch_begins_the_count_again() -> None:
    made = rebuilt(MAX_REBUILDS)
    made.forget()
    assert not made.again("cause", unanswered=False)


def test_an_image_that_is_further_on_begins_the_count_again_and_one_of_the_same_batch_does_not() -> None:
    made = rebuilt(MAX_REBUILDS)
    made.restored(5)
    assert {made.again("cause", unanswered=False) for _ in range(MAX_REBUILDS)} == {""}
    made.restored(5)
    assert made.again("cause", unanswered=False)


def test_a_restore_that_kafka_left_unanswered_does_not_count() -> None:
    made = rebuilt(MAX_REBUILDS)
    made.began_ms = 100.0
    late_ms = 100.0 + PATIENT_MS
    assert made.unanswered(Retriable("no answer"), restoring=True, now_ms=late_ms)
    assert not made.again("cause", unanswered=True)
    assert not made.unanswered(Retriable("no answer"), restoring=True, now_ms=late_ms - 1)
    assert not made.unanswered(Retriable("no answer"), restoring=False, now_ms=late_ms)
    assert not made.unanswered(StateCorrupted("a gap"), restoring=True, now_ms=late_ms)
