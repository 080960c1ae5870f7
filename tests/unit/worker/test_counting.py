"""Which units hold a job's sources back: all that run, but none without a place, nor what waits for such a one."""

from __future__ import annotations

from collections.abc import Collection

from holdfast.services.worker.core.counting_units import SELDOM_STILL_MS, STILL_MS, CountingUnits
from holdfast.services.worker.core.cut_rhythm import MAX_LEAD_BATCHES

BELOW = {"s": frozenset({"a", "b", "c"}), "a": frozenset({"b"}), "b": frozenset[str](), "c": frozenset[str]()}
"""s feeds a and c, a feeds b."""


class Job:
    """Seen by the unit s. gone: units without a place."""

    def __init__(self) -> None:
        self.counting = CountingUnits(BELOW)
        self.processed = dict.fromkeys(BELOW, 100)
        self.newest, self.now_ms = 100, 0.0
        self.gone: Collection[str] = ()
        self.asked: set[str] = set()

    def slowest(self, own: str = "s") -> int:
        return self.counting.slowest(own, self.processed, self.newest, self.now_ms, self._runs)

    def _runs(self, unit: str) -> bool:
        self.asked.add(unit)
        return unit not in self.gone

    def process(self, *units: str, ms: float = 100.0) -> int:
        """These units process a batch, which the sources have cut."""
        self.now_ms += ms
        self.newest += 1
        for unit in units:
            self.processed[unit] = self.newest
        return self.slowest()


def after_a_while(gone: Collection[str]) -> Job:
    """a and b have processed nothing for so long that it is asked for them."""
    job = Job()
    job.slowest()
    job.gone = gone
    for _ in range(int(STILL_MS // 100) + 1):
        job.process("s", "c")
    return job


def test_a_unit_without_a_place_and_what_only_it_feeds_hold_nothing_back() -> None:
    job = after_a_while({"a"})
    assert job.slowest() == job.newest
    assert job.counting.out == {"a", "b"}


def test_nobody_is_asked_for_units_that_process() -> None:
    job = Job()
    for _ in range(100):
        job.process("s", "a", "b", "c")
    assert (job.asked, job.slowest()) == (set(), job.newest)


def test_a_slow_unit_that_runs_holds_the_sources_back() -> None:
    job = after_a_while(())
    assert job.asked == {"a", "b"}
    assert job.slowest() == 100


def test_a_unit_that_has_nothing_to_do_is_not_missed() -> None:
    job = Job()
    job.slowest()
    job.now_ms += 10 * STILL_MS
    assert (job.slowest(), job.counting.out, job.asked) == (100, frozenset(), set())


def test_nobody_is_asked_for_units_of_a_job_at_rest_which_is_cut_seldom() -> None:
    """Else each worker would read all heartbeats for as long as a job is at rest."""
    job = Job()
    for _ in range(10):
        job.process(ms=2 * STILL_MS)
        job.processed = dict.fromkeys(BELOW, job.newest)
        job.now_ms += 50
        job.slowest()
    assert (job.asked, job.counting.out) == (set(), frozenset())


def test_a_unit_that_has_a_place_again_counts_once_it_has_come_near() -> None:
    job = after_a_while({"a"})
    job.gone = ()
    job.newest += 2 * MAX_LEAD_BATCHES
    job.processed |= {"s": job.newest, "c": job.newest, "a": 101, "b": 100}
    assert job.process("s", "c") == job.newest
    assert job.counting.out == {"a", "b"}
    job.processed["a"] = job.newest
    assert job.process("s", "c", "a") == job.newest
    assert job.counting.out == {"b"}, "what it feeds is still far behind"
    job.processed["b"] = job.newest - 5
    assert job.slowest() == job.newest - 5
    assert job.counting.out == frozenset()


def test_a_unit_holds_back_its_own_tasks_also_while_it_waits_for_one_without_a_place() -> None:
    """Else its tasks would cut batch after batch that it cannot process."""
    job = after_a_while({"a"})
    assert (job.slowest("b"), job.slowest("s")) == (100, job.newest)


def test_a_unit_that_goes_back_holds_nothing_back_until_it_has_come_near() -> None:
    """Nor does what it feeds, which waits for it; another query's sources continue."""
    job = Job()
    for _ in range(100):
        job.process("s", "a", "b", "c")
    job.processed["a"] = job.newest - MAX_LEAD_BATCHES - 20
    assert job.process("s", "c") == job.newest
    assert job.counting.out == {"a", "b"}
    job.processed["a"] += 10
    assert job.process("s", "c") == job.newest
    job.processed["a"] = job.newest - MAX_LEAD_BATCHES + 5
    assert job.process("s", "c") == job.processed["a"]
    assert "a" not in job.counting.out


def test_a_unit_that_goes_back_a_little_counts() -> None:
    job = Job()
    job.process("s", "a", "b", "c")
    job.processed["a"] -= 5
    assert job.process("s", "b", "c") == job.processed["a"]


def test_units_that_publish_seldom_are_given_more_time() -> None:
    job = Job()
    job.counting.still_ms = SELDOM_STILL_MS
    job.slowest()
    for _ in range(int(SELDOM_STILL_MS // 100)):
        job.process("s", "c")
    assert not job.asked
    job.process("s", "c")
    assert job.asked == {"a", "b"}
