"""Several workers of a real cluster killed at once: an incident, a line, and every row exact (docs/decisions/0095)."""

from __future__ import annotations

import signal

import pytest

from schemas import assignments, commands
from schemas.incidents import Incident
from schemas.topics import Partition, TopicSpec
from services.audit.replaying import replay
from services.kernel.logs.standings import Standings
from services.log.assignments import read_standings
from services.planning.loading import load
from tests.integration.local.test_checkpoint_policies import counted, markers, newest
from tests.support.cluster import LocalCluster
from tests.support.orders import orders

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
JOB = """
name: {name}
keep_cuts: true
batch_interval_ms: 50
sources:
  orders: {{topic: {name}-in, fields: {{shop: string, amount: int}}, parallelism: 2}}
operators:
  per_shop: {{aggregate: {{n: "count()", total: "sum(amount)"}}, key: [shop], input: orders, parallelism: 2}}
queries:
  shops: {{input: per_shop, sink: {{topic: {name}-out}}}}
fault_tolerance:
  default: {{scheme: passive}}
  checkpoint: {{policy: aligned, every_batches: 5}}
  buffering: {buffering}
"""
STEPS, STEP = 8, 200
KILLED = {2: ("worker-1", "worker-2"), 5: ("worker-1", "worker-2", "worker-3")}
"""By step."""


def standings(cluster: LocalCluster) -> Standings:
    return read_standings(cluster.log, Partition(cluster.topics.assignments, 0))


def records(cluster: LocalCluster, name: str) -> list[Incident]:
    found = (assignments.decode(value) for value in cluster.values(cluster.topics.assignments))
    return [one for record in found for one in record.incidents if one.job == name]


@pytest.mark.parametrize("buffering", ["adaptive", pytest.param("source", marks=pytest.mark.long)])
def test_workers_killed_at_once_are_one_incident_and_every_row_is_exact(cluster: LocalCluster, buffering: str) -> None:
    name = f"felled-{buffering}"
    cluster.log.create([TopicSpec(f"{name}-in", 2), TopicSpec(f"{name}-out", 1)])
    cluster.submit(commands.encode(load(JOB.format(name=name, buffering=buffering), "job.yaml").as_plain()))
    cluster.await_state(name, "running")
    key, fed, over = f"{name}@{cluster.plan(name).generation}", orders(STEPS * STEP), 0
    for number in range(STEPS):
        cluster.feed(f"{name}-in", fed[number * STEP : (number + 1) * STEP])
        if number not in KILLED:
            cluster.until(lambda: all(markers(cluster, name).values()), "every unit is captured")
            continue
        before = {victim: cluster.workers()[victim].incarnation for victim in KILLED[number]}
        for victim in KILLED[number]:
            cluster.signal(victim, signal.SIGKILL)
        cluster.until(lambda over=over: sum(one.over for one in records(cluster, name)) > over, "the incident is over")  # type: ignore[misc]
        over = sum(one.over for one in records(cluster, name))
        cluster.until(
            lambda before=before: all(cluster.workers()[one].incarnation != run for one, run in before.items()),  # type: ignore[misc]
            "the workers are back",
        )
    cluster.await_taken_in(name, len(fed))
    found = records(cluster, name)
    assert {worker for one in found for worker in one.workers} == {"worker-1", "worker-2", "worker-3"}
    assert all(one.blocking for one in found) if buffering == "source" else not all(one.blocking for one in found)
    assert cluster.asked("explain", name, "--incident")["state"] == "over"
    lines = {unit: change.line for unit, change in standings(cluster).assigned.units().items() if unit.startswith(key)}
    assert max(lines.values()) >= 1
    assert replay(cluster.log, cluster.topics, name).exact
    cluster.drain(name)
    assert newest(cluster.rows(f"{name}-out")) == counted(fed)
