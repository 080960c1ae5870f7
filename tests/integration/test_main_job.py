"""The main job on real processes and a real Kafka: a job goes in through a topic, workers die, every row is exact."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from schemas import commands, plans
from schemas.dead_letters import decode as decode_dead
from schemas.plans import Ended, Plan, Rejection
from schemas.topics import ClusterTopics, Partition, TopicSpec
from services.log.kafka import KafkaLog
from services.planning.loading import load
from tests.support.commands import DEADLINE_S, HOLDFAST, answered, run, until
from tests.support.orders import PATIENT, Order, check, orders

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]


class Cluster:
    """A cluster as `holdfast up` starts it, and the topics that a client sees."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.call("up", "--detach", "--workers", "3")
        described = json.loads((folder / "cluster.json").read_text())
        self.log = KafkaLog(described["bootstrap_servers"], {}, "test")
        self.appender = self.log.appender("test")
        self.topics = ClusterTopics()

    def call(self, *words: str, status: int = 0) -> str:
        """Runs a command; returns what it printed."""
        printed, _ = run(self.folder, *words, status=status)
        return printed

    def submit(self, record: bytes) -> None:
        self.appender.append(Partition(self.topics.submit, 0), record)
        self.appender.flush(DEADLINE_S)

    def decisions(self) -> list[plans.Decision]:
        return [plans.decode(m.value() or b"") for m in self.log.scan(Partition(self.topics.plans, 0))]

    def status(self, job: str) -> str:
        found = [plans.decode_status(m.value() or b"") for m in self.log.scan(Partition(self.topics.status, 0))]
        return next((one.state for one in reversed(found) if one.job == job), "")

    def ended(self, job: str) -> bool:
        return any(isinstance(one, Ended) and one.job == job for one in self.decisions())

    def taken_in(self, job: str) -> int:
        """Records of its sources that the job has counted."""
        return int(json.loads(self.call("status", job, "--json"))["records"])

    def all_live(self) -> bool:
        return {one["state"] for one in json.loads(self.call("workers", "--json"))} == {"live"}

    def feed(self, topic: str, fed: list[Order]) -> None:
        for index, order in enumerate(fed):
            self.appender.append(Partition(topic, index % 2), msgspec.json.encode(order))
        self.appender.flush(DEADLINE_S)

    def rows(self, topic: str) -> list[dict[str, Any]]:
        values = answered(lambda: [m.value() or b"" for m in self.log.scan(Partition(topic, 0))])
        return [json.loads(value) for value in values]

    def delivered(self, topic: str) -> int:
        return answered(lambda: self.log.offsets([Partition(topic, 0)], "end"))[Partition(topic, 0)]

    def await_more(self, topic: str, before: int) -> None:
        until(lambda: self.delivered(topic) > before, "results continue")

    def kill(self, name: str) -> None:
        """SIGKILL; returns when the worker is back under a new incarnation."""
        until(lambda: self.workers()[name]["pid"], f"{name} runs")
        victim = self.workers()[name]
        os.kill(victim["pid"], signal.SIGKILL)
        until(lambda: self.workers()[name]["incarnation"] != victim["incarnation"], f"{name} comes back")

    def workers(self) -> dict[str, dict[str, Any]]:
        return {one["worker"]: one for one in json.loads((self.folder / "workers.json").read_text())}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    try:
        yield Cluster(folder)
    finally:
        subprocess.run([HOLDFAST, "down", "--data-dir", str(folder)], check=False, capture_output=True)


def test_a_job_submitted_as_a_raw_record_stays_exact_while_workers_are_killed_under_load(cluster: Cluster) -> None:
    fed = orders(60_000)
    cluster.log.create([TopicSpec("orders", 2), *(TopicSpec(name, 1) for name in ("shops", "hours", "big"))])
    cluster.submit(commands.encode(load(PATIENT, "job.yaml").as_plain()))
    until(lambda: cluster.status("orders") == "running", "the job runs")
    step = len(fed) // 6
    for number in range(6):
        before = cluster.delivered("big")
        cluster.feed("orders", fed[number * step : (number + 1) * step])
        cluster.await_more("big", before)
        if number < 5:
            cluster.kill(f"worker-{number % 3 + 1}")
    until(lambda: cluster.taken_in("orders") == len(fed), "all is taken in")
    replayed = json.loads(cluster.call("replay", "orders", "--json"))
    assert (replayed["lost"], replayed["duplicated"], replayed["wrong"]) == (0, 0, 0), replayed
    assert replayed["results"] > len(fed) // 4, "about half of the orders are large, and delivered by now"
    cluster.submit(commands.encode(commands.Command("drain", "orders")))
    until(lambda: cluster.ended("orders"), "the job ends")
    check(cluster.rows, fed)
    left = [name for name in cluster.log.topics() if name.startswith("holdfast.orders.")]
    assert left == [], "the job's own topics are gone"
    cluster.call("replay", "orders", status=1)
    cluster.call("replay", "order", status=2)


def test_a_job_with_problems_is_rejected_with_all_of_them(cluster: Cluster) -> None:
    bad = load(PATIENT, "job.yaml").as_plain()
    bad["name"] = "bad"
    bad["operators"]["large"]["filter"] = "amuont >= 10"
    bad["operators"]["hourly"]["key"] = ["itme"]
    bad["sources"]["orders"]["topic"] = "nowhere"
    cluster.submit(commands.encode(bad))

    def rejection() -> Rejection | None:
        found = [one for one in cluster.decisions() if isinstance(one, Rejection) and one.job == "bad"]
        return found[0] if found else None

    problems = {problem.path: str(problem) for problem in until(rejection, "a rejection").problems}
    assert "did you mean 'amount'" in problems["operators.large.filter"]
    assert "did you mean 'item'" in problems["operators.hourly.key[0]"]
    assert "--create-topics" in problems["sources.orders.topic"]


SIMPLE = """
name: simple
keep_cuts: true
sources: {numbers: {topic: numbers, fields: {n: int}}}
operators: {even: {filter: "n % 2 = 0", input: numbers}}
queries: {evens: {input: even, sink: {topic: evens}}}
"""


def test_a_person_runs_a_job_by_commands(cluster: Cluster, tmp_path: Path) -> None:
    job, data = tmp_path / "job.yaml", tmp_path / "numbers.ndjson"
    job.write_text(SIMPLE)
    data.write_text("".join(f'{{"n": {n}}}\n' for n in range(1000)) + "not json\n")
    assert "send numbers FILE --create-topics" in cluster.call("check", str(job), status=2).replace("\n", " ")
    cluster.call("send", "numbers", str(data), "--create-topics")
    cluster.call("submit", str(job), "--create-topics", "--timeout", f"{DEADLINE_S:g}")
    assert "even" in cluster.call("check", str(job))
    until(lambda: cluster.delivered("evens") >= 500, "rows are delivered")
    rows = [json.loads(line) for line in cluster.call("results", "simple", "evens", "--until-idle", "1").splitlines()]
    assert rows == [{"n": n} for n in range(0, 1000, 2)]
    plan = next(one for one in cluster.decisions() if isinstance(one, Plan) and one.job == "simple")
    letters = Partition(cluster.topics.job("simple", plan.generation).dead_letters, 0)
    until(lambda: cluster.log.last(letters), "a dead letter")
    (letter,) = [decode_dead(m.value() or b"") for m in cluster.log.scan(letters)]
    assert (letter.raw, letter.offset) == (b"not json", 1000)
    assert "not json" in cluster.call("dead-letters", "simple")
    assert json.loads(cluster.call("list", "--json"))[0]["job"]
    assert "running" in cluster.call("status", "simple")
    (unit,) = json.loads(cluster.call("units", "simple", "--json"))
    assert unit["copies"][0]["role"] == "primary"
    until(cluster.all_live, "every worker is heard of late")
    cluster.call("pause", "simple")
    until(lambda: cluster.status("simple") == "paused", "the job pauses")
    cluster.call("resume", "simple")
    until(lambda: cluster.status("simple") == "running", "the job runs again")
    cluster.call("cancel", "simple", "--drain")
    replayed = json.loads(cluster.call("replay", "simple", "--json"))
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
queries:
  beside: {input: beside, sink: {topic: beside}}
"""


def test_each_row_of_a_stream_meets_its_row_of_a_compacted_table_though_a_worker_is_killed(cluster: Cluster) -> None:
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
    until(lambda: cluster.status("placed") == "running", "the job runs")
    cluster.kill("worker-1")
    until(lambda: len(cluster.rows("beside")) >= len(fed), "all rows are delivered")
    met = sorted((row["amount"], row["city"]) for row in cluster.rows("beside"))
    assert met == sorted((n["amount"], f"city {n['amount']}" if n["amount"] % 5 else None) for n in fed)
    assert "loaded" in cluster.call("status", "placed", "--json")
    cluster.call("cancel", "placed", "--drain")
    replayed = json.loads(cluster.call("replay", "placed", "--json"))
    assert (replayed["results"], replayed["lost"], replayed["duplicated"], replayed["wrong"]) == (len(fed), 0, 0, 0)
