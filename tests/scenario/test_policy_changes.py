"""The checkpoint policy of a job changes while it runs: workers follow the record that says so, and rows stay exact.

On workers with a log in memory. How commands are answered is held by tests/unit/controller/test_capturing.py.
"""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from holdfast.schemas import assignments
from holdfast.schemas.assignments import PRIMARY, Assignment, CheckpointPolicy
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.policies import planned
from holdfast.services.worker.checkpoint.policies.catalogue import POLICIES
from holdfast.services.worker.core.checkpoint_run import Phase
from holdfast.services.worker.unit.checkpoints.checkpoints import Checkpoints
from holdfast.services.worker.unit.facts.copy_view import CopyView
from holdfast.services.worker.unit.turns.running_copy import RunningCopy
from tests.scenario.test_checkpoint_policies import STANDBY, by_unit, feed, job, watched
from tests.support.driven_cluster import DrivenCluster
from tests.support.memory_cluster import MemoryCluster
from tests.support.orders import check, orders

HYBRID = job("sweep", interval_ms=100).replace("scheme: none", "scheme: hybrid")


def follow(cluster: MemoryCluster, asked: int, policy: str, **settings: int) -> CheckpointPolicy:
    """What a controller appends for a command at this offset."""
    made = replace(planned(cluster.plan), asked=asked, policy=policy, **settings)
    record = Assignment("controller", cluster.now_ms, (), policies=(made,))
    cluster._append(Partition(cluster.cluster.assignments, 0), assignments.encode(record))
    return made


def copies(cluster: MemoryCluster) -> list[RunningCopy]:
    every = (copy for worker in cluster.workers.values() for copy in worker._copies.here.values())
    return [copy.running for copy in every if copy.running is not None]


def followed(cluster: MemoryCluster) -> set[tuple[str, int]]:
    return {(one.policy_view.policy, one.policy_view.every_batches) for one in copies(cluster)}


def alone(policy: str, delivery_turns: int = 0, **settings: object) -> MemoryCluster:
    cluster = MemoryCluster(job(policy, **settings), delivery_turns)
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    return cluster


def test_from_the_record_on_every_unit_captures_as_the_new_policy_says() -> None:
    cluster, fed = alone("sweep", interval_ms=60), orders(600)

    def pass_by(first: int, last: int) -> dict[str, list[int]]:
        with watched() as captures:
            for start in range(first, last, 2):
                feed(cluster, fed[start : start + 2])
                cluster.turn(20)
        return {unit: [batch for _, batch in some] for unit, some in by_unit(captures).items()}

    pass_by(0, 150)
    follow(cluster, 1, "aligned", every_batches=7)
    began = {one._unit.name: one.condition.batch for one in copies(cluster)}
    for unit, batches in pass_by(150, 300).items():
        first = next(batch for batch in batches if batch > began[unit])
        assert batches[-1] - first >= 35, unit
        assert [batch for batch in batches if batch >= first] == list(range(first, batches[-1] + 1, 7)), unit
        assert first % 7 == 0, unit
    follow(cluster, 2, "aligned", every_batches=5)
    cluster.turn(20)
    assert {batch % 5 for batches in pass_by(300, 450).values() for batch in batches[1:]} == {0}
    follow(cluster, 3, "individual", interval_ms=400)
    assert all(2 <= len(batches) <= 5 for batches in pass_by(450, 600).values())
    cluster.run_to_end()
    check(cluster.rows, fed)


def test_a_copy_at_rest_takes_the_change_up_without_waiting_for_records() -> None:
    """Under `aligned` nothing is due before the tenth batch; under `sweep` what was processed is captured by time."""
    cluster = alone("aligned")
    feed(cluster, orders(10))
    cluster.until(lambda: all(one.condition.batch > 0 for one in copies(cluster)))
    assert all(one.condition.marker is None for one in copies(cluster))
    cluster.turn(200)
    follow(cluster, 1, "individual", interval_ms=50)
    cluster.turn(120)
    assert all(one.condition.marker is not None for one in copies(cluster))


@pytest.mark.parametrize("phase", [Phase.FLUSHING, Phase.DECIDING])
@pytest.mark.parametrize("after", ["sweep", "aligned", "idle-minmax"])
def test_a_capture_under_way_is_finished_and_the_next_one_is_the_new_policys(phase: Phase, after: str) -> None:
    cluster, fed = alone("whole-worker", delivery_turns=4, interval_ms=50), orders(100)
    seen: list[Phase] = []
    look = Checkpoints.due_ms

    def changed() -> None:
        """As soon as a run stands there, between two turns of its copy."""
        if not seen and any(one.checkpoints.checkpointer.writer.phase is phase for one in copies(cluster)):
            seen.append(phase)
            follow(cluster, 1, after, interval_ms=60, every_batches=3)

    def watch(self: Checkpoints, seen: CopyView) -> float:
        changed()
        return look(self, seen)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Checkpoints, "due_ms", watch)
        for start in range(0, len(fed), 2):
            feed(cluster, fed[start : start + 2])
            for _ in range(10):
                cluster.turn()
                changed()
    assert seen, "no run was ever seen there"
    assert followed(cluster) == {(after, 3)}
    cluster.run_to_end()
    check(cluster.rows, fed)


def test_an_older_answer_that_comes_again_changes_nothing() -> None:
    cluster = alone("sweep")
    follow(cluster, 2, "aligned", every_batches=4)
    follow(cluster, 1, "individual")
    cluster.turn(5)
    feed(cluster, orders(10))
    cluster.turn(50)
    assert followed(cluster) == {("aligned", 4)}


def test_a_worker_that_starts_later_follows_what_was_decided_before() -> None:
    cluster, fed = alone("sweep"), orders(100)
    follow(cluster, 1, "aligned", every_batches=4)
    feed(cluster, fed)
    cluster.turn(200)
    second = cluster.start("w2")
    cluster.place({unit: [cluster.workers["w1"], (second, STANDBY)] for unit in cluster.units})
    cluster.turn(200)
    cluster.kill("w1")
    cluster.place({unit: [(second, PRIMARY)] for unit in cluster.units})
    cluster.turn(100)
    assert followed(cluster) == {("aligned", 4)}
    cluster.run_to_end()
    check(cluster.rows, fed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 9))])
def test_policies_change_while_units_are_switched_and_nothing_is_lost_or_doubled(seed: int) -> None:
    """Workers freeze and thaw, so that units are switched and switch back, and policies change every 200 ms."""
    chance, cluster, fed = random.Random(seed), DrivenCluster(HYBRID), orders(4_000, seed)
    number = asked = 0

    def load() -> None:
        nonlocal number
        for partition in (0, 1):
            cluster.feed("orders", [fed[number + partition]], partition)
        number += 2

    def pass_ms(ms: int) -> None:
        ends_ms = cluster.now_ms + ms
        cluster.under_load(load, lambda: cluster.now_ms >= ends_ms, "time passes")

    for name in ("w1", "w2", "w3"):
        cluster.freeze(name)
        for _ in range(2):
            asked += 1
            wanted = follow(cluster, asked, chance.choice(list(POLICIES)), every_batches=chance.choice((1, 3, 10)))
            pass_ms(200)
        cluster.thaw(name)
        asked += 1
        wanted = follow(cluster, asked, chance.choice(list(POLICIES)), interval_ms=50)
        cluster.under_load(load, cluster.protected, "all are protected")
        pass_ms(300)
        assert followed(cluster) == {(wanted.policy, wanted.every_batches)}
    cluster.run_to_end()
    check(cluster.rows, fed[:number])
