"""Each checkpoint policy on real processes and a real Kafka: a worker dies, and every row is exact.

Then all of them one after the other in one job, by `holdfast checkpoint`.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import pytest

from holdfast.schemas import checkpoints, commands
from holdfast.schemas.checkpoints import Marker
from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.audit.replay import replay
from holdfast.services.kernel.errors import PositionGone
from holdfast.services.planning.loader import load
from holdfast.services.worker.checkpoint.policies.catalogue import DEFAULT, POLICIES
from tests.support.cluster import LocalCluster
from tests.support.orders import Order, orders

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

COUNTED = """
name: {name}
keep_cuts: true
batch_interval_ms: 50
sources:
  orders: {{topic: {name}-in, fields: {{shop: string, amount: int}}, parallelism: 2}}
operators:
  per_shop: {{aggregate: {{n: "count()", total: "sum(amount)"}}, key: [shop], input: orders, parallelism: 2}}
queries:
  shops: {{input: per_shop, sink: {{topic: {name}-out}}}}
"""
"""A job whose rows are known, without its fault tolerance."""
JOB = (
    COUNTED
    + """\
fault_tolerance:
  default: {{scheme: hybrid}}
  checkpoint: {{policy: {policy}}}
"""
)
STEPS, STEP = 10, 200


def markers(cluster: LocalCluster, job: str) -> dict[str, list[Marker]]:
    """Of each unit, those that its checkpoint log still has, in its order."""
    topic = cluster.topics_of(job).checkpoints
    return {unit.name: kept(cluster, Partition(topic, unit.partition)) for unit in cluster.plan(job).units}


def kept(cluster: LocalCluster, log: Partition) -> list[Marker]:
    def read() -> list[list[object]]:
        with suppress(PositionGone):  # trimmed while it is read
            return [[checkpoints.decode(record.value() or b"") for record in cluster.log.scan(log)]]
        return []

    [found] = cluster.until(read, f"the checkpoint log {log} is read")
    return [record for record in found if isinstance(record, Marker)]


def captured(cluster: LocalCluster, job: str) -> dict[str, int]:
    """The newest captured batch of each unit, 0 before the first."""
    return {unit: max((marker.b for marker in found), default=0) for unit, found in markers(cluster, job).items()}


def newest(rows: list[dict[str, object]]) -> dict[object, tuple[object, object]]:
    return {row["shop"]: (row["n"], row["total"]) for row in rows}


def counted(fed: list[Order]) -> dict[object, tuple[object, object]]:
    count: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for order in fed:
        count[order["shop"]] += 1
        total[order["shop"]] += order["amount"]
    return {shop: (count[shop], total[shop]) for shop in count}


@pytest.mark.long
@pytest.mark.parametrize("policy", [one for one in POLICIES if one != DEFAULT])
def test_a_job_stays_exact_under_every_policy_though_a_worker_is_killed(cluster: LocalCluster, policy: str) -> None:
    """In each run the next test takes a job through each, and tests/scenario/test_checkpoint_policies.py switches to a
    standby under each.
    """
    name = f"by-{policy}"
    cluster.log.create([TopicSpec(f"{name}-in", 2), TopicSpec(f"{name}-out", 1)])
    cluster.submit(commands.encode(load(JOB.format(name=name, policy=policy), "job.yaml").as_plain()))
    cluster.await_state(name, "running")
    fed = orders(STEPS * STEP)
    for number in range(STEPS):
        before = cluster.end(f"{name}-out")
        cluster.feed(f"{name}-in", fed[number * STEP : (number + 1) * STEP])
        cluster.await_more(f"{name}-out", before)
        if number == STEPS // 2:
            cluster.until(lambda: all(markers(cluster, name).values()), "every unit is captured")
            cluster.kill("worker-2")
    cluster.await_taken_in(name, len(fed))
    assert replay(cluster.log, cluster.topics, name).exact
    if policy == "aligned":
        found = [marker for some in markers(cluster, name).values() for marker in some if not marker.ended]
        assert {marker.b % 10 for marker in found} == {0}
    cluster.drain(name)
    assert newest(cluster.rows(f"{name}-out")) == counted(fed)


def test_a_running_job_is_taken_through_all_policies_and_stays_exact_though_a_worker_is_killed(
    cluster: LocalCluster,
) -> None:
    name = "through-all"
    cluster.log.create([TopicSpec(f"{name}-in", 2), TopicSpec(f"{name}-out", 1)])
    cluster.submit(commands.encode(load(JOB.format(name=name, policy=DEFAULT), "job.yaml").as_plain()))
    cluster.await_state(name, "running")
    fed = orders(len(POLICIES) * STEP)
    for number, policy in enumerate(POLICIES):
        done = cluster.asked("checkpoint", name, policy, "--every-batches", "5", "--interval-ms", "200")
        assert done["checkpoint"]["policy"] == policy
        shown = cluster.asked("status", name)["checkpoint"]
        assert (shown["policy"], shown["settings"]) == (policy, done["checkpoint"]["settings"])
        assert {unit["policy"] for unit in cluster.asked("units", name)} == {policy}
        before = captured(cluster, name)
        cluster.feed(f"{name}-in", fed[number * STEP : (number + 1) * STEP])
        if number == len(POLICIES) // 2:
            cluster.kill("worker-1")
        cluster.until(
            lambda before=before: all(batch > before[unit] for unit, batch in captured(cluster, name).items()),  # type: ignore[misc]
            f"every unit is captured under {policy}",
        )
    cluster.await_taken_in(name, len(fed))
    units = [unit["unit"] for unit in cluster.asked("units", name)]
    cluster.asked("scheme", name, units[0], "active-standby")
    assert "under active-standby" in cluster.told("checkpoint", name, "idle-minmax", status=1)
    assert "alinged" in cluster.told("checkpoint", name, "alinged", status=2)
    assert replay(cluster.log, cluster.topics, name).exact
    cluster.drain(name)
    assert newest(cluster.rows(f"{name}-out")) == counted(fed)
