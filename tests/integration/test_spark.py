"""Spark operators on real processes and a real Kafka: exact through drains, kills of drivers and failed tasks."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest

from holdfast.schemas import commands, commits, dead_letters
from holdfast.schemas.commits import Commit
from holdfast.schemas.plans import Rejection
from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.log.protocol import Rows
from holdfast.services.planning.loader import interpret
from tests.support.cluster import LocalCluster, running

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]
DEADLINE_S = 300.0
"""Two sessions of Spark start beside a broker, on machines that have other things to do."""
BRIEFLY = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Drivers live for seconds here: what Java's second compiler takes for them is never saved."""
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
    return Counter((f"{hour}:00:00.000000Z", origin, len(all), sum(all)) for (hour, origin), all in found.items())


class SparkCluster(LocalCluster):
    """Its jobs each read a topic in-<name>, with flights, and write one out-<name>."""

    def job(
        self,
        name: str,
        operators: dict[str, Any],
        scheme: str = "passive",
        horizon_s: float = 3600,
        beside: dict[str, Any] | None = None,
        folder: Path | None = None,
        **more: Any,
    ) -> None:
        """Submits one whose query reads the last operator. horizon_s: for how long its cuts are kept. beside: other
        sources than the flights. folder: to which the same rows go as files.
        """
        self.log.create([TopicSpec(f"in-{name}", 2), TopicSpec(f"out-{name}", 1)])
        source = {"topic": f"in-{name}", "fields": FIELDS, "event_time": "time", **more}
        written = {"input": list(operators)[-1], "sink": {"parquet": {"path": str(folder), "partition_by": ["origin"]}}}
        spec = interpret({
            "name": name,
            "replay_horizon_s": horizon_s,
            "sources": {"flights": source, **(beside or {})},
            "operators": operators,
            "queries": {
                "q": {"input": list(operators)[-1], "sink": {"topic": f"out-{name}"}},
                **({} if folder is None else {"files": written}),
            },
            "fault_tolerance": {"default": {"scheme": scheme}},
        })  # fmt: skip
        self.submit(commands.encode(spec.as_plain()))

    def fly(self, name: str, numbers: range) -> None:
        """A little at a time: no partition is further ahead of another than the watermark of `heavy.hourly` allows."""
        for number in numbers:
            self.appender.append(Partition(f"in-{name}", number % 2), msgspec.json.encode(flight(number)))
            if number % 500 >= 498:
                self.appender.flush(self.deadline_s)
        self.appender.flush(self.deadline_s)

    def fly_in_transactions(self, name: str, numbers: range) -> None:
        """As `fly`; the end of each transaction takes an offset of the topic."""
        transactor = self.log.transactor(f"flights-{name}")
        transactor.start()
        for some in (numbers[at : at + 500] for at in range(0, len(numbers), 500)):
            values = [msgspec.json.encode(flight(number)) for number in some]
            transactor.commit([Rows(f"in-{name}", values, partitions=[number % 2 for number in some])])
        transactor.close()

    def await_trimmed(self, topic: str, partitions: Iterable[int]) -> None:
        """Until some of what lay in each of them is gone."""
        where = [Partition(topic, index) for index in partitions]
        self.until(lambda: min(self.log.offsets(where, "start").values()) > 0, f"{topic} is trimmed")

    def delivered(self, name: str) -> int:
        return len(self.values(f"out-{name}"))

    def await_delivered(self, name: str, before: int = 0) -> None:
        self.until(lambda: self.delivered(name) > before, "windows close")

    def committed(self, name: str, operator: str) -> int:
        """Rows that a driver has committed."""
        values = self.values(self.topics_of(name).commits(operator))
        found = [commits.decode(value) for value in values if not commits.is_frame(value)]
        return sum(frame.rows for one in found if isinstance(one, Commit) for frame in one.frames)

    def active(self, name: str, unit: str) -> str:
        """The worker whose copy of the job's unit was the last to lead and to run; empty before the first."""
        told = [one.worker for one in self.events("unit-active") if (one.job, one.unit) == (name, unit)]
        return told[-1] if told else ""


def windows(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    return Counter((one["window_start"], one["origin"], one["n"], one["total"]) for one in rows)


PAIRS = """
SELECT number, kg, time FROM flights LEFT JOIN bags ON number = of AND at BETWEEN time AND time + INTERVAL 10 MINUTES
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where jobs of the cluster may write files."""
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, files: Path) -> Iterator[SparkCluster]:
    environment = {"HOLDFAST_PLUGINS": "tests.support.heavy", "HOLDFAST_LEAVE_S": "120", "SPARK_SUBMIT_OPTS": BRIEFLY}
    environment["HOLDFAST_FILES"] = str(files)
    with running(SparkCluster(tmp_path_factory.mktemp("cluster"), environment, DEADLINE_S)) as cluster:
        yield cluster


def test_source_spark_sink_is_exact_while_its_driver_is_killed_and_a_drain_closes_every_window(
    cluster: SparkCluster, files: Path
) -> None:
    folder = files / "killed"
    cluster.job("killed", {"h": {"spark": "tests.support.heavy:hourly", "input": "flights"}}, folder=folder)
    cluster.await_state("killed", "running")
    for round in range(2):
        before = cluster.delivered("killed")
        cluster.fly_in_transactions("killed", range(round * 5_000, (round + 1) * 5_000))
        cluster.await_delivered("killed", before)
        if round < 1:
            cluster.kill("spark-1")
    cluster.await_taken_in("killed", 10_000)
    cluster.drain("killed")
    assert windows(cluster.rows("out-killed")) == hourly(range(10_000))
    found = pl.read_parquet(folder / "*" / "*.parquet", hive_partitioning=True)
    starts = pl.col("window_start").dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")
    assert windows(found.with_columns(starts).to_dicts()) == hourly(range(10_000))


@pytest.mark.long  # the kill above holds drivers, in_spark/test_jobs_in_memory.py the join of a source with an operator
def test_a_topic_is_joined_with_what_an_operator_gives_exactly_while_the_driver_is_killed(
    cluster: SparkCluster,
) -> None:
    """Each flight, with its bag if its number is even, and without one at the end."""
    bags = {"topic": "in-bags", "fields": {"of": "int", "kg": "int", "at": "timestamp"}, "event_time": "at"}
    cluster.log.create([TopicSpec("in-bags", 1)])
    operators = {
        "even": {"filter": "of % 2 = 0", "input": "bags"},
        "pairs": {"spark": {"sql": PAIRS}, "input": {"flights": "flights", "bags": "even"}},
    }
    late_s = 6 * 3600
    beside = {"bags": bags | {"allowed_lateness_s": late_s}}
    cluster.job("joined", operators, beside=beside, allowed_lateness_s=late_s)
    cluster.await_state("joined", "running")
    for round in range(2):
        before, numbers = cluster.delivered("joined"), range(round * 1_000, (round + 1) * 1_000)
        cluster.fly("joined", numbers)
        for one in map(flight, numbers):
            bag = {"of": one["number"], "kg": one["number"] % 30, "at": one["time"]}
            cluster.appender.append(Partition("in-bags", 0), msgspec.json.encode(bag))
        cluster.appender.flush(DEADLINE_S)
        cluster.await_delivered("joined", before)
        if round < 1:
            cluster.kill("spark-1")
    cluster.drain("joined")
    found = Counter((one["number"], one["kg"]) for one in cluster.rows("out-joined"))
    assert found == Counter({(number, None if number % 2 else number % 30): 1 for number in range(2_000)})


@pytest.mark.long
def test_a_standby_takes_over_and_a_zombie_that_wakes_changes_nothing(cluster: SparkCluster) -> None:
    cluster.job("frozen", {"h": {"spark": "tests.support.heavy:hourly", "input": "flights"}}, scheme="hybrid")
    cluster.await_state("frozen", "running")
    cluster.fly("frozen", range(5_000))
    cluster.await_delivered("frozen")
    first = cluster.until(lambda: cluster.active("frozen", "spark-h-0"), "its driver is at work")
    cluster.signal(first, signal.SIGSTOP)
    try:
        cluster.fly("frozen", range(5_000, 10_000))
        cluster.until(lambda: cluster.active("frozen", "spark-h-0") != first, "the standby is at work")
        before = cluster.delivered("frozen")
        cluster.fly("frozen", range(10_000, 12_500))
        cluster.await_delivered("frozen", before)
    finally:
        cluster.signal(first, signal.SIGCONT)
    cluster.fly("frozen", range(12_500, 15_000))
    cluster.drain("frozen")
    assert windows(cluster.rows("out-frozen")) == hourly(range(15_000))


@pytest.mark.long
def test_a_driver_that_is_asked_to_stop_hands_over_before_it_ends(cluster: SparkCluster) -> None:
    job, unit = "asked", "spark-h-0"
    cluster.job(job, {"h": {"spark": "tests.support.heavy:hourly", "input": "flights"}}, scheme="hybrid")
    cluster.await_state(job, "running")
    cluster.fly(job, range(5_000))
    cluster.await_delivered(job)
    first = cluster.active(job, unit)
    asked = cluster.workers()[first]
    assert asked.pid is not None
    os.kill(asked.pid, signal.SIGTERM)  # to it alone: its JVM is needed until the end
    cluster.until(lambda: cluster.active(job, unit) != first, "another driver leads")
    cluster.until(lambda: cluster.workers()[first].incarnation != asked.incarnation, "it has ended")
    reasons = [one.detail for one in cluster.events("decided") if (one.job, one.unit) == (job, unit)]
    left = next(n for n, reason in enumerate(reasons) if "the worker of the primary is leaving" in reason)
    assert "it leads" in reasons[left + 1], reasons
    before = cluster.delivered(job)
    cluster.fly(job, range(5_000, 10_000))
    cluster.await_delivered(job, before)
    cluster.drain(job)
    assert windows(cluster.rows(f"out-{job}")) == hourly(range(10_000))


@pytest.mark.long
def test_behind_an_operator_spark_reads_exactly_once_rows_and_what_follows_it_need_not_know(
    cluster: SparkCluster,
) -> None:
    cluster.job(
        "between",
        {
            "some": {"filter": "delay > 50", "input": "flights"},
            "scored": {"spark": "tests.support.heavy:scored", "input": "some"},
            "sums": {"aggregate": {"total": "sum(score)", "n": "count()"}, "key": ["origin"], "input": "scored",
                     "window": {"size_s": 3600}},
        },
        horizon_s=0,
        idle_after_s=None,  # a driver may take longer than that to start
    )  # fmt: skip
    cluster.await_state("between", "running")
    cluster.fly("between", range(0, 6_000, 2))
    cluster.until(lambda: cluster.committed("between", "scored"), "one partition is a day ahead of the other")
    cluster.fly("between", range(1, 6_000, 2))
    cluster.await_delivered("between")
    cluster.await_trimmed(cluster.topics_of("between").rows("scored"), [0])
    cluster.kill("spark-1")
    cluster.fly("between", range(6_000, 12_000))
    cluster.drain("between")
    found = Counter((r["window_start"], r["origin"], r["n"], r["total"]) for r in cluster.rows("out-between"))
    kept = [one for one in map(flight, range(12_000)) if one["delay"] > 50]
    groups: dict[tuple[str, str], list[int]] = {}
    for one in kept:
        groups.setdefault((one["time"][:13], one["origin"]), []).append(one["delay"] ** 2)
    expected = Counter((f"{h}:00:00.000000Z", o, len(all), float(sum(all))) for (h, o), all in groups.items())
    assert found == expected


@pytest.mark.long
def test_records_that_are_no_rows_go_to_the_dead_letters_once_and_change_nothing(cluster: SparkCluster) -> None:
    cluster.job("bad-records", {"h": {"spark": "tests.support.heavy:hourly", "input": "flights"}})
    cluster.await_state("bad-records", "running")
    wrong = [b"nope", b'{"origin": "JFK"}', msgspec.json.encode(flight(1) | {"delay": "late"})]
    letters = cluster.letters_of("bad-records")
    cluster.append("in-bad-records", *wrong)
    cluster.fly("bad-records", range(2_000))
    cluster.until(lambda: len(list(cluster.log.scan(letters))) == 3, "dead letters are there")
    found = [dead_letters.decode(m.value() or b"") for m in cluster.log.scan(letters)]
    assert Counter(one.raw for one in found) == Counter(wrong)
    assert all(one.origin == "flights" and one.topic == "in-bad-records" and one.reason for one in found)
    cluster.drain("bad-records")
    assert windows(cluster.rows("out-bad-records")) == hourly(range(2_000))


@pytest.mark.long
def test_tasks_that_are_tried_again_double_nothing(cluster: SparkCluster, tmp_path: Path) -> None:
    operator = {
        "spark": "tests.support.heavy:failing_once",
        "input": "flights",
        "params": {"mark": str(tmp_path / "failed")},
    }
    cluster.job("retried", {"f": operator})
    cluster.await_state("retried", "running")
    cluster.fly("retried", range(30_000))
    cluster.drain("retried")
    assert list(tmp_path.glob("failed-*")), "no task failed"
    assert Counter(row["number"] for row in cluster.rows("out-retried")) == Counter(range(30_000))


LONG = "SELECT number, origin, delay / 2 AS half, time FROM input WHERE delay > 20"
"""Stateless: it runs in real-time mode."""


def long(numbers: range) -> Counter[tuple[Any, ...]]:
    found = (one for one in map(flight, numbers) if one["delay"] > 20)
    return Counter((one["number"], one["origin"], one["delay"] / 2, one["time"]) for one in found)


@pytest.mark.long
def test_real_time_rows_are_exact_while_the_driver_is_killed_and_a_drain_takes_all(cluster: SparkCluster) -> None:
    cluster.job("live", {"h": {"spark": {"sql": LONG}, "input": "flights"}}, horizon_s=0)
    cluster.await_state("live", "running")
    assert [one.mode for one in cluster.plan("live").spark] == ["real-time"]
    cluster.append("in-live", b"nope")
    for round in range(2):
        before = cluster.delivered("live")
        cluster.fly("live", range(round * 2_000, (round + 1) * 2_000))
        cluster.await_delivered("live", before)
        if round < 1:
            cluster.kill("spark-1")
    letters = cluster.letters_of("live")
    cluster.until(lambda: len(list(cluster.log.scan(letters))) == 1, "the dead letter is there")
    cluster.await_trimmed(cluster.topics_of("live").commits("h"), [1, 2])
    cluster.kill("spark-1")
    cluster.fly("live", range(4_000, 6_000))
    cluster.drain("live")
    found = Counter((one["number"], one["origin"], one["half"], one["time"]) for one in cluster.rows("out-live"))
    assert found == long(range(6_000))


def test_a_function_that_is_no_operator_is_rejected_with_sparks_reason(cluster: SparkCluster) -> None:
    """Other reasons: in_spark/test_stateful.py, without a process for each."""
    cluster.job("bad", {"h": {"spark": "tests.support.heavy:unsupported", "input": "flights"}})
    (problem,) = cluster.until(lambda: cluster.decided("bad", Rejection), "it is rejected").problems
    assert problem.path == "operators.h.spark"
    assert "not supported for streaming aggregations without watermark" in problem.message
