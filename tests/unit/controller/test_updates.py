"""An update is carried out once, whichever controllers crash, hang or come too late at whatever they do for it."""

from __future__ import annotations

import pytest
from msgspec import structs

from holdfast.schemas import assignments, formats, savepoints
from holdfast.schemas.assignments import Assignment
from holdfast.schemas.cuts import Range, TaskCuts
from holdfast.schemas.plans import Ended, Plan, Rejection
from holdfast.schemas.savepoints import FORMAT, Piece, Savepoint, Task, replaced_by
from holdfast.schemas.topics import Partition
from holdfast.services.controller.core import actions
from holdfast.services.controller.core.actions import Action
from holdfast.services.kernel.state.image import MemoryImage
from holdfast.services.log.late.savepoints import upload
from holdfast.services.worker.checkpoint.restore import rebuild
from tests.unit.controller.cluster import CLUSTER, Cluster, Temper, job

pytestmark = pytest.mark.slow

BATCH = 7


class Fuse:
    """Burns down by one with each action of the second update; at none it is true once."""

    def __init__(self, left: int) -> None:
        self.left, self.lit = left, False

    def __call__(self, _: Action) -> bool:
        self.left -= self.lit
        return self.left == -1


def begin_job(cluster: Cluster) -> None:
    """A job that runs and reads ten records, in a cluster that reads the newest format."""
    cluster.append(CLUSTER.assignments, assignments.encode(Assignment("test", 0, (), format=formats.NEWEST)))
    for index in range(2):
        cluster.fill("in", index, 5)
    cluster.start("w1")
    cluster.pass_s(0.1)
    cluster.submit(job())
    cluster.pass_s(0.3)


def two_updates(cluster: Cluster, fuse: Fuse | None = None) -> None:
    """A job that is held becomes its next generation, and that the one after it."""
    begin_job(cluster)
    for number in (1, 2):
        if fuse is not None:
            fuse.lit = number == 2
        cluster.command("pause")
        cluster.pass_s(0.1)
        cluster.submit({**job(batch_interval_ms=20 + number), "from_savepoint": saved(cluster, number)})
        cluster.pass_s(0.6)


def saved(cluster: Cluster, number: int) -> dict[str, object]:
    """What the command brings to the cluster, and the field that names it."""
    manifest = manifest_of(cluster, number)
    topic = upload(cluster.log, CLUSTER, f"saved-{number}", [Piece("n-0", "totals", [(b"key", b"value")])], manifest)
    named = {"topic": topic, "id": f"saved-{number}"}
    return named | {"replaces": manifest.generation, "paused": 2 * number - 1}


def manifest_of(cluster: Cluster, number: int) -> Savepoint:
    plan = [one for one in cluster.decisions() if isinstance(one, Plan) and not one.stands_by][-1]
    sources = {f"s-{i}": TaskCuts(None, BATCH, (Range(i, 5, 5),), 0, idle=False, final=False) for i in range(2)}
    units = [*sources, *(f"n-{i}" for i in range(2)), *(f"sink:q-{i}" for i in range(2))]
    return Savepoint(
        FORMAT, f"saved-{number}", "test", CLUSTER.prefix, plan.job, plan.generation, BATCH, 0, 0, plan, sources,
        {name: Task(0) for name in units},
    )  # fmt: skip


def two_that_stand_by(cluster: Cluster, fuse: Fuse | None = None) -> None:
    """The same, by generations that stand by until a command has each take over."""
    begin_job(cluster)
    for number in (1, 2):
        if fuse is not None:
            fuse.lit = number == 2
        begin = saved(cluster, number) | {"waits": True, "paused": -1}
        topic = Partition(str(begin["topic"]), 0)
        behind = cluster.log.offsets([topic], "end")[topic]
        cluster.submit({**job(batch_interval_ms=20 + number), "from_savepoint": begin})
        cluster.pass_s(0.6)
        (stands_by,) = {one.generation for one in cluster.decisions() if isinstance(one, Plan) and one.stands_by} - {
            one.generation for one in cluster.decisions() if isinstance(one, Plan) and not one.stands_by
        }
        cluster.command("pause")
        cluster.pass_s(0.1)
        pause = cluster.log.offsets([Partition(CLUSTER.submit, 0)], "end")[Partition(CLUSTER.submit, 0)] - 1
        manifest = structs.replace(manifest_of(cluster, number), id=f"rest-{number}")
        cluster.append(topic.topic, savepoints.encode_piece(Piece("n-0", "totals", [(b"key", b"new")], 0)))
        cluster.append(topic.topic, savepoints.encode(manifest))
        taken = begin | {"id": manifest.id, "behind": behind, "paused": pause, "waits": False}
        cluster.submit({"command": "switch", "job": "job", "generation": stands_by, "begin": taken})
        cluster.command("resume")  # it comes behind, and so it is for the next generation
        cluster.pass_s(0.8)


def check_taken_over(cluster: Cluster) -> None:
    found = cluster.decisions()
    began = [one for one in found if isinstance(one, Plan) and not one.stands_by]
    assert [len([one for one in began if one.seed is not None]), len(began)] == [2, 3]
    assert [one.generation for one in found if isinstance(one, Ended)] == [one.generation for one in began[:-1]]
    plan = began[-1]
    assert plan.seed is not None
    assert (plan.seed.batch, plan.seed.savepoint) == (BATCH, "rest-2")
    placed = {change.unit: change.copies for change in cluster.changes()}
    label = f"job@{plan.generation}"
    assert {unit for unit, copies in placed.items() if copies} == {f"{label}/{unit.name}" for unit in plan.units}
    checkpoints = CLUSTER.job("job", plan.generation).checkpoints
    for unit in plan.units:
        image = MemoryImage()
        found_state = rebuild(cluster.log, Partition(checkpoints, unit.partition), image)
        assert found_state.batch == BATCH, "all of the state is there before the plan says so"
        if unit.name == "n-0":
            assert [*image.scan(b"")] == [(b"\0\0key", b"new")]
            assert found_state.keys == 1


def check_updated(cluster: Cluster) -> None:
    found = cluster.decisions()
    plans = [one for one in found if isinstance(one, Plan)]
    ends = [one for one in found if isinstance(one, Ended)]
    assert (len(plans), len(ends), len(found)) == (3, 2, 5)
    for former, ended, after in zip(plans, ends, plans[1:], strict=False):
        assert (ended.generation, ended.reason) == (former.generation, replaced_by(f"job@{after.generation}"))
        assert found.index(after) < found.index(ended), "one plan decides both"
    plan = plans[-1]
    label = f"job@{plan.generation}"
    placed = {change.unit: change.copies for change in cluster.changes()}
    assert {unit for unit, copies in placed.items() if copies} == {f"{label}/{unit.name}" for unit in plan.units}
    topics = cluster.job_topics()
    assert topics
    assert all(plan.generation in topic for topic in topics), "those of the former generation are gone"
    assert plan.seed is not None
    assert plan.seed.topic in cluster.log.topics()
    checkpoints = CLUSTER.job("job", plan.generation).checkpoints
    for unit in plan.units:
        assert [*cluster.log.scan(Partition(checkpoints, unit.partition))], "each begins with the savepoint"
    assert [one.state for one in cluster.statuses("job") if one.generation == plan.generation][-1] == "running"


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_controller_that_crashes_at_any_action_is_followed_by_one_that_finishes_the_update(when: str) -> None:
    number = 0
    while True:
        cluster, fuse = Cluster(0), Fuse(number)
        cluster.start_replica("c0", Temper(crash_before=fuse) if when == "before" else Temper(crash_after=fuse))
        two_updates(cluster, fuse)
        check_updated(cluster)
        if list(cluster.replicas) == ["c0"]:
            break
        number += 1
    assert number > 15


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_controller_that_crashes_while_a_generation_stands_by_is_followed_by_one_that_has_it_take_over(
    when: str,
) -> None:
    number = 0
    while True:
        cluster, fuse = Cluster(0), Fuse(number)
        cluster.start_replica("c0", Temper(crash_before=fuse) if when == "before" else Temper(crash_after=fuse))
        two_that_stand_by(cluster, fuse)
        check_taken_over(cluster)
        if list(cluster.replicas) == ["c0"]:
            break
        number += 1
    assert number > 15


def test_controllers_that_all_propose_have_it_take_over_once() -> None:
    cluster = Cluster(0)
    for name in ("c0", "c1", "c2"):
        cluster.start_replica(name, Temper(late=lambda _: True))
    two_that_stand_by(cluster)
    check_taken_over(cluster)


def test_controllers_that_all_propose_carry_it_out_once() -> None:
    cluster = Cluster(0)
    for name in ("c0", "c1", "c2"):
        cluster.start_replica(name, Temper(late=lambda _: True))
    two_updates(cluster)
    check_updated(cluster)


SLOW = (
    actions.Draft, actions.AppendDecision, actions.CreateTopics, actions.AppendAssigned, actions.FenceIds,
    actions.DeleteTopics,
)  # fmt: skip


@pytest.mark.parametrize("kind", SLOW, ids=lambda kind: kind.__name__)
def test_a_controller_that_hangs_anywhere_holds_no_update_up(kind: type) -> None:
    cluster = Cluster(0)
    cluster.start_replica("slow", Temper(holds=lambda action: isinstance(action, kind)))
    cluster.start_replica("c1")
    two_updates(cluster)
    check_updated(cluster)


@pytest.mark.parametrize("current", [True, False])
def test_code_that_asks_for_the_time_of_day_waits_until_no_process_of_the_release_before_lives(current: bool) -> None:
    """Such a process takes a frame with a time for damaged."""
    cluster = Cluster()
    if current:
        cluster.append(CLUSTER.assignments, assignments.encode(Assignment("test", 0, (), format=formats.NEWEST)))
    cluster.start("w1")
    cluster.pass_s(0.1)
    reminder = {"python": "tests.support.clocked:Reminder", "params": {"key": "k", "after_ms": 1}, "clock": True}
    cluster.submit(job(operators={"n": {**reminder, "input": "s"}}))
    cluster.pass_s(0.3)
    (decision,) = cluster.decisions()
    assert isinstance(decision, Rejection), "the code is on no list of this controller"
    assert [problem.path for problem in decision.problems] == [f"operators.n.{'python' if current else 'clock'}"]
