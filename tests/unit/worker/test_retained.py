"""Bytes of frames that readers have not acknowledged, and the bound of a job."""

from __future__ import annotations

from holdfast.schemas.progress import Progress
from holdfast.schemas.topics import Partition
from holdfast.services.worker.core.cut_rhythm import MOST_STEPS, Lead
from holdfast.services.worker.core.retained import LONG_MS, Bound, Retained
from holdfast.services.worker.core.trim_limit import later

ONE, TWO = Partition("data", 0), Partition("data", 1)
READERS = {ONE: ("fine-0", "poor-0"), TWO: ("fine-1",)}


def acked(**batches: int) -> dict[str, Progress]:
    named = {unit.replace("_", "-"): batch for unit, batch in batches.items()}
    return {unit: Progress(unit, batch, batch) for unit, batch in named.items()}


def test_a_frame_counts_until_the_last_of_its_readers_has_acknowledged_its_batch() -> None:
    retained = Retained(READERS)
    for batch in (1, 2, 3):
        retained.sent(batch, ONE, 100)
        retained.sent(batch, TWO, 10)
    assert retained.bytes({}) == 330
    assert retained.kept(acked(fine_0=3, fine_1=2, poor_0=1)) == {"fine-0+poor-0": 200, "fine-1": 10}
    assert retained.bytes(acked(fine_0=3, fine_1=3, poor_0=3)) == 0


def test_a_partition_without_readers_counts_for_nothing() -> None:
    retained = Retained({ONE: ()})
    retained.sent(1, ONE, 100)
    assert retained.bytes({}) == 0


def test_bytes_that_another_copy_has_sent_are_known_from_its_marker() -> None:
    retained = Retained(READERS, 5, {"fine-0+poor-0": 500, "gone-0": 7})
    retained.sent(6, ONE, 100)
    assert retained.bytes(acked(fine_0=9, fine_1=9, poor_0=4)) == 600
    assert retained.bytes(acked(fine_0=9, fine_1=9, poor_0=5)) == 100


def test_a_copy_that_takes_over_counts_what_it_has_sent_itself_once() -> None:
    retained = Retained(READERS)
    for batch in (1, 2, 3):
        retained.sent(batch, ONE, 100)
    retained.adopt(2, {"fine-0+poor-0": 150})
    assert retained.bytes({}) == 250


def test_steps_are_bounded_and_count_for_longer_rather_than_for_less() -> None:
    lead = Lead()
    batches = 5 * MOST_STEPS
    for batch in range(1, batches + 1):
        lead.cut(batch, 3)
        assert len(lead._steps) <= MOST_STEPS
    assert lead.bytes == 3 * batches
    assert 3 * (batches - 100) <= lead.behind(100) <= 3 * batches
    assert lead.behind(batches) == 0


def test_parts_of_one_batch_are_one_step() -> None:
    lead = Lead()
    lead.cut(1, 10)
    lead.cut(1, 20)
    assert len(lead._steps) == 1
    assert lead.behind(0) == 30


def test_the_bound_is_of_all_units_together_and_of_those_that_run() -> None:
    bound = Bound(100)
    half = Progress("a-0", 5, 1, retained=50)
    assert not bound.reached([half, Progress("b-0", 5, 2, retained=49)], 0)
    assert bound.reached([half, Progress("b-0", 5, 2, retained=50)], 0)
    assert not bound.reached([half, Progress("b-0", 5, 2, retained=50, ended=True)], 0)
    assert not Bound(None).reached([half], 0)


def test_a_job_that_is_held_back_for_long_names_the_unit_it_waits_for() -> None:
    bound, full = Bound(10), [Progress("a-0", 5, 4, retained=10), Progress("b-0", 5, 2)]
    assert bound.reached(full, 1_000)
    assert bound.waits == ""
    assert bound.reached(full, 1_000 + LONG_MS)
    assert bound.waits == (
        "no batch begins: the data topics hold retain_bytes (10) that are not acknowledged, the least by b-0"
    )
    assert not bound.reached([], 9_000)
    assert bound.waits == ""


def test_the_newer_of_two_readings_of_a_batch_says_what_is_retained() -> None:
    old, new = Progress("a-0", 5, 1, retained=70), Progress("a-0", 5, 1, retained=10)
    assert later(old, new).retained == 10
    assert later(new, Progress("a-0", 4, 1, retained=90)).retained == 10
