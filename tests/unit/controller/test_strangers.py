"""Records on the cluster's topics that nobody should have written: the controller continues, and loses no job."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.schemas import assignments, plans
from holdfast.schemas.assignments import Assignment, Change, Goal
from holdfast.schemas.plans import Ended
from tests.unit.controller.cluster import CLUSTER, Cluster, job


def running(replicas: int = 1) -> Cluster:
    cluster = Cluster(replicas)
    cluster.submit(job())
    cluster.start("w1")
    cluster.pass_s(0.8)
    assert cluster.states()[-1] == "running"
    return cluster


def unplace(cluster: Cluster, asked: int = -1, count: int = 3) -> None:
    """A record that takes the place of the first units from them."""
    last = {change.unit: change.epoch for change in cluster.changes()}
    changes = tuple(Change(unit, epoch + 1, reason="cancelled", asked=asked) for unit, epoch in sorted(last.items()))
    cluster.append(CLUSTER.assignments, assignments.encode(Assignment("somebody", 0, changes[:count])))


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("asked", [-1, 0, 2**53])
@pytest.mark.parametrize("count", [1, 3])
def test_an_empty_assignment_alone_ends_no_job(replicas: int, asked: int, count: int) -> None:
    cluster = running(replicas)
    unplace(cluster, asked, count)
    cluster.pass_s(1)
    assert not any(isinstance(decision, Ended) for decision in cluster.decisions())
    assert cluster.states()[-1] == "running"
    assert all(cluster.placed().values()), "every unit has a place again"


def test_an_empty_assignment_ends_no_job_that_drains() -> None:
    cluster = running()
    cluster.command("drain")
    cluster.pass_s(0.3)
    unplace(cluster, count=1)
    cluster.pass_s(1)
    assert cluster.states()[-1] == "draining"
    assert all(cluster.placed().values())
    cluster.run_out()
    cluster.pass_s(1)
    assert cluster.states()[-1] == "ended"


def test_a_controller_started_again_takes_an_unplaced_job_for_running_unless_somebody_asked() -> None:
    cluster = running()
    unplace(cluster)
    cluster.start_replica("c1")
    cluster.pass_s(1)
    assert cluster.states()[-1] == "running"
    cluster.command("cancel")
    cluster.pass_s(1)
    assert cluster.states()[-1] == "ended"


def stop(cluster: Cluster, asked: int, **named: str) -> None:
    plan = cluster.plan()
    goal = Goal(**{"job": plan.job, "generation": plan.generation, **named}, kind="stop", reason="mistake", asked=asked)
    cluster.append(CLUSTER.assignments, assignments.encode(Assignment("somebody", 0, (), goals=(goal,))))


def test_a_stop_that_names_no_command_stops_no_job() -> None:
    cluster = running()
    for asked in (-1, 0):
        stop(cluster, asked)
    stop(cluster, 5, generation="7-abcdef")
    stop(cluster, 5, job="other")
    cluster.pass_s(1)
    assert cluster.states()[-1] == "running"
    assert all(cluster.placed().values())


def test_a_run_that_somebody_states_after_the_stop_starts_nothing() -> None:
    cluster = running()
    cluster.workers["w1"].stubborn = True
    cluster.command("cancel")
    cluster.pass_s(0.5)
    plan = cluster.plan()
    again = Goal(plan.job, plan.generation, "run")
    cluster.append(CLUSTER.assignments, assignments.encode(Assignment("somebody", 0, (), goals=(again,))))
    cluster.pass_s(0.5)
    assert not any(cluster.placed().values())
    cluster.workers["w1"].stubborn = False
    cluster.pass_s(0.5)
    assert cluster.states()[-1] == "ended"


def test_a_job_that_a_controller_without_goals_has_placed_runs() -> None:
    """A log of a former version: no goal is in it, and one unit lost its place for no reason."""
    former = running()
    cluster = Cluster(0, 0)
    for topic in (CLUSTER.submit, CLUSTER.plans):
        for value in former.values(topic):
            cluster.append(topic, value)
    changes = tuple(former.changes())
    cluster.append(CLUSTER.assignments, assignments.encode(Assignment("former", 0, changes)))
    unplace(cluster, count=1)
    worker = former.workers["w1"]
    cluster.start("w1", worker.incarnation)
    cluster.start_recovery("r0")
    cluster.pass_s(1)
    assert cluster.goals() == []
    assert [change.epoch for change in cluster.changes()] == [*(change.epoch for change in changes), 2, 3]
    assert all(cluster.placed().values())


def test_a_unit_that_a_controller_without_goals_took_down_for_a_command_stays_so() -> None:
    former = running()
    cluster = Cluster(0, 0)
    for topic in (CLUSTER.submit, CLUSTER.plans):
        for value in former.values(topic):
            cluster.append(topic, value)
    record = Assignment("former", 0, tuple(former.changes()))
    cluster.append(CLUSTER.assignments, assignments.encode(record))
    unplace(cluster, asked=1, count=2)
    cluster.start("w1", former.workers["w1"].incarnation)
    cluster.start_recovery("r0")
    cluster.pass_s(1)
    assert sorted(map(bool, cluster.placed().values())) == [False, False, True, True]


def damaged(cluster: Cluster, **changes: Any) -> bytes:
    """The plan of another generation, with something wrong in it."""
    plan: dict[str, Any] = msgspec.json.decode(plans.encode(cluster.plan()))
    plan |= {"generation": "7-abcdef", "job": "other"}
    text = (
        msgspec.json.encode(plan).decode().replace(cluster.plan().generation, "7-abcdef").replace("t.job.", "t.other.")
    )
    return msgspec.json.encode(msgspec.json.decode(text.encode()) | changes)


OPERATOR = {"name": "n", "kind": "count", "parallelism": 1, "inputs": [], "params": {}, "fields": {}}
EDGE = {"producer": "s", "consumer": "nobody", "slot": 0, "routing": "keyed"}
UNIT = {"name": "u", "index": 5, "operators": ["s"], "partition": 9}
SOURCE = {"operator": "s", "topic": "in", "owners": [[0], [1]], "first": {"0": 0}}
WRONG: list[dict[str, Any]] = [
    {"operators": [OPERATOR]},
    {"operators": []},
    {"edges": [EDGE]},
    {"edges": [EDGE | {"consumer": "n", "routing": "by-chance"}]},
    {"edges": [EDGE | {"consumer": "n", "topic": "t.job.0-abcdef.data.s.0"}]},
    {"units": [UNIT]},
    {"units": [UNIT | {"operators": ["nobody"]}]},
    {"units": [UNIT | {"name": "a@b/c"}]},
    {"sources": [SOURCE]},
    {"sources": [SOURCE | {"operator": "nobody"}]},
    {"interval_ms": -1},
    {"spec": {"fault_tolerance": "hybrid"}},
    {"spec": {"fault_tolerance": {"misses": "many", "fail_stop_timeout_s": "soon"}}},
    {"spec": {"fault_tolerance": {"rebalance_period_s": "often"}}},
    {"spec": {"queries": {"q": {"priority": "high"}}}},
    {"spec": {"queries": ["q"]}},
    {"generation": "x-1"},
    {"generation": "7-abcdef\n"},
    {"generation": "\u0667-abcdef"},
    {"job": "a@b"},
]


@pytest.mark.parametrize("wrong", WRONG)
def test_a_plan_that_does_not_fit_together_is_refused_and_reported(wrong: dict[str, Any]) -> None:
    cluster = running()
    offset = len(cluster.values(CLUSTER.plans))
    cluster.append(CLUSTER.plans, damaged(cluster, **wrong))
    cluster.pass_s(1)
    assert [plan.job for plan in cluster.decisions()] == ["job"]
    told = [event for event in cluster.events() if event.kind == "record-refused"]
    assert [(one.topic, one.partition, one.offset) for one in told] == [(CLUSTER.plans, 0, offset)] * 2, "and recovery"
    assert cluster.states()[-1] == "running"
    cluster.start_replica("c1")
    cluster.pass_s(1)
    assert cluster.states()[-1] == "running"


def test_a_plan_of_another_generation_that_fits_together_is_one() -> None:
    """Else the tests above would show nothing."""
    cluster = running()
    cluster.append(CLUSTER.plans, damaged(cluster))
    cluster.pass_s(1)
    assert [plan.job for plan in cluster.decisions()] == ["job", "other"]
