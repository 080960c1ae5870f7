"""Records of `assignments` and `jobs.plans` that mean nothing: workers skip them, and stop or lose nothing."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.schemas import assignments
from holdfast.schemas.assignments import PRIMARY, Assignment, Change, Copy, unit_key
from holdfast.schemas.topics import Partition
from tests.support.memory_cluster import GENERATION, MemoryCluster
from tests.support.orders import JOB, check, orders

JUNK = (b"", b"\xff", b"{", b"[]", b"null", b'{"author":1}', b"[" * 100_000)


def junk(cluster: MemoryCluster) -> None:
    """At the end of both topics."""
    appender = cluster.log.appender("somebody")
    for topic in (cluster.cluster.assignments, cluster.cluster.plans):
        for bad in JUNK:
            appender.append(Partition(topic, 0), bad)


def test_records_that_cannot_be_read_are_skipped_and_what_follows_them_counts() -> None:
    fed = orders(100)
    cluster = MemoryCluster(JOB)
    first, second = cluster.start("w1"), cluster.start("w2")
    junk(cluster)
    cluster.place({unit: [first] for unit in cluster.units})
    for partition in (0, 1):
        cluster.feed("orders", fed[partition::2], partition)
    cluster.turn(50)
    junk(cluster)
    cluster.place({unit: [second] for unit in cluster.units})
    cluster.run_to_end()
    check(cluster.rows, fed)


def test_a_fenced_copy_learns_that_it_still_commits_when_the_last_decision_cannot_be_read() -> None:
    """It waits until it has read `assignments` to the end, and the end may be a record that nobody can read."""
    fed = orders(100)
    cluster = MemoryCluster(JOB)
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    for partition in (0, 1):
        cluster.feed("orders", fed[partition:50:2], partition)
    cluster.turn(50)
    junk(cluster)
    for unit in cluster.plan.units:
        if unit.delivers:
            cluster.log.transactor(cluster.topics.transactional_id(unit.name)).start()
    for partition in (0, 1):
        cluster.feed("orders", fed[50 + partition :: 2], partition)
    cluster.run_to_end()
    check(cluster.rows, fed)


@pytest.mark.parametrize(
    "unit",
    [
        unit_key("orders", GENERATION, "no-such-0"),
        unit_key("orders", "9-abcdef", "large-0"),
        unit_key("others", GENERATION, "large-0"),
        "large-0",
        "",
    ],
)
def test_a_unit_that_there_is_not_is_hosted_by_nobody(unit: str) -> None:
    fed = orders(100)
    cluster = MemoryCluster(JOB)
    worker = cluster.start("w1")
    change = Change(unit, 1, (Copy("w1", worker.identity.incarnation, PRIMARY),))
    record = assignments.encode(Assignment("somebody", 0, (change,)))
    cluster.log.appender("somebody").append(Partition(cluster.cluster.assignments, 0), record)
    cluster.place({unit: [worker] for unit in cluster.units})
    for partition in (0, 1):
        cluster.feed("orders", fed[partition::2], partition)
    cluster.run_to_end()
    check(cluster.rows, fed)


@pytest.mark.parametrize("missing", ["process", "receive", "send"])
def test_a_copy_that_is_to_commit_but_not_to_work_is_nobodys_decision(missing: str) -> None:
    """Taken for one, it left the source's units without another batch for good: nobody could lead them back."""
    fed = orders(100)
    cluster = MemoryCluster(JOB)
    worker = cluster.start("w1")
    appender = cluster.log.appender("somebody")
    for partition in (0, 1):
        cluster.feed("orders", fed[partition::2], partition)
    flags = msgspec.structs.replace(PRIMARY, **{missing: False})
    copies = (Copy("w1", worker.identity.incarnation, flags),)
    changes = tuple(Change(unit_key("orders", GENERATION, unit), 1, copies) for unit in cluster.units)
    record = assignments.encode(Assignment("somebody", 0, changes))
    appender.append(Partition(cluster.cluster.assignments, 0), record)
    cluster.turn(100)
    cluster.place({unit: [worker] for unit in cluster.units})
    cluster.run_to_end()
    check(cluster.rows, fed)
