"""Several workers of a real cluster killed at once: an incident, a line, and every row exact (docs/decisions/0095)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.schemas import assignments, commands
from holdfast.schemas.assignments import Change, job_key
from holdfast.schemas.incidents import Incident
from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.audit.replay import replay
from holdfast.services.decisions.standings import Standings
from holdfast.services.kernel.plans.upstream import upstream
from holdfast.services.log.late.assignments import read_standings
from holdfast.services.planning.loader import load
from tests.integration.local.test_checkpoint_policies import COUNTED, counted, markers, newest
from tests.support.cluster import LocalCluster
from tests.support.orders import orders

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
JOB = (
    COUNTED
    + """\
fault_tolerance:
  default: {{scheme: passive}}
  checkpoint: {{policy: aligned, every_batches: 5}}
  buffering: {buffering}
"""
)
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


# -- what was trimmed is computed again -------------------------------------------------------------------------------

BESIDE = """
name: {name}
keep_cuts: true
batch_interval_ms: 50
sources:
  orders: {{topic: {name}-in, fields: {{shop: string, amount: int}}, parallelism: 2}}
  others: {{topic: {name}-in, fields: {{shop: string, amount: int}}}}
operators:
  per_shop: {{aggregate: {{n: "count()", total: "sum(amount)"}}, key: [shop], input: orders, parallelism: 2}}
  again: {{aggregate: {{n: "count()", total: "sum(amount)"}}, key: [shop], input: others}}
queries:
  shops: {{input: per_shop, sink: {{topic: {name}-out}}}}
  beside: {{input: again, sink: {{topic: {name}-beside}}}}
fault_tolerance:
  default: {{scheme: passive}}
  checkpoint: {{policy: aligned, every_batches: 5}}
  buffering: {buffering}
"""


@contextmanager
def controllers_frozen(cluster: LocalCluster) -> Iterator[None]:
    """No global checkpoint is stated meanwhile."""
    lines = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in cluster.processes()}
    found = [pid for pid, line in lines.items() if b"holdfast.services.controller" in line]
    assert found
    try:
        for pid in found:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in found:
            os.kill(pid, signal.SIGCONT)


def needed_at(cluster: LocalCluster, name: str, unit: str, batch: int) -> dict[Partition, int]:
    """Where the unit reads on if it begins again with its marker for this batch; empty: the log has lost that."""
    found = (one for one in markers(cluster, name)[unit] if one.b == batch)
    return {Partition(at.topic, at.partition): at.offset for one in found for at in one.positions}


@pytest.mark.long  # scenario/test_only_sources_retain.py and the profile `retention` of histories hold it in each run
@pytest.mark.parametrize("buffering", ["adaptive", "source"])
def test_trimmed_inputs_are_computed_again_from_the_sources(cluster: LocalCluster, buffering: str) -> None:
    """The worker of a unit is killed once its inputs begin behind the newest global checkpoint."""
    name = f"trimmed-{buffering}"
    cluster.log.create([TopicSpec(f"{name}-in", 2), TopicSpec(f"{name}-out", 1), TopicSpec(f"{name}-beside", 1)])
    cluster.submit(commands.encode(load(BESIDE.format(name=name, buffering=buffering), "job.yaml").as_plain()))
    cluster.await_state(name, "running")
    plan, fed, given = cluster.plan(name), orders(40 * STEP), 0
    key, above = job_key(name, plan.generation), upstream(plan)
    unit = next(one.name for one in plan.units if "per_shop" in one.operators and above[one.name])

    def changes() -> dict[str, Change]:
        """Of the units of this job."""
        units = standings(cluster).assigned.units()
        return {one.partition("/")[2]: change for one, change in units.items() if one.startswith(f"{key}/")}

    def complete() -> int:
        return standings(cluster).assigned.complete(key)

    def feed() -> int:
        nonlocal given
        cluster.feed(f"{name}-in", fed[given : given + 20])
        given = min(given + 20, len(fed))
        return given

    def starts_behind(batch: int) -> bool:
        """Whether an input begins behind where the unit would read on."""
        needed = needed_at(cluster, name, unit, batch)
        starts = cluster.log.offsets(list(needed), "start")
        return any(start > needed[partition] for partition, start in starts.items())

    def closed(known: int) -> bool:
        """An incident behind so many records is over."""
        return any(one.over for one in records(cluster, name)[known:])

    cluster.until(lambda: feed() and complete() >= 10, "a global checkpoint is complete")
    with controllers_frozen(cluster):
        cluster.until(
            lambda: feed() and starts_behind(complete()), "what the newest global checkpoint needs is trimmed"
        )
        victim, before = changes()[unit].copies[0].worker, len(records(cluster, name))
        lost = {one for one, change in changes().items() if change.copies[0].worker == victim}
        cluster.signal(victim, signal.SIGKILL)
        cluster.until(lambda: feed() and closed(before), "the incident is over")
        restored = changes()
        assert starts_behind(restored[unit].back), "it began where all was there"
    back = {one for one, change in restored.items() if change.line}
    assert back == lost.union(*(above[one] for one in lost)), "who sends to them goes back, and nobody else"
    feed()
    cluster.await_taken_in(name, 2 * given)
    assert replay(cluster.log, cluster.topics, name).exact
    cluster.drain(name)
    assert newest(cluster.rows(f"{name}-out")) == newest(cluster.rows(f"{name}-beside")) == counted(fed[:given])
