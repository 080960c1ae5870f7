"""The main job on real processes and a real Kafka: a job goes in through a topic, workers die, every row is exact."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from holdfast.schemas import commands
from holdfast.schemas.dead_letters import decode as decode_dead
from holdfast.schemas.plans import Rejection
from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.planning.loader import load
from tests.support.cluster import LocalCluster
from tests.support.commands import DEADLINE_S, until
from tests.support.orders import PATIENT, Order, check, orders

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def all_live(cluster: LocalCluster) -> bool:
    """Every worker was heard of late."""
    return {one["state"] for one in cluster.asked("workers")} == {"live"}


def test_a_job_submitted_as_a_raw_record_stays_exact_while_workers_are_killed_under_load(cluster: LocalCluster) -> None:
    fed = orders(30_000)
    cluster.log.create([TopicSpec("orders", 2), *(TopicSpec(name, 1) for name in ("shops", "hours", "big"))])
    cluster.submit(commands.encode(load(PATIENT, "job.yaml").as_plain()))
    cluster.await_state("orders", "running")
    step = len(fed) // 4
    for number in range(4):
        before = cluster.end("big")
        cluster.feed("orders", fed[number * step : (number + 1) * step])
        cluster.await_more("big", before)
        if number < 3:
            cluster.kill(f"worker-{number + 1}")
    cluster.await_taken_in("orders", len(fed))
    replayed = cluster.asked("replay", "orders")
    assert (replayed["lost"], replayed["duplicated"], replayed["wrong"]) == (0, 0, 0), replayed
    assert replayed["results"] > len(fed) // 4, "about half of the orders are large, and delivered by now"
    cluster.drain("orders")
    check(cluster.rows, fed)
    left = [name for name in cluster.log.topics() if name.startswith("holdfast.orders.")]
    assert left == [], "the job's own topics are gone"
    cluster.call("replay", "orders", status=1)
    cluster.call("replay", "order", status=2)


def test_a_job_with_problems_is_rejected_with_all_of_them(cluster: LocalCluster) -> None:
    bad = load(PATIENT, "job.yaml").as_plain()
    bad["name"] = "bad"
    bad["operators"]["large"]["filter"] = "amuont >= 10"
    bad["operators"]["hourly"]["key"] = ["itme"]
    bad["sources"]["orders"]["topic"] = "nowhere"
    cluster.submit(commands.encode(bad))
    rejection: Rejection = until(lambda: cluster.decided("bad", Rejection), "a rejection")
    problems = {problem.path: str(problem) for problem in rejection.problems}
    assert "did you mean 'amount'" in problems["operators.large.filter"]
    assert "did you mean 'item'" in problems["operators.hourly.key[0]"]
    assert "--create-topics" in problems["sources.orders.topic"]


SIMPLE = """
name: simple
keep_cuts: true
sources: {numbers: {topic: numbers, fields: {n: int}}}
operators: {even: {filter: "n % 2 = 0", input: numbers}}
fault_tolerance: {default: {scheme: none}}
queries: {evens: {input: even, sink: {topic: evens}}}
"""


def test_a_person_runs_a_job_by_commands(cluster: LocalCluster, tmp_path: Path) -> None:
    job, data = tmp_path / "job.yaml", tmp_path / "numbers.ndjson"
    job.write_text(SIMPLE)
    data.write_text("".join(f'{{"n": {n}}}\n' for n in range(1000)) + "not json\n")
    assert "send numbers FILE --create-topics" in cluster.call("check", str(job), status=2).replace("\n", " ")
    cluster.call("send", "numbers", str(data), "--create-topics")
    cluster.call("submit", str(job), "--create-topics", "--timeout", f"{DEADLINE_S:g}")
    assert "even" in cluster.call("check", str(job))
    until(lambda: cluster.end("evens") >= 500, "rows are delivered")
    rows = [json.loads(line) for line in cluster.call("results", "simple", "evens", "--until-idle", "1").splitlines()]
    assert rows == [{"n": n} for n in range(0, 1000, 2)]
    letters = cluster.letters_of("simple")
    until(lambda: cluster.log.last(letters), "a dead letter")
    (letter,) = [decode_dead(m.value() or b"") for m in cluster.log.scan(letters)]
    assert (letter.raw, letter.offset) == (b"not json", 1000)
    assert "not json" in cluster.call("dead-letters", "simple")
    assert cluster.asked("list")[0]["job"]
    assert "running" in cluster.call("status", "simple")
    (unit,) = cluster.asked("units", "simple")
    assert unit["copies"][0]["role"] == "primary"
    until(lambda: all_live(cluster), "every worker is heard of late")
    cluster.call("pause", "simple")
    cluster.await_state("simple", "paused")
    cluster.call("resume", "simple")
    cluster.await_state("simple", "running")
    cluster.call("cancel", "simple", "--drain")
    replayed = cluster.asked("replay", "simple")
    assert (replayed["results"], replayed["lost"], replayed["duplicated"], replayed["wrong"]) == (500, 0, 0, 0)
    assert replayed["dead_letters"] == {"results": 1, "lost": 0, "duplicated": 0, "wrong": 0}
    assert "unit-active" in cluster.call("events", "--json")
    cluster.call("kill", "worker-9", status=2)


PLACED = """
name: placed
keep_cuts: true
sources:
  bought: {topic: bought, fields: {customer: string, amount: int}, parallelism: 2}
  customers: {topic: customers, fields: {customer: string, city: string}, table: [customer], parallelism: 2}
operators:
  beside: {join: {left: bought, right: customers, "on": [customer], kind: left}, parallelism: 2}
fault_tolerance: {default: {scheme: none}}
queries:
  beside: {input: beside, sink: {topic: beside}}
"""


def test_each_row_of_a_stream_meets_its_row_of_a_compacted_table_though_a_worker_is_killed(
    cluster: LocalCluster,
) -> None:
    count, compacted = 20_000, {"cleanup.policy": "compact", "min.compaction.lag.ms": "86400000"}
    cluster.log.create([TopicSpec("bought", 2), TopicSpec("customers", 2, compacted), TopicSpec("beside", 1)])
    for n in range(count):
        row = msgspec.json.encode({"customer": f"c{n}", "city": f"city {n}"})
        cluster.appender.append(Partition("customers", -1), row, key=f"c{n}".encode())
    for n in range(0, count, 5):
        cluster.appender.append(Partition("customers", -1), None, key=f"c{n}".encode())
    fed: list[Order] = [{"customer": f"c{n}", "amount": n} for n in range(0, count, 10)]
    fed += [{"customer": f"c{n}", "amount": n} for n in range(1, count, 10)]
    cluster.feed("bought", fed)
    cluster.submit(commands.encode(load(PLACED, "job.yaml").as_plain()))
    cluster.await_state("placed", "running")
    cluster.kill("worker-1")
    until(lambda: cluster.end("beside") >= len(fed) and len(cluster.rows("beside")) >= len(fed), "all rows")
    met = sorted((row["amount"], row["city"]) for row in cluster.rows("beside"))
    assert met == sorted((n["amount"], f"city {n['amount']}" if n["amount"] % 5 else None) for n in fed)
    assert "loaded" in cluster.call("status", "placed", "--json")
    cluster.call("cancel", "placed", "--drain")
    replayed = cluster.asked("replay", "placed")
    assert (replayed["results"], replayed["lost"], replayed["duplicated"], replayed["wrong"]) == (len(fed), 0, 0, 0)
