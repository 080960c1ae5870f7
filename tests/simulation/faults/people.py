"""Commands that people give a cluster in the middle of faults."""

from __future__ import annotations

from holdfast.schemas import assignments
from tests.simulation.faults.fault import Fault
from tests.simulation.kafka.names import TOPICS
from tests.simulation.processes.cluster import Cluster
from tests.simulation.processes.jobs import NAME


def command(cluster: Cluster, fault: Fault) -> None:
    """detail: the command, for `scheme` with unit and scheme. count: it is sent so often."""
    command, *rest = fault.detail.split(" ")
    record: dict[str, str] = {"command": command, "job": NAME}
    if rest:
        record |= {"unit": rest[0], "scheme": rest[1]}
    for _ in range(fault.count):
        cluster.submit(record)


def policy(cluster: Cluster, fault: Fault) -> None:
    """detail: a checkpoint policy, and settings as `name=value`. count: it is sent so often."""
    policy, *settings = fault.detail.split(" ")
    given = {name: int(value) for name, _, value in (one.partition("=") for one in settings)}
    for _ in range(fault.count):
        cluster.submit({"command": "checkpoint", "job": NAME, "policy": policy, **given})


def policy_again(cluster: Cluster, fault: Fault) -> None:
    """The count-th last answer to a command for a checkpoint policy is there once more."""
    there = [one for one in cluster.broker.written if one.partition.topic == TOPICS.assignments]
    old = [one for one in there if assignments.decode(one.value).policies]
    if len(old) > fault.count and cluster.broker.available:
        cluster.broker.author = "stale"
        cluster.broker.put(old[-1 - fault.count].partition, old[-1 - fault.count].value, None, None)


def rollback(cluster: Cluster, fault: Fault) -> None:
    """detail: a unit, or nothing for all of them."""
    for _ in range(fault.count):
        cluster.submit({"command": "rollback", "job": NAME, "unit": fault.detail})


def move(cluster: Cluster, fault: Fault) -> None:
    """detail: a unit and a worker."""
    unit, worker = fault.detail.split(" ")
    for _ in range(fault.count):
        cluster.submit({"command": "move", "job": NAME, "unit": unit, "worker": worker})


def drill(cluster: Cluster, fault: Fault) -> None:
    """detail: a unit."""
    cluster.submit({"command": "drill", "job": NAME, "unit": fault.detail})


def resubmit(cluster: Cluster, fault: Fault) -> None:
    cluster.submit(cluster.job.spec)
