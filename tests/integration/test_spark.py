"""Spark operators on real processes and a real Kafka: exact through drains, kills of drivers and failed tasks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from schemas import commands, commits, dead_letters, events, plans
from schemas.commands import Command
from schemas.commits import Commit
from schemas.plans import Ended, Plan, Rejection
from schemas.topics import ClusterTopics, JobTopics, Partition, TopicSpec
from services.log.kafka import KafkaLog
from services.planning.loading import interpret
from tests.support.commands import HOLDFAST, answered, run
from tests.support.commands import until as until_within

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]
DEADLINE_S = 300.0
"""Two sessions of Spark start beside a broker, on machines that have other things to do."""
BEGIN = datetime(2013, 1, 1, tzinfo=UTC)
FIELDS = {"origin": "string", "number": "int", "delay": "int", "time": "timestamp"}


def flight(number: int) -> dict[str, Any]:
    time = (BEGIN + timedelta(seconds=20 * number)).isoformat().replace("+00:00", "Z")
    return {"origin": ("JFK", "EWR", "LGA")[number % 3], "number": number, "delay": number * 7 % 100, "time": time}


def hourly(numbers: range) -> Counter[tuple[Any, ...]]:
    """What `heavy.hourly` makes of flights, once every window is closed."""
    found: dict[tuple[str, str], list[int]] = {}
    for one in map(flight, numbers):
        found.setdefault((one["time"][:13], one["origin"]), []).append(one["delay"])
    return Counter((f"{hour}:00:00Z", origin, len(all), sum(all)) for (hour, origin), all in found.items())


class Cluster:
    """A cluster as `holdfast up` starts it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.call("up", "--detach", "--workers", "1")
        described = json.loads((folder / "cluster.json").read_text())
        self.log = KafkaLog(described["bootstrap_servers"], {}, "test")
        self.appender = self.log.appender("test")
        self.topics = ClusterTopics()

    def call(self, *words: str) -> str:
        printed, _ = run(self.folder, *words, environment={"HOLDFAST_PLUGINS": "tests.support.heavy"})
        return printed

    def submit(self, name: str, operators: dict[str, Any], scheme: str = "passive", **more: Any) -> None:
        """A job over topic in-<name>, whose query reads the last operator into out-<name>."""
        self.log.create([TopicSpec(f"in-{name}", 2), TopicSpec(f"out-{name}", 1)])
        source = {"topic": f"in-{name}", "fields": FIELDS, "event_time": "time", **more}
        spec = interpret({
            "name": name,
            "sources": {"flights": source},
            "operators": operators,
            "queries": {"q": {"input": list(operators)[-1], "sink": {"topic": f"out-{name}"}}},
            "fault_tolerance": {"default": {"scheme": scheme}},
        })  # fmt: skip
        self._tell(commands.encode(spec.as_plain()))

    def drain(self, name: str) -> None:
        self._tell(commands.encode(Command("drain", name)))
        until(lambda: any(isinstance(one, Ended) and one.job == name for one in self.decisions()), f"{name} ends")

    def _tell(self, record: bytes) -> None:
        self.appender.append(Partition(self.topics.submit, 0), record)
        self.appender.flush(DEADLINE_S)

    def feed(self, name: str, numbers: range) -> None:
        """A little at a time: no partition is further ahead of another than the watermark of `heavy.hourly` allows."""
        for number in numbers:
            self.appender.append(Partition(f"in-{name}", number % 2), msgspec.json.encode(flight(number)))
            if number % 500 >= 498:
                self.appender.flush(DEADLINE_S)
        self.appender.flush(DEADLINE_S)

    def append(self, name: str, value: bytes) -> None:
        self.appender.append(Partition(f"in-{name}", 0), value)
        self.appender.flush(DEADLINE_S)

    def decisions(self) -> list[plans.Decision]:
        return [plans.decode(value) for value in self._values(self.topics.plans)]

    def await_state(self, name: str, state: str) -> None:
        def reached() -> bool:
            found = [plans.decode_status(value) for value in self._values(self.topics.status)]
            last = next((one for one in reversed(found) if one.job == name), None)
            assert last is None or last.state not in ("rejected", "failed"), last
            return last is not None and last.state == state

        until(reached, f"{name} is {state}")

    def rows(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(value) for value in self._values(f"out-{name}")]

    def delivered(self, name: str) -> int:
        return len(self.rows(name))

    def topics_of(self, name: str) -> JobTopics:
        plan = next(one for one in self.decisions() if isinstance(one, Plan) and one.job == name)
        return self.topics.job(plan.job, plan.generation)

    def committed(self, name: str, operator: str) -> int:
        """Rows that a driver has committed."""
        values = self._values(self.topics_of(name).commits(operator))
        found = [commits.decode(value) for value in values if not commits.is_frame(value)]
        return sum(frame.rows for one in found if isinstance(one, Commit) for frame in one.frames)

    def await_more(self, name: str, before: int) -> None:
        until(lambda: self.delivered(name) > before, "results continue")

    def signal(self, driver: str, number: signal.Signals) -> str:
        """Sends a signal to the driver's process and its JVM; returns its incarnation."""
        until(lambda: self.processes()[driver]["pid"], f"{driver} runs")
        victim = self.processes()[driver]
        os.killpg(victim["pid"], number)
        return str(victim["incarnation"])

    def kill(self, driver: str) -> None:
        """SIGKILL; returns when the driver has a new incarnation."""
        before = self.signal(driver, signal.SIGKILL)
        until(lambda: self.processes()[driver]["incarnation"] != before, f"{driver} comes back")

    def processes(self) -> dict[str, dict[str, Any]]:
        return {one["worker"]: one for one in json.loads((self.folder / "workers.json").read_text())}

    def active(self, name: str, unit: str) -> str:
        """The worker whose copy of the job's unit was the last to lead and to run; empty before the first."""
        found = [events.decode(value) for value in self._values(self.topics.events)]
        told = [one.worker for one in found if (one.kind, one.job, one.unit) == ("unit-active", name, unit)]
        return told[-1] if told else ""

    def _values(self, topic: str) -> list[bytes]:
        return answered(lambda: [m.value() or b"" for m in self.log.scan(Partition(topic, 0))])


def until(condition: Callable[[], Any], what: str) -> Any:
    return until_within(condition, what, DEADLINE_S)


def windows(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    return Counter((one["window_start"], one["origin"], one["n"], one["total"]) for one in rows)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    try:
        yield Cluster(folder)
    finally:
        subprocess.run([HOLDFAST, "down", "--data-dir", str(folder)], check=False, capture_output=True)


def test_source_spark_sink_is_exact_while_its_driver_is_killed_and_a_drain_closes_every_window(
    cluster: Cluster,
) -> None:
    cluster.submit("killed", {"h": {"spark": "tests.support.heavy:hourly", "input": "flights"}})
    cluster.await_state("killed", "running")
    for round in range(4):
        before = cluster.delivered("killed")
        cluster.feed("killed", range(round * 5_000, (round + 1) * 5_000))
        cluster.await_more("killed", before)
        if round < 3:
            cluster.kill("spark-1")
    cluster.drain("killed")
    assert windows(cluster.rows("killed")) == hourly(range(20_000))


def test_a_standby_takes_over_and_a_zombie_that_wakes_changes_nothing(cluster: Cluster) -> None:
    cluster.submit("frozen", {"h": {"spark": "tests.support.heavy:hourly", "input": "flights"}}, scheme="hybrid")
    cluster.await_state("frozen", "running")
    cluster.feed("frozen", range(5_000))
    until(lambda: cluster.delivered("frozen"), "windows close")
    first = until(lambda: cluster.active("frozen", "spark-h-0"), "its driver is at work")
    cluster.signal(first, signal.SIGSTOP)
    try:
        cluster.feed("frozen", range(5_000, 10_000))
        until(lambda: cluster.active("frozen", "spark-h-0") != first, "the standby is at work")
        before = cluster.delivered("frozen")
        cluster.feed("frozen", range(10_000, 12_500))
        cluster.await_more("frozen", before)
    finally:
        cluster.signal(first, signal.SIGCONT)
    cluster.feed("frozen", range(12_500, 15_000))
    cluster.drain("frozen")
    assert windows(cluster.rows("frozen")) == hourly(range(15_000))


def test_behind_an_operator_spark_reads_exactly_once_rows_and_what_follows_it_need_not_know(cluster: Cluster) -> None:
    cluster.submit(
        "between",
        {
            "some": {"filter": "delay > 50", "input": "flights"},
            "scored": {"spark": "tests.support.heavy:scored", "input": "some"},
            "sums": {"aggregate": {"total": "sum(score)", "n": "count()"}, "key": ["origin"], "input": "scored",
                     "window": {"size_s": 3600}},
        },
    )  # fmt: skip
    cluster.await_state("between", "running")
    cluster.feed("between", range(0, 6_000, 2))
    until(lambda: cluster.committed("between", "scored"), "one partition is a day ahead of the other")
    cluster.feed("between", range(1, 6_000, 2))
    until(lambda: cluster.delivered("between"), "windows close")
    cluster.kill("spark-1")
    cluster.feed("between", range(6_000, 12_000))
    cluster.drain("between")
    found = Counter((r["window_start"], r["origin"], r["n"], r["total"]) for r in cluster.rows("between"))
    kept = [one for one in map(flight, range(12_000)) if one["delay"] > 50]
    groups: dict[tuple[str, str], list[int]] = {}
    for one in kept:
        groups.setdefault((one["time"][:13], one["origin"]), []).append(one["delay"] ** 2)
    expected = Counter((f"{h}:00:00Z", o, len(all), float(sum(all))) for (h, o), all in groups.items())
    assert found == expected


def test_records_that_are_no_rows_go_to_the_dead_letters_once_and_change_nothing(cluster: Cluster) -> None:
    cluster.submit("bad-records", {"h": {"spark": "tests.support.heavy:hourly", "input": "flights"}})
    cluster.await_state("bad-records", "running")
    wrong = [b"nope", b'{"origin": "JFK"}', msgspec.json.encode(flight(1) | {"delay": "late"})]
    letters = Partition(cluster.topics_of("bad-records").dead_letters, 0)
    for value in wrong:
        cluster.append("bad-records", value)
    cluster.feed("bad-records", range(2_000))
    until(lambda: len(list(cluster.log.scan(letters))) == 3, "dead letters are there")
    found = [dead_letters.decode(m.value() or b"") for m in cluster.log.scan(letters)]
    assert Counter(one.raw for one in found) == Counter(wrong)
    assert all(one.origin == "flights" and one.topic == "in-bad-records" and one.reason for one in found)
    cluster.drain("bad-records")
    assert windows(cluster.rows("bad-records")) == hourly(range(2_000))


def test_tasks_that_are_tried_again_double_nothing(cluster: Cluster, tmp_path: Path) -> None:
    operator = {
        "spark": "tests.support.heavy:failing_once",
        "input": "flights",
        "params": {"mark": str(tmp_path / "failed")},
    }
    cluster.submit("retried", {"f": operator})
    cluster.await_state("retried", "running")
    cluster.feed("retried", range(30_000))
    cluster.drain("retried")
    assert list(tmp_path.glob("failed-*")), "no task failed"
    assert Counter(row["number"] for row in cluster.rows("retried")) == Counter(range(30_000))


LONG = "SELECT number, origin, delay / 2 AS half, time FROM input WHERE delay > 20"
"""Stateless: it runs in real-time mode."""


def long(numbers: range) -> Counter[tuple[Any, ...]]:
    found = (one for one in map(flight, numbers) if one["delay"] > 20)
    return Counter((one["number"], one["origin"], one["delay"] / 2, one["time"]) for one in found)


def test_real_time_rows_are_exact_while_the_driver_is_killed_and_a_drain_takes_all(cluster: Cluster) -> None:
    cluster.submit("live", {"h": {"spark": {"sql": LONG}, "input": "flights"}})
    cluster.await_state("live", "running")
    plan = next(one for one in cluster.decisions() if isinstance(one, Plan) and one.job == "live")
    assert [one.mode for one in plan.spark] == ["real-time"]
    cluster.append("live", b"nope")
    for round in range(3):
        before = cluster.delivered("live")
        cluster.feed("live", range(round * 2_000, (round + 1) * 2_000))
        cluster.await_more("live", before)
        if round < 2:
            cluster.kill("spark-1")
    letters = Partition(cluster.topics_of("live").dead_letters, 0)
    until(lambda: len(list(cluster.log.scan(letters))) == 1, "the dead letter is there")
    cluster.feed("live", range(6_000, 8_000))
    cluster.drain("live")
    found = Counter((one["number"], one["origin"], one["half"], one["time"]) for one in cluster.rows("live"))
    assert found == long(range(8_000))


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("raises", "raised AnalysisException at heavy.py:"),
        ("forgets", "returned nothing, not a DataFrame"),
        ("unsupported", "not supported for streaming aggregations without watermark"),
        ("absent", "has no function absent"),
    ],
)
def test_what_is_no_operator_is_rejected_with_sparks_reason(cluster: Cluster, function: str, reason: str) -> None:
    name = f"bad-{function}"
    cluster.submit(name, {"h": {"spark": f"tests.support.heavy:{function}", "input": "flights"}})

    def rejection() -> Rejection | None:
        return next((d for d in cluster.decisions() if isinstance(d, Rejection) and d.job == name), None)

    (problem,) = until(rejection, "it is rejected").problems
    assert problem.path == "operators.h.spark"
    assert reason in problem.message
