"""An unexpected error that stops a copy is tried again elsewhere, with pauses, a bounded number of times."""

from __future__ import annotations

from itertools import pairwise

import pytest

from holdfast.schemas.assignments import Deadly
from holdfast.schemas.heartbeats import FAULTED, CopyState, Heartbeat
from holdfast.services.recovery.core.unit.facts.crashes import LOADING_MS, MOST_FAULTS, Crashes
from holdfast.services.recovery.core.unit.facts.stance import Stance, stance
from holdfast.services.recovery.core.unit.rules.blame import PAUSE_US
from tests.unit.recovery.test_crashes import OTHER
from tests.unit.recovery.workers import Worker
from tests.unit.recovery.world import UNIT, World, plan

ERROR = "KeyError: 7, at kernel/unit.py:9 process"


class Faulty:
    """A cluster with units u-0 and u-1, of which copies of u-0 meet an unexpected error."""

    def __init__(self, scheme: str, workers: int = 3) -> None:
        made = [Worker(f"w{number}", f"z{number}") for number in range(1, workers + 1)]
        other = "hybrid" if workers > 1 else "none"
        self.world = World(*made, made=plan({"u-0": scheme, "u-1": other})).start().settle()
        self.faults: list[tuple[int, str]] = []

    def run(self, seconds: float, times: int = 0, *, loading: bool = False) -> Faulty:
        """times: so many copies that process (loading: that are loaded) meet an error from now on."""
        until_us = self.world.now_us + round(seconds * 1_000_000)
        batch = self.world.shared[UNIT].batch
        while self.world.now_us < until_us:
            self.world.run(0.01)
            for worker in self.world.workers.values():
                copy = worker.copies.get(UNIT)
                due = copy is not None and copy.state == ("deploying" if loading else "running")
                if len(self.faults) < times and copy is not None and due:
                    copy.state, copy.error, copy.batch = FAULTED, ERROR, 0 if loading else batch
                    self.world.shared[UNIT].batch = batch
                    self.faults.append((self.world.now_us, worker.name))
        return self


@pytest.mark.parametrize("scheme", ["none", "passive", "hybrid", "active-replication"])
@pytest.mark.parametrize("times", [1, MOST_FAULTS - 1])
def test_a_unit_with_unexpected_errors_is_tried_again_elsewhere_and_runs(scheme: str, times: int) -> None:
    faulty = Faulty(scheme).run(20, times)
    assert len(faulty.faults) == times
    assert stance(faulty.world.change()) in (Stance.ALONE, Stance.NORMAL)
    assert faulty.world.change().deadly is None
    assert not faulty.world.unprotected()
    assert faulty.world.shared[UNIT].batch > 100
    workers = [worker for _, worker in faulty.faults]
    assert all(before != after for before, after in pairwise(workers)), "elsewhere"


def test_the_standby_leads_at_once_and_the_reason_says_which_error_it_was() -> None:
    faulty = Faulty("hybrid")
    epoch = faulty.world.change().epoch
    faulty.run(0.3, 1)
    taken_over = next(one for one in faulty.world.history if one.unit == UNIT and one.epoch > epoch)
    worker = faulty.faults[0][1]
    assert taken_over.reason == f"the primary is gone: the secondary takes its place (on {worker} KeyError: 7)"
    assert taken_over.copies[0].worker != worker


def test_each_pause_is_twice_the_one_before() -> None:
    faulty = Faulty("passive").run(20, MOST_FAULTS - 1)
    times = [at_us for at_us, _ in faulty.faults]
    pauses = [after - before for before, after in pairwise(times)]
    assert all(pause >= PAUSE_US << index for index, pause in enumerate(pauses)), pauses
    assert all(pause <= (PAUSE_US << index) + 1_000_000 for index, pause in enumerate(pauses)), pauses


@pytest.mark.parametrize("loading", [False, True])
@pytest.mark.parametrize("workers", [1, 3])
def test_after_so_many_in_a_row_the_unit_gets_no_copies_any_more(workers: int, loading: bool) -> None:
    """With one worker it is tried again there."""
    faulty = Faulty("passive", workers)
    if loading:
        faulty.world.restart(faulty.world.leader_of())
    faulty.run(30, 99, loading=loading)
    change = faulty.world.change()
    assert len(faulty.faults) == MOST_FAULTS
    assert change.deadly is not None
    assert (change.deadly.crashes, change.deadly.error) == (MOST_FAULTS, ERROR)
    where = "while loading it" if loading else f"in batch {change.deadly.batch}"
    assert str(change.deadly) == f"5 unexpected errors in a row {where}, the last on {change.deadly.worker}: {ERROR}"
    assert faulty.world.change(OTHER).deadly is None


def test_another_unit_does_not_wait_and_no_worker_is_suspected() -> None:
    """An error stops one copy: other units lose nothing by it, so that a takeover need not wait for them."""
    faulty = Faulty("hybrid")
    before = faulty.world.change(OTHER)
    faulty.run(10, 2)
    assert faulty.world.change(OTHER) == before


# -- the count --------------------------------------------------------------------------------------------------------


def beat(state: str, epoch: int, batch: int = 0, worker: str = "w", time_ms: int = 0) -> Heartbeat:
    copy = CopyState("u", epoch, state, batch, ERROR if state == FAULTED else "")
    return Heartbeat(worker, "1", time_ms, copies=(copy,))


def test_an_error_counts_once_however_many_heartbeats_say_so() -> None:
    crashes = Crashes()
    assert crashes.read(beat(FAULTED, 1, 6), 5) == ["u"]
    assert crashes.read(beat(FAULTED, 1, 6), 6) == []
    assert crashes.read(beat(FAULTED, 2, 6), 7) == ["u"]
    assert (found := crashes.of("u")) is not None
    assert found.deadly == Deadly(2, "w", 7, "", ERROR)
    assert crashes.read(beat("running", 3, 7, "v"), 8) == ["u"]
    assert crashes.of("u") is None, "another copy has come past it"


def test_errors_while_a_copy_is_loaded_are_forgotten_after_a_while() -> None:
    crashes = Crashes()
    crashes.read(beat(FAULTED, 1), 5)
    assert crashes.read(beat("running", 2, 9, "v", LOADING_MS), 5) == []
    assert crashes.read(beat("running", 2, 9, "v", LOADING_MS + 1), 5) == ["u"]
    assert crashes.of("u") is None


def test_knowledge_of_the_errors_of_a_job_goes_with_it() -> None:
    crashes = Crashes()
    crashes.read(beat(FAULTED, 1), 5)
    crashes.forget("u")
    assert not crashes._faults
