"""What every policy keeps, whatever data, acknowledgements and confirmations do: a worker in ticks of a millisecond."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.services.worker.checkpoint.policies.catalogue import POLICIES
from holdfast.services.worker.checkpoint.policies.policy import Kind, UnitView
from holdfast.services.worker.checkpoint.scheduler import Scheduler
from tests.support.examples import examples
from tests.support.idle_timeline import Timed

TICKS = 300
MOST_ENCODING, MOST_DECIDING, MOST_CONFIRMING = 4, 6, 20
IDLE = ("idle-minmax", "idle-roundrobin")


@dataclass
class Unit(Timed):
    """A unit with its run: ticks left to encode it, to read its marker back, and until its backup confirms."""

    encoding: int = 0
    deciding: int = 0
    confirming: int = 0
    marked: int = 0
    began: list[tuple[float, int]] = field(default_factory=list)
    messages: list[float] = field(default_factory=list)


@dataclass
class Worker:
    """Turns of a loop over units, in the order of services/worker/unit/turns/running_copy.py: process, capture, encode,
    paste."""

    random: Random
    units: dict[str, Unit]
    now_ms: float = 0.0
    scheduler: Scheduler = field(default_factory=Scheduler)
    pasted: list[tuple[str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name, unit in self.units.items():
            self.scheduler.join(name, unit)

    def turn(self) -> None:
        self.now_ms += 1.0
        for name, unit in self.units.items():
            unit.now_ms = self.now_ms
            self._hear(unit)
            if unit.leads:
                self._process(name, unit)
                self._capture(name, unit)
            elif unit.messages and self.scheduler.applies(name, self.now_ms):
                self._paste(name, unit)

    def _hear(self, unit: Unit) -> None:
        unit.data_wait = unit.leads and not unit.ended and self.random.random() < 0.4
        if not unit.leads and self.random.random() < 0.05:
            unit.messages.append(self.now_ms)
        unit.waiting = len(unit.messages)
        unit.waiting_since_ms = unit.messages[0] if unit.messages else math.inf
        if unit.deciding:
            unit.deciding -= 1
            if not unit.deciding:
                unit.marked, unit.resting, unit.confirmed = unit.captured_batch, True, False
                unit.confirming = self.random.randint(1, MOST_CONFIRMING)
        elif unit.confirming:
            unit.confirming -= 1
            unit.confirmed = not unit.confirming
        unit.batches = unit.batch - unit.marked

    def _process(self, name: str, unit: Unit) -> None:
        if unit.data_wait and not self.scheduler.holds(name, self.now_ms):
            if unit.policy == "whole-worker":
                others = [one for one in self.units.values() if one.policy == unit.policy and one.leads]
                assert not any(one.capturing for one in others), "a batch during the checkpoint of the worker"
            unit.batch += 1
            unit.batches += 1
            unit.data_wait = self.random.random() < 0.1
            unit.ended = self.now_ms > TICKS - 50 and self.random.random() < 0.1

    def _capture(self, name: str, unit: Unit) -> None:
        if unit.capturing:
            unit.encoding -= 1
            unit.capturing = unit.encoding > 0
            unit.deciding = 0 if unit.capturing else self.random.randint(1, MOST_DECIDING)
        elif unit.resting and self.scheduler.capture(name, self.now_ms) is not None:
            self._check(name, unit)
            self.scheduler.captured(name, (), Kind.SWEEP)
            unit.began.append((self.now_ms, unit.batch))
            unit.captured_ms, unit.captured_batch, unit.resting = self.now_ms, unit.batch, False
            unit.encoding, unit.capturing = self.random.randint(1, MOST_ENCODING), True

    def _check(self, name: str, unit: Unit) -> None:
        """What must hold when a capture begins."""
        assert unit.batches > 0, "nothing to capture"
        since_ms = self.now_ms - unit.captured_ms
        if unit.policy in IDLE:
            assert not any(one.capturing for one in self.units.values()), "two captures at once"
            assert unit.ended or since_ms >= unit.min_interval_ms, "sooner than the minimum interval"
            forced = unit.ended or since_ms >= unit.max_interval_ms
            assert forced or unit.confirmed, "captured again before it was confirmed"
            assert forced or not any(one.data_wait for one in self.units.values()), "captured while data wait"
        elif unit.policy == "aligned":
            assert unit.ended or unit.batch % unit.every_batches == 0, "captured after another batch than an n-th one"
        elif unit.policy == "individual":
            assert unit.ended or since_ms >= unit.interval_ms, "sooner than the interval"

    def _paste(self, name: str, unit: Unit) -> None:
        if unit.policy in IDLE:
            waiting = [
                one for one in self.units.values() if one.policy == unit.policy and one.messages and not one.leads
            ]
            same = [one.messages[0] for one in waiting if one.primary == unit.primary]
            assert unit.messages[0] == min(same), "not the oldest message of its sender"
            overdue = self.now_ms - unit.messages[0] >= unit.max_interval_ms
            assert overdue or not any(one.data_wait for one in self.units.values()), "pasted while data wait"
        self.pasted.append((name, unit.messages.pop(0)))


def drawn(random: Random, policy: str) -> Worker:
    """A worker whose units follow the policy, with one of another job."""
    settings_of_job = {
        "min_interval_ms": random.choice((0, 5, 20)),
        "max_interval_ms": random.choice((30, 60, 100)),
        "interval_ms": random.choice((10, 50)),
        "every_batches": random.choice((1, 3, 7)),
    }

    def one(**more: object) -> Unit:
        load, cost = random.random() / 4, 10 * random.random()
        made = Unit(policy, random.choice("jk"), load, cost, cost, batches=0, batch=0, **more, **settings_of_job)  # type: ignore[arg-type]
        made.apply_ms = cost
        return made

    units = {f"u{number}": one() for number in range(random.randint(1, 4))}
    units |= {f"v{number}": one(leads=False, primary=random.choice("jk")) for number in range(random.randint(0, 3))}
    units["other"] = Unit("individual", "", 0.1, 1.0, 0.0, batches=0, batch=0, interval_ms=50)
    return Worker(random, units)


@pytest.mark.parametrize("policy", POLICIES)
@examples(each_run=30, with_long=150)
@given(seed=st.integers(0, 2**32))
def test_the_promise_of_each_policy_holds_whatever_happens(policy: str, seed: int) -> None:
    worker = drawn(Random(seed), policy)
    for _ in range(TICKS):
        worker.turn()


@pytest.mark.parametrize("policy", IDLE)
@examples(each_run=30, with_long=150)
@given(seed=st.integers(0, 2**32))
def test_neither_data_without_end_nor_silent_backups_stop_a_checkpoint_or_a_paste(policy: str, seed: int) -> None:
    """A capture begins at most so long after the maximum interval as the others take that are due at the same time."""
    random = Random(seed)
    worker = drawn(random, policy)
    busy = worker.units["other"]
    for _ in range(TICKS):
        for unit in worker.units.values():
            unit.confirming = 0
        worker.turn()
        busy.data_wait = True
        slack_ms = (len(worker.units) + 1) * (MOST_ENCODING + 1) + MOST_DECIDING
        for unit in worker.units.values():
            if unit.policy == policy and unit.resting and unit.batches:
                assert worker.now_ms - unit.captured_ms <= unit.max_interval_ms + slack_ms
            if unit.messages:
                behind = sum(len(one.messages) for one in worker.units.values())
                assert worker.now_ms - unit.messages[0] <= unit.max_interval_ms + behind + len(worker.units)


@examples(each_run=30, with_long=150)
@given(seed=st.integers(0, 2**32))
def test_under_aligned_each_unit_captures_after_every_nth_batch_that_it_processes(seed: int) -> None:
    """None is passed over: a unit waits until its former run is valid."""
    worker = drawn(Random(seed), "aligned")
    for _ in range(TICKS):
        worker.turn()
    for name, unit in worker.units.items():
        if unit.policy == "aligned" and unit.leads:
            at = [batch for _, batch in unit.began if batch % unit.every_batches == 0]
            passed = range(unit.every_batches, unit.batch, unit.every_batches)
            assert set(passed) <= set(at), name


def test_under_synchronous_all_units_capture_at_the_same_ticks_and_under_individual_each_at_its_own() -> None:
    def due(policy: str, now_ms: float) -> list[str]:
        units: dict[str, UnitView] = {
            "a": Timed(policy, "", 0.1, 1.0, 0.0, captured_ms=100.0),
            "b": Timed(policy, "", 0.1, 1.0, 0.0, captured_ms=400.0),
        }
        scheduler = Scheduler()
        for name, unit in units.items():
            scheduler.join(name, unit)
        return [name for name in units if scheduler.capture(name, now_ms) is not None]

    assert [due("synchronous", at) for at in (499.0, 500.0, 600.0)] == [[], ["a", "b"], ["a", "b"]]
    assert [due("individual", at) for at in (599.0, 600.0, 900.0)] == [[], ["a"], ["a", "b"]]
    assert [due("whole-worker", at) for at in (499.0, 500.0)] == [[], ["a", "b"]]


def test_under_aligned_no_batch_is_held_back_by_a_run_of_another_copy() -> None:
    """The copy may have to process batches to reach that run."""
    unit = Timed("aligned", "", 0.1, 1.0, 0.0, batch=10, batches=4)
    scheduler = Scheduler()
    scheduler.join("a", unit)
    assert scheduler.holds("a", 1.0)
    unit.waiting = 1
    assert not scheduler.holds("a", 1.0)


def test_under_whole_worker_a_unit_whose_run_is_on_its_way_holds_nobody_back() -> None:
    units = {name: Timed("whole-worker", "", 0.1, 1.0, 0.0) for name in "ab"}
    scheduler = Scheduler()
    for name, unit in units.items():
        scheduler.join(name, unit)
    units["b"].captured_ms = 500.0
    assert scheduler.holds("b", 500.0)
    units["a"].resting = False
    assert not scheduler.holds("b", 500.0)
    units["a"].capturing = True
    assert scheduler.holds("b", 500.0)


def test_a_policy_of_a_later_release_is_the_default() -> None:
    scheduler = Scheduler()
    scheduler.join("a", Timed("made-up", "", 0.1, 1.0, 0.0, sinkmost=True))
    assert scheduler.wait_ms("a", 100.0) == 400.0
