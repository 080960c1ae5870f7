"""Whatever lies on a topic of ours, no reader of it fails: valid records of every kind, mutated, before every reader.

What such a record says may count, if it could have been said; that jobs stay exact is held by test_strangers.py and by
the simulation, with records that cannot be true.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas import (
    assignments,
    checkpoints,
    commands,
    cuts,
    dead_letters,
    delivered,
    events,
    heartbeats,
    plans,
    progress,
)
from holdfast.schemas.heartbeats import CopyState, Heartbeat
from holdfast.schemas.plans import Plan
from holdfast.schemas.topics import Partition
from holdfast.services.client import bad_records
from holdfast.services.controller.conductor import Kind
from holdfast.services.decisions.admitted import decode as decode_decision
from holdfast.services.kernel.errors import WorkerUnfit
from holdfast.services.kernel.plans.layout import data_topics
from holdfast.services.view.cluster import ClusterView
from tests.scenario.test_strangers import BUSY, append, door, own, running
from tests.support.examples import examples
from tests.support.memory_cluster import GENERATION, MemoryCluster
from tests.support.mutations import mutated
from tests.support.orders import orders
from tests.unit.controller.cluster import CLUSTER, Cluster, job
from tests.unit.recovery.test_replica import TOPICS, Shell
from tests.unit.recovery.world import UNIT, plan

SEEDS = st.integers(0, 2**32)
Recorded = dict[str, list[bytes]]


@lru_cache(maxsize=1)
def of_a_job() -> Recorded:
    """What a small run of one job has left on each of its own topics, and on the cluster's."""
    cluster = MemoryCluster(BUSY)
    running(cluster, orders(200))
    cluster.control("pause")
    cluster.control("resume")
    cluster.turn(300)
    shared = [Partition(topic, 0) for topic in (cluster.cluster.plans, cluster.cluster.assignments)]
    found: Recorded = {}
    for one in [*own(cluster), *shared]:
        found.setdefault(one.topic, []).extend(m.value() or b"" for m in cluster.log.scan(one))
    return found


@lru_cache(maxsize=1)
def of_a_cluster() -> Recorded:
    """What a controller, its workers and its user have left on the cluster's topics."""
    cluster = Cluster()
    cluster.submit(job())
    cluster.start("w1")
    cluster.start("w2")
    cluster.pass_s(0.5)
    for command in ("pause", "resume", "drain", "nonsense"):
        cluster.command(command)
        cluster.pass_s(0.2)
    cluster.run_out()
    cluster.pass_s(0.5)
    names = (CLUSTER.submit, CLUSTER.plans, CLUSTER.assignments, CLUSTER.heartbeats, CLUSTER.status, CLUSTER.events)
    return {name: cluster.values(name) for name in names}


DECODERS = {
    "jobs.plans": (decode_decision, plans.decode_any),
    "assignments": (assignments.decode,),
    "heartbeats": (heartbeats.decode,),
    "jobs.status": (plans.decode_status,),
    "events": (events.decode,),
    "jobs.submit": (commands.decode,),
    "cuts": (cuts.decode,),
    "checkpoints": (checkpoints.decode,),
    "progress": (progress.decode,),
    "delivered": (delivered.decode, dead_letters.decode),
}


@pytest.mark.parametrize("kind", DECODERS)
@examples(each_run=60, with_long=1_000)
@given(seed=SEEDS)
def test_a_decoder_gives_a_record_or_its_declared_error(kind: str, seed: int) -> None:
    random = Random(seed)
    values = [
        v for found in (of_a_job(), of_a_cluster()) for t, all_ in found.items() if t.endswith(kind) for v in all_
    ]
    value = mutated(random, random.choice(values))
    for decode in DECODERS[kind]:
        with suppress(msgspec.DecodeError):
            decode(value)


@examples(each_run=25, with_long=125)
@given(SEEDS)
def test_no_controller_fails(seed: int) -> None:
    """Nor one that finds all that in the log when it starts; and both continue to plan what is submitted next."""
    random = Random(seed)
    cluster = Cluster()
    cluster.submit(job())
    cluster.start("w1")
    cluster.pass_s(0.3)
    topics = [topic for topic in of_a_cluster() if topic not in (CLUSTER.status, CLUSTER.events)]
    for _ in range(20):
        topic = random.choice(topics)
        cluster.append(topic, mutated(random, random.choice(of_a_cluster()[topic])))
        cluster.pass_s(0.1)
    for value in of_a_cluster()[CLUSTER.submit]:
        replica = next(iter(cluster.replicas.values()))
        replica.conductor.feed_progress(cluster.plan().generation, 0, mutated(random, value))
    cluster.start_replica("c1")
    cluster.submit(job("other"))
    cluster.pass_s(1)
    assert any(status.job == "other" for status in cluster.statuses("other"))


@examples(each_run=40, with_long=200)
@given(SEEDS)
def test_no_recovery_replica_fails(seed: int) -> None:
    random = Random(seed)
    shell = Shell()
    sound: Plan = plan({"u-0": "hybrid", "u-1": "active-standby"})
    beat = Heartbeat("w1", "1", 0, slots=4, copies=(CopyState(UNIT, 1, "running"),))
    shell.append(TOPICS.plans, plans.encode(sound))
    shell.append(TOPICS.heartbeats, heartbeats.encode(beat))
    values: Recorded = {
        TOPICS.plans: [plans.encode(sound), *of_a_cluster()[CLUSTER.plans]],
        TOPICS.assignments: of_a_cluster()[CLUSTER.assignments],
        TOPICS.heartbeats: [heartbeats.encode(beat), *of_a_cluster()[CLUSTER.heartbeats]],
        TOPICS.submit: of_a_cluster()[CLUSTER.submit],
        TOPICS.events: of_a_cluster()[CLUSTER.events],
    }
    for _ in range(40):
        topic = random.choice(list(values))
        shell.append(topic, mutated(random, random.choice(values[topic])))
        shell.now_us += random.choice((1_000, 100_000, 5_000_000))
        shell.replica.turn()
        shell.replica.core.check_invariants()


@examples(each_run=15, with_long=75)
@given(SEEDS)
def test_no_worker_fails_and_none_of_its_readers(seed: int) -> None:
    """A copy may: what was changed can be a valid record that contradicts another. A worker may not."""
    random = Random(seed)
    cluster = MemoryCluster(BUSY)
    fed = orders(300)
    running(cluster, fed)
    places = [*own(cluster), Partition(cluster.cluster.plans, 0), Partition(cluster.cluster.assignments, 0)]
    for _ in range(12):
        at = random.choice(places)
        append(cluster, at, mutated(random, random.choice(of_a_job()[at.topic])))
        cluster.turn(random.choice((1, 30)))
        if random.random() < 0.2:
            cluster.start(random.choice(("w1", "w2")))
    for partition in (0, 1):
        cluster.feed("orders", fed[200 + partition :: 2], partition)
    with suppress(WorkerUnfit):
        cluster.turn(200)
    bad_records.search(door(cluster), cluster.plan)


@examples(each_run=60, with_long=500)
@given(SEEDS)
def test_the_view_of_a_cluster_shows_what_there_is(seed: int) -> None:
    random = Random(seed)
    view = ClusterView(CLUSTER)
    for topic, values in of_a_cluster().items():
        if topic in (CLUSTER.events, CLUSTER.submit):
            continue
        for value in values:
            view.read(topic, value)
            view.read(topic, mutated(random, value))
    for value in of_a_job()[f"t.orders.{GENERATION}.progress"]:
        view.read_progress(GENERATION, mutated(random, value))
    for line in view.jobs():
        view.find(line.job)
        view.status(line, 0)
        found = view.plan(line.generation)
        if found is not None:
            view.units(found)
    view.workers(0)


def test_records_of_every_kind_are_mutated() -> None:
    """Else the tests above would show little."""
    found = of_a_job() | of_a_cluster()
    assert all(found[topic] for topic in found), [topic for topic in found if not found[topic]]
    assert any(topic in found for topic in data_topics(MemoryCluster(BUSY).plan))
    assert {kind.value for kind in Kind} <= {topic.removeprefix("t.") for topic in found}
