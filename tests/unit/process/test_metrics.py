"""Metrics of every process: the page lists them all, a scrape gives them, and no two processes want one port."""

from __future__ import annotations

import re
import threading
import urllib.request
from collections.abc import Collection
from functools import partial
from pathlib import Path
from queue import Queue

import pytest

from holdfast.schemas.assignments import unit_key
from holdfast.schemas.costs import Costs, TentativeCounts
from holdfast.schemas.heartbeats import CopyState
from holdfast.schemas.plans import Status
from holdfast.schemas.savepoints import Start
from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.controller.core.controller import Controller
from holdfast.services.controller.core.job import Job
from holdfast.services.controller.core.life import Life, Phase
from holdfast.services.controller.meters import OF_CONTROLLER, of_jobs
from holdfast.services.hosting.lags import Taken, of_lags
from holdfast.services.hosting.metrics import OF_COPIES, of_copies
from holdfast.services.kernel.errors import Retriable
from holdfast.services.log.memory import MemoryLog
from holdfast.services.node.machine.metrics_ports import MetricsPorts
from holdfast.services.node.machine.ports import choose_pair
from holdfast.services.node.settings import Settings
from holdfast.services.node.supervisor import Supervisor
from holdfast.services.process.metrics import OF_PROCESSES, Metric, Sample, of_process, of_refusals
from holdfast.services.process.metrics_server import registry_of, serve
from holdfast.services.process.repeated_question import RepeatedQuestion
from holdfast.services.recovery.meters import OF_RECOVERY

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"
BY_PROCESS = {
    "all": OF_PROCESSES,
    "worker, driver": OF_COPIES,
    "controller": OF_CONTROLLER,
    "recovery": OF_RECOVERY,
}
UNIT = unit_key("flights", "1-aaaaaa", "late-0")


def row(metric: Metric) -> str:
    processes = ", ".join(process for process, metrics in BY_PROCESS.items() if metric in metrics)
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {labels} | {processes} | {metric.about} |"


def test_the_page_lists_every_metric() -> None:
    declared = {row(metric): None for metrics in BY_PROCESS.values() for metric in metrics}
    listed = [line for line in PAGE.read_text().splitlines() if line.startswith("| `holdfast_")]
    assert listed == list(declared)


def test_names_follow_the_rules_of_prometheus() -> None:
    """Those that `promtool check metrics` looks at."""
    for metric in {metric for metrics in BY_PROCESS.values() for metric in metrics}:
        words = metric.name.split("_")
        assert re.fullmatch(r"holdfast(_[a-z]+)+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert words[-1] not in ("count", "sum", "bucket"), "those belong to histograms"
        assert not {"counter", "gauge", "histogram", "metric"} & set(words[1:-1])
        assert not set(words) & {"ms", "s", "sec", "millis", "milliseconds", "kb", "mb", "kib", "mib", "pct", "percent"}
        assert metric.about.strip()
        assert not metric.about.endswith(".")


def copies() -> tuple[CopyState, ...]:
    return (CopyState(UNIT, 1, "running", batch=7, durable=5),)


def costs(units: Collection[str], leads: bool = True) -> tuple[Costs, ...]:
    assert list(units) == [UNIT]
    return (
        Costs(
            UNIT, {"flights": (5, 50)}, {"late.0": 4}, cpu_ms=1_500, state_keys=3, deploy_ms=250.0, leads=leads,
            records=9, late=1, dead=2, lost=3, transactions=4, transaction_ms=2_000, transaction_cpu_ms=500, aborted=1,
            sink_bytes={"sink-out": 70}, restore_cpu_ms=125.0, tentative={"q": TentativeCounts(6, 3, 1, 2)},
        ),
    )  # fmt: skip


def scraped(port: int) -> list[str]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        found: str = answer.read().decode()
    return [line for line in found.splitlines() if not line.startswith("#")]


def test_a_scrape_says_what_the_process_and_its_copies_do() -> None:
    port = choose_pair()
    refusals = of_refusals(lambda: {"t.events": 2})
    serve(registry_of(of_process("w1", "worker"), of_copies(copies, costs), refusals), port, "127.0.0.1")
    lines = scraped(port)
    of_unit = 'generation="1-aaaaaa",job="flights",unit="late-0"'
    assert 'holdfast_process_info{kind="worker",name="w1"} 1.0' in lines
    assert 'holdfast_copies{state="running"} 1.0' in lines
    assert f"holdfast_unit_cpu_seconds_total{{{of_unit}}} 1.5" in lines
    assert 'holdfast_refused_records_total{topic="t.events"} 2.0' in lines
    of_phase = 'generation="1-aaaaaa",job="flights",phase="deploy",unit="late-0"'
    assert f"holdfast_unit_phase_seconds{{{of_phase}}} 0.25" in lines
    assert not any("checkpoint_age" in line for line in lines), "not known yet"
    assert sum("holdfast_edge_records_total" in line for line in lines) == 2
    for name, value in {
        "job_records_total": 9, "job_late_rows_total": 1, "job_dead_letters_total": 2, "job_lost_records_total": 3,
        "unit_transactions_total": 4, "unit_transaction_seconds_total": 2, "unit_transaction_cpu_seconds_total": 0.5,
        "unit_aborted_transactions_total": 1, "unit_restore_cpu_seconds": 0.125,
    }.items():  # fmt: skip
        assert f"holdfast_{name}{{{of_unit}}} {float(value)}" in lines
    of_query = 'job="flights",query="q",unit="late-0"'
    for name, how, value in (
        ("rows_total", "", 6), ("rows_open", "", 2),
        ("rows_closed_total", 'how="replaced",', 3), ("rows_closed_total", 'how="withdrawn",', 1),
    ):  # fmt: skip
        assert f'holdfast_tentative_{name}{{generation="1-aaaaaa",{how}{of_query}}} {float(value)}' in lines
    assert 'holdfast_sink_bytes_total{generation="1-aaaaaa",job="flights",sink="sink-out",unit="late-0"} 70.0' in lines


def test_only_the_leader_counts_for_its_job() -> None:
    """A standby has counted the same records: a sum over the cluster would have them twice."""
    names = {sample.metric.name for sample in of_copies(copies, partial(costs, leads=False))()}
    assert "holdfast_unit_records_total" in names
    assert not any(name.startswith("holdfast_job_") for name in names)
    assert "holdfast_tentative_rows_open" not in names


def test_a_scrape_says_how_far_a_job_is_behind_the_end_of_its_topics() -> None:
    log = MemoryLog(lambda: 0)
    log.create([TopicSpec("flights", 2)])
    for index in (0, 1, 1, 1):
        log.appender("test").append(Partition("flights", index), b"{}")
    taken = [Taken(UNIT, "flights", "flights", {0: 1, 1: 1}), Taken(UNIT, "gone", "no-such-topic", {0: 0})]
    (lag,) = of_lags(log, lambda: taken)()
    assert (lag.labels, lag.value) == (("flights", "1-aaaaaa", "late-0", "flights", "flights"), 2)


def test_a_scrape_waits_no_longer_for_kafka_than_a_prometheus_does_for_it() -> None:
    answers: Queue[int] = Queue()
    asking = RepeatedQuestion(answers.get, wait_s=0.01)
    for _ in range(3):
        with pytest.raises(Retriable, match="not answered within"):
            asking.get()
    answers.put(7)
    patient = RepeatedQuestion(lambda: 8, wait_s=60)
    assert patient.get() == 8
    assert sum(thread.name == "asking" for thread in threading.enumerate()) <= 1, "one question is under way at most"


def test_a_controller_says_which_jobs_there_are_and_in_which_state() -> None:
    core = Controller("c", 100)
    assert list(of_jobs(core)()) == []
    core.jobs["1-aaaaaa"] = Job("1-aaaaaa", "flights", units={UNIT: "late-0"}, life=Life("", Phase.RUNNING))
    core.jobs["0-bbbbbb"] = Job("0-bbbbbb", "old", life=Life("", Phase.ENDED))
    found = {(one.metric.name, *one.labels): one.value for one in of_jobs(core)()}
    assert found == {
        ("holdfast_jobs", "running"): 1,
        ("holdfast_jobs", "ended"): 1,
        ("holdfast_job_state", "flights", "1-aaaaaa", "running"): 1,
        ("holdfast_job_units", "flights", "1-aaaaaa"): 1,
        ("holdfast_job_units_running", "flights", "1-aaaaaa"): 0,
    }
    core.jobs["1-aaaaaa"].published = Status(job="flights", generation="1-aaaaaa", state="failed", time_ms=1)
    assert ("holdfast_job_state", ("flights", "1-aaaaaa", "failed")) in {
        (one.metric.name, one.labels) for one in of_jobs(core)()
    }


def test_nothing_is_missing_of_a_job_that_stands_by() -> None:
    core = Controller("c", 100)
    waits = Start("topic", "id", replaces="0-bbbbbb", waits=True)
    core.jobs["1-aaaaaa"] = Job(
        "1-aaaaaa", "flights", start=waits, units={UNIT: "late-0"}, life=Life("", Phase.RUNNING)
    )
    assert {one.metric.name for one in of_jobs(core)()} == {"holdfast_jobs", "holdfast_job_state"}


def test_a_port_that_is_taken_is_no_reason_to_stop() -> None:
    port, registry = choose_pair(), registry_of()
    serve(registry, port, "127.0.0.1")
    serve(registry, port, "127.0.0.1")


def test_each_process_has_a_port_of_its_own_and_keeps_it() -> None:
    ports = MetricsPorts(9100, "127.0.0.1", ["recovery-1", "recovery-2"])
    names = ["controller", "worker-1", "recovery-1", "worker-1", "spark-1"]
    found = [ports.environment(name)["HOLDFAST_METRICS_PORT"] for name in names]
    assert found == ["9102", "9103", "9100", "9103", "9104"]
    assert ports.where["worker-1"] == "http://127.0.0.1:9103/metrics"
    assert ports.targets[0].targets == ("127.0.0.1:9100",)


def test_without_a_port_nobody_serves_metrics() -> None:
    ports = MetricsPorts(0, "127.0.0.1", ["recovery-1"])
    assert ports.environment("worker-1")["HOLDFAST_METRICS_PORT"] == "0"
    assert (ports.where, ports.targets) == ({}, [])


@pytest.fixture
def supervisor(tmp_path: Path) -> Supervisor:
    return Supervisor(Settings(home=tmp_path, recoveries=2, metrics_port=9100), workers=2)


def test_a_cluster_says_where_its_metrics_are(supervisor: Supervisor) -> None:
    where = supervisor.cluster.metrics
    assert list(where) == ["recovery-1", "recovery-2", "controller", "worker-1", "worker-2"]
    assert len(set(where.values())) == 5
    said = {member.name: member._environment("run")["HOLDFAST_METRICS_PORT"] for member in supervisor.members}
    assert {name: url.split(":")[2].split("/")[0] for name, url in where.items()} == said


def test_a_sample_names_every_label() -> None:
    metric = Metric("holdfast_x", "gauge", ("a",), "")
    assert metric.of(1, "b") == Sample(metric, ("b",), 1)
    with pytest.raises(AssertionError):
        metric.of(1)
