"""A replication budget on a real cluster: the worker of each planned unit killed in turn, and every row exact."""

from __future__ import annotations

import signal

import pytest

from holdfast.schemas import assignments, commands
from holdfast.schemas.assignments import Change, Copy, unit_key
from holdfast.schemas.topics import TopicSpec
from holdfast.services.audit.replay import replay
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.planning.loader import load
from tests.integration.local.test_checkpoint_policies import COUNTED, counted, newest
from tests.integration.local.test_incidents import standings
from tests.support.cluster import LocalCluster
from tests.support.orders import orders

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
JOB = (
    COUNTED
    + """\
fault_tolerance:
  default: {{scheme: passive}}
  replication_budget: 0.5
"""
)
STEP = 200


def test_a_planned_unit_whose_worker_is_killed_is_taken_over_by_its_replica_and_every_row_is_exact(
    cluster: LocalCluster,
) -> None:
    name = "budgeted"
    cluster.log.create([TopicSpec(f"{name}-in", 2), TopicSpec(f"{name}-out", 1)])
    cluster.submit(commands.encode(load(JOB.format(name=name), "job.yaml").as_plain()))
    cluster.await_state(name, "running")
    generation, count = cluster.plan(name).generation, len(cluster.plan(name).units)

    cluster.until(lambda: standings(cluster).assigned.replication(f"{name}@{generation}"), "there is a plan")
    plan = standings(cluster).assigned.replication(f"{name}@{generation}")
    assert plan is not None
    assert len(plan.units) == count // 2
    fed = orders((len(plan.units) + 1) * STEP)
    for number, unit in enumerate(plan.units):
        cluster.feed(f"{name}-in", fed[number * STEP : (number + 1) * STEP])
        key = unit_key(name, generation, unit)

        def followed(key: str = key) -> Change | None:
            change = standings(cluster).assigned.of(key)
            if change is None or change.scheme != "active-standby" or len(change.copies) < 2:
                return None
            return change if change.copies[1].flags.process else None

        before = cluster.until(followed, f"{unit} has a replica")
        leader, replica = before.copies
        cluster.signal(leader.worker, signal.SIGKILL)

        def successor(key: str = key, before: Change = before) -> Copy | None:
            found = (change.committer for change in changes_of(cluster, key) if change.epoch > before.epoch)
            return next((one for one in found if one is not None and one.worker != before.copies[0].worker), None)

        committer = cluster.until(successor, f"{unit} is taken over")
        assert (committer.worker, committer.incarnation) == (replica.worker, replica.incarnation)
    cluster.feed(f"{name}-in", fed[len(plan.units) * STEP :])
    cluster.await_taken_in(name, len(fed))
    assert replay(cluster.log, cluster.topics, name).exact
    cluster.drain(name)
    assert newest(cluster.rows(f"{name}-out")) == counted(fed)


def changes_of(cluster: LocalCluster, key: str) -> list[Change]:
    """The valid changes of a unit, in their order."""
    folded, found = Assigned(), list[Change]()
    for value in cluster.values(cluster.topics.assignments):
        found += [change for change in folded.read(assignments.decode(value)) if change.unit == key]
    return found
