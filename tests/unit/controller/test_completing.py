"""When controllers state that a global checkpoint is complete, and when they do not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace

from holdfast.schemas import assignments
from holdfast.schemas.assignments import Assignment, GlobalCheckpoint
from holdfast.schemas.plans import UnitPlan
from holdfast.schemas.progress import Progress
from holdfast.services.controller.core import global_checkpoints
from holdfast.services.controller.core.actions import AppendAssigned
from holdfast.services.controller.core.life import PLACED
from holdfast.services.decisions.standings import Standings
from tests.unit.controller.cluster import CLUSTER, Cluster, Temper, job

ALIGNED: dict[str, Any] = {"fault_tolerance": {"checkpoint": {"policy": "aligned", "every_batches": 5}}}


def running(replicas: int = 1, **more: Any) -> Cluster:
    cluster = Cluster(replicas)
    cluster.start("w1")
    cluster.start("w2")
    cluster.pass_s(0.3)
    cluster.submit(job(**(more or ALIGNED)))
    cluster.pass_s(0.6)
    assert cluster.statuses()[-1].state == "running"
    return cluster


def stated(cluster: Cluster) -> list[GlobalCheckpoint]:
    """As they were appended, valid or not."""
    return [one for record in cluster.read(CLUSTER.assignments, assignments.decode) for one in record.checkpoints]


def publish(cluster: Cluster, *marks: int, but: str = "", since: int = 0, line: int = 0) -> None:
    """Every unit says that it has these markers."""
    for unit in cluster.plan().units:
        if unit.name != but:
            cluster.tell(Progress(unit.name, max(marks), 0, marks=marks, since=since, line=line))
    cluster.pass_s(0.2)


def test_a_global_checkpoint_is_stated_once_every_unit_has_a_marker_for_it() -> None:
    cluster = running()
    last = cluster.plan().units[-1].name
    publish(cluster, 5, 10, but=last)
    assert stated(cluster) == []
    cluster.tell(Progress(last, 7, 0, marks=(5,), since=0))
    cluster.pass_s(0.2)
    assert [(one.batch, one.since, one.line) for one in stated(cluster)] == [(5, 0, 0)]


def test_a_unit_on_a_spark_driver_has_no_part_in_a_global_checkpoint() -> None:
    plan = running().plan()
    on_spark = UnitPlan("spark-h-0", 0, ("spark-h",), len(plan.units), "passive", host="spark")
    progress = {unit.name: Progress(unit.name, 5, 0, marks=(5,), since=0) for unit in plan.units}
    progress[on_spark.name] = Progress(on_spark.name, 70, 70, ended=True)
    found: Any = SimpleNamespace(
        plan=replace(plan, units=(*plan.units, on_spark)),
        progress=progress,
        life=SimpleNamespace(phase=next(iter(PLACED))),
        complete_ms=0.0,
        label=f"{plan.job}@{plan.generation}",
        name=plan.job,
        generation=plan.generation,
    )
    stated = global_checkpoints.due(found, Standings(), global_checkpoints.EVERY_MS)
    assert stated is not None
    assert stated.batch == 5


def test_the_newest_global_checkpoint_is_stated_twice_a_second() -> None:
    cluster = running()
    for batch in range(5, 105, 5):
        publish(cluster, batch)
    found = [one.batch for one in stated(cluster)]
    assert found == sorted(set(found))
    assert 4 <= len(found) <= 12
    cluster.pass_s(1.0)
    assert stated(cluster)[-1].batch == 100


def test_a_stated_checkpoint_is_not_stated_again_by_another_controller_or_after_a_restart() -> None:
    cluster = running(replicas=2)
    publish(cluster, 5)
    cluster.start_replica("c0")
    cluster.pass_s(1.5)
    assert {one.batch for one in stated(cluster)} == {5}
    assert len(stated(cluster)) <= 2


def test_without_the_policy_nothing_is_stated_and_after_it_returns_only_what_was_written_since() -> None:
    cluster = running(fault_tolerance={})
    publish(cluster, 5)
    cluster.command("checkpoint", policy="aligned")
    cluster.pass_s(0.3)
    (policy,) = [one for record in cluster.read(CLUSTER.assignments, assignments.decode) for one in record.policies]
    assert stated(cluster) == []
    publish(cluster, 10, since=policy.since)
    assert [(one.batch, one.since) for one in stated(cluster)] == [(10, policy.since)]


def test_markers_of_a_unit_from_before_its_roll_back_do_not_count() -> None:
    cluster = running()
    publish(cluster, 5)
    last = cluster.changes()
    back = {change.unit: replace(change, epoch=change.epoch + 1, line=1, back=5) for change in last}
    cluster.append(CLUSTER.assignments, assignments.encode(Assignment("recovery", 0, tuple(back.values()))))
    publish(cluster, 10)
    cluster.pass_s(1.0)
    assert [one.batch for one in stated(cluster)] == [5]
    publish(cluster, 10, line=1)
    cluster.pass_s(1.0)
    assert [(one.batch, one.line) for one in stated(cluster)] == [(5, 0), (10, 1)]


def test_a_checkpoint_that_could_not_be_appended_is_stated_later() -> None:
    cluster = running()
    temper = cluster.replicas["c0"].conductor.temper = Temper(
        fails=lambda action: isinstance(action, AppendAssigned) and bool(action.checkpoints)
    )
    publish(cluster, 5)
    assert stated(cluster) == []
    temper.fails = lambda _: False
    cluster.pass_s(2.0)
    assert [one.batch for one in stated(cluster)] == [5]
