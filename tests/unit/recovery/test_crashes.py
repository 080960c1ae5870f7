"""A unit whose work ends its workers gets no copies any more; one that was only there keeps them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.schemas.assignments import Deadly, unit_key
from holdfast.schemas.heartbeats import At, CopyState, Exit, Heartbeat, Turn
from holdfast.services.recovery.core.unit.facts.crashes import LOADING_MS, Crash, Crashes
from holdfast.services.recovery.core.unit.facts.stance import Stance, stance
from holdfast.services.recovery.core.unit.rules.blame import SUSPECT_US
from tests.unit.recovery.workers import Worker
from tests.unit.recovery.world import UNIT, G, World, plan

OTHER = unit_key("job", G, "u-1")
KILLED = -9


class Deadly7:
    """A cluster of some workers with units u-0 and u-1, of which u-0 ends its worker at a batch.

    own: exit status of such a worker. restart_s: until a worker that ended is back. The parent's first notice does not
    know the status.
    """

    def __init__(
        self, scheme: str, other: str = "hybrid", own: int = 1, restart_s: float = 0.5, count: int = 3
    ) -> None:
        workers = [Worker(f"w{number}", f"z{number}") for number in range(1, count + 1)]
        self.world = World(*workers, made=plan({"u-0": scheme, "u-1": other})).start()
        self.world.settle() if count > 1 else self.world.run(5)
        self.own, self.restart_s = own, restart_s
        self.batch: int | None = None
        self.ended: list[tuple[int, str]] = []
        self._due: list[tuple[int, Callable[[], None]]] = []
        self.others_alone = 0

    def lurk(self, batches: int = 50) -> Deadly7:
        """From so many batches on."""
        self.batch = self.world.shared[UNIT].batch + batches
        return self

    def run(self, seconds: float) -> Deadly7:
        until_us = self.world.now_us + round(seconds * 1_000_000)
        while self.world.now_us < until_us:
            self.world.run(0.01)
            for at_us, do in [one for one in self._due if one[0] <= self.world.now_us]:
                self._due.remove((at_us, do))
                do()
            self._strike()
            if not [copy for copy in self.world.change(OTHER).copies if self.world.workers[copy.worker].alive]:
                self.others_alone += 1
        return self

    def _strike(self) -> None:
        for worker in list(self.world.workers.values()):
            copy = worker.copies.get(UNIT)
            if self.batch is not None and worker.alive and copy is not None and copy.state == "running":
                copy.batch = min(copy.batch, self.batch - 1)
                self.world.shared[UNIT].batch = min(self.world.shared[UNIT].batch, self.batch - 1)
                if copy.batch == self.batch - 1:
                    self.end(worker.name, At(UNIT, self.batch), self.own)

    def end(self, name: str, at: At, status: int) -> None:
        worker = self.world.workers[name]
        run, worker.alive = worker.incarnation, False
        self.ended.append((self.world.now_us, name))
        self.world.publish(Exit(name, run, 0, KILLED, at=(at,), dying=True))
        later = lambda: self.world.publish(Exit(name, run, 0, status, at=(at,)))  # noqa: E731
        self._due.append((self.world.now_us + 30_000, later))
        back_us = self.world.now_us + round(self.restart_s * 1_000_000)
        self._due.append((back_us, lambda: self.world.restart(name)))


def test_a_unit_that_ends_every_worker_is_quarantined_and_the_others_stay() -> None:
    deadly = Deadly7("passive").lurk().run(20)
    assert len(deadly.ended) == 3
    change = deadly.world.change()
    assert stance(change) is Stance.UNPLACED
    assert change.deadly == Deadly(3, deadly.ended[-1][1], deadly.batch or 0)
    assert change.reason.startswith("its workers end at the same place again and again: it gets no copies any more (")
    assert not deadly.others_alone, "the next worker was taken only once the other unit had two copies again"
    assert not deadly.world.unprotected()


@pytest.mark.parametrize("scheme", ["hybrid", "passive-hot", "active-standby"])
def test_the_standby_of_a_deadly_unit_leads_only_once_the_others_are_protected_again(scheme: str) -> None:
    """Else the first two crashes would follow each other at once, and another unit would lose both of its copies."""
    deadly = Deadly7(scheme).lurk().run(20)
    assert len(deadly.ended) == 3
    assert deadly.world.change().deadly is not None
    assert not deadly.others_alone
    assert not deadly.world.unprotected()


@pytest.mark.parametrize("scheme", ["none", "hybrid"])
def test_on_a_lone_worker_a_deadly_unit_waits_for_no_standby_that_nobody_can_have(scheme: str) -> None:
    deadly = Deadly7(scheme, scheme, count=1).lurk().run(8)
    assert len(deadly.ended) == 3
    assert deadly.world.change().deadly is not None
    assert deadly.ended[2][0] - deadly.ended[0][0] < SUSPECT_US / 2


def test_the_standby_of_a_unit_whose_worker_was_killed_leads_at_once() -> None:
    deadly = Deadly7("hybrid")
    leader, epoch, killed_us = deadly.world.leader_of(), deadly.world.change().epoch, deadly.world.now_us
    at = At(UNIT, deadly.world.shared[UNIT].batch + 1)
    deadly.world.publish(Exit(leader, deadly.world.workers[leader].incarnation, 0, KILLED, at=(at,)))
    deadly.world.workers[leader].alive = False
    while deadly.world.change().epoch == epoch:
        deadly.run(0.01)
    assert deadly.world.now_us - killed_us <= 20_000


def test_a_unit_in_whose_work_a_loop_hangs_waits_for_the_others_too() -> None:
    """Its standby would hang at the same batch, where the others have just gone."""
    deadly = Deadly7("hybrid")
    world, leader = deadly.world, deadly.world.leader_of()
    assert world.leader_of(OTHER) == leader
    world.workers[leader].turn = Turn(6_000, 5_000, UNIT)
    deadly.run(1)
    assert (stance(world.change()), stance(world.change(OTHER))) == (Stance.NORMAL, Stance.SWITCHED)
    deadly.end(leader, At(UNIT, world.shared[UNIT].batch + 1), 70)
    deadly.run(8)
    assert world.leader_of() != leader
    taken_over = next(one for one in reversed(world.history) if one.reason.startswith("the primary is gone: the sec"))
    assert taken_over.unit == UNIT, "after the other unit"
    assert not world.unprotected()


def test_every_replica_says_the_same() -> None:
    deadly = Deadly7("passive")
    deadly.world.add_replica()
    deadly.lurk().run(20)
    late = deadly.world.add_replica()
    deadly.run(1)
    assert late.core.known.assigned.of(UNIT) == deadly.world.change()
    assert len([one for one in deadly.world.history if one.unit == UNIT and one.deadly is not None]) == 1


def test_workers_that_are_killed_at_a_units_work_do_not_make_it_deadly() -> None:
    """The next copy does the batch: it was not the batch."""
    deadly = Deadly7("passive", own=KILLED)
    for _ in range(6):
        leader = deadly.world.leader_of()
        deadly.end(leader, At(UNIT, deadly.world.shared[UNIT].batch + 1), KILLED)
        deadly.run(4)
    assert deadly.world.change().deadly is None
    assert stance(deadly.world.change()) is Stance.ALONE
    assert not deadly.world.unprotected()


def test_a_unit_whose_worker_was_killed_is_placed_at_once_one_that_ended_it_waits() -> None:
    waited = {}
    for status in (KILLED, 1):
        deadly = Deadly7("passive", own=status, restart_s=30)
        deadly.world.workers["w3"].alive = False
        deadly.run(4)
        ended_us, epoch = deadly.world.now_us, deadly.world.change().epoch
        deadly.end(deadly.world.leader_of(), At(UNIT, deadly.world.shared[UNIT].batch + 1), status)
        while deadly.world.change().epoch == epoch:
            deadly.run(0.01)
        waited[status] = deadly.world.now_us - ended_us
    assert waited[KILLED] <= 100_000
    assert SUSPECT_US <= waited[1] <= SUSPECT_US + 200_000, "nobody can protect the other unit: not for ever"


def test_a_copy_that_cannot_be_loaded_beside_one_that_runs_is_given_up() -> None:
    """The unit continues alone: one host without a library is no reason to stop a job."""
    deadly = Deadly7("hybrid")
    for number in "456":
        deadly.world.publish(Exit("w9", number, 0, 1, at=(At(UNIT, 0, "loading"),)))
    deadly.world.kill(next(copy.worker for copy in deadly.world.change().copies if not copy.flags.commit))
    deadly.run(5)
    assert stance(deadly.world.change()) is Stance.ALONE
    deadly.world.kill(deadly.world.leader_of())
    deadly.run(1)
    assert deadly.world.change().deadly == Deadly(3, "w9", what="loading")


def test_a_unit_that_fills_the_memory_of_three_workers_is_quarantined_though_a_copy_runs() -> None:
    deadly = Deadly7("hybrid")
    for number in "456":
        deadly.world.publish(Exit("w9", number, 0, 1, at=(At(UNIT, 0, "filling memory with"),)))
    deadly.run(1)
    assert str(deadly.world.change().deadly) == "3 workers in a row ended while filling memory with it, the last was w9"


def test_a_unit_stays_in_quarantine_until_the_job_ends() -> None:
    deadly = Deadly7("passive").lurk().run(20)
    deadly.world.goal("run")
    deadly.run(5)
    assert deadly.world.change().deadly is not None
    deadly.world.goal("stop", asked=11, reason="cancelled")
    deadly.run(1)
    assert deadly.world.change().reason == "its job is to stop: unplaced (cancelled)"
    assert deadly.world.change(OTHER).copies == ()


# -- the count --------------------------------------------------------------------------------------------------------


def beat(batch: int) -> Heartbeat:
    return Heartbeat("w", "1", 0, copies=(CopyState("u", 1, "running", batch),))


def ended(number: int, *at: At, time_ms: int = 0) -> Exit:
    return Exit("w", str(number), time_ms, 1, at=at)


def test_crashes_count_in_a_row_at_the_same_place() -> None:
    crashes = Crashes()
    for number in (1, 2, 3):
        assert crashes.read(ended(number, At("u", 7), At("v", 0, "loading")), 5) == ["u", "v"]
        assert crashes.read(beat(6), 6) == []
    assert crashes.of("u") == Crash(7, "", 3, "w", 1, 0, 5)
    assert (found := crashes.of("v")) is not None
    assert str(found.deadly) == "3 workers in a row ended while loading it, the last was w"
    assert crashes.read(ended(4, At("u", 8)), 5) == ["u"]
    assert (found := crashes.of("u")) is not None
    assert found.count == 1, "at another place"
    assert crashes.read(beat(8), 6) == ["u"]
    assert crashes.of("u") is None, "past it"


def test_an_incarnation_ends_once_however_many_notices_say_so() -> None:
    crashes = Crashes()
    crashes.read(Exit("w", "2", 0, KILLED, at=(At("u", 7),), dying=True), 5)
    assert (found := crashes.of("u")) is not None
    assert (found.count, found.status, found.by_itself) == (1, None, False)
    crashes.read(ended(2, At("u", 7)), 9)
    crashes.read(ended(1, At("u", 7)), 9)
    assert (found := crashes.of("u")) is not None
    assert (found.count, found.status, found.by_itself) == (1, 1, True)


def test_a_notice_without_traces_blames_nobody() -> None:
    crashes = Crashes()
    assert crashes.read(ended(1), 5) == []


def test_crashes_while_a_copy_is_loaded_are_in_a_row_only_if_they_are_close() -> None:
    crashes = Crashes()
    for number in range(5):
        crashes.read(ended(number, At("u", 0, "loading"), time_ms=number * (LOADING_MS + 1)), 5)
    assert (found := crashes.of("u")) is not None
    assert found.count == 1
