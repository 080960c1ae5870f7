"""A supervisor of one service, as the first process of a container."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import structs

from holdfast.schemas import heartbeats, plans
from holdfast.schemas.heartbeats import Heartbeat
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.log.memory import MemoryLog
from holdfast.services.node import single_service
from holdfast.services.node.lineup import FAREWELL_S
from holdfast.services.node.machine.artifacts import read_set
from holdfast.services.node.members.clashes import Neighbours
from holdfast.services.node.members.members import STOP_S
from holdfast.services.node.members.naming import Naming
from holdfast.services.node.members.readiness import Readiness
from holdfast.services.node.members.service import Service
from holdfast.services.node.members.spark_demand import SparkDemand
from holdfast.services.node.members.spark_drivers import AFTER_S, SparkDrivers
from holdfast.services.node.settings import Settings
from holdfast.services.node.start import Stopped
from holdfast.services.node.supervisor import YIELD_S, Supervisor
from tests.unit.planning.jobs import job, plan

TOPICS = ClusterTopics()


def serving_one(service: Service, home: Path, **given: object) -> Supervisor:
    settings = {"home": home, "kafka": "k:1", "host": "a", "metrics_port": 9100, **given}
    return Supervisor(Settings(**settings), workers=0, service=service)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("service", "names"),
    [
        (Service.WORKER, ["a-worker-1"]),
        (Service.CONTROLLER, ["a-controller"]),
        (Service.RECOVERY, ["a-recovery-1"]),
        (Service.SPARK, []),
    ],
)
def test_a_service_runs_alone_and_logs_where_its_parent_does(
    service: Service, names: list[str], tmp_path: Path
) -> None:
    members = serving_one(service, tmp_path).members
    assert [member.name for member in members] == names
    assert [member.log for member in members] == [None] * len(names)


def test_a_parent_loads_no_library_that_computes() -> None:
    """It starts beside workers that lead, and loading takes a core from them."""
    script = "import holdfast.services.node.single_service, sys; "
    script += "sys.exit(bool({'polars', 'pyarrow', 'numpy'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize("service", [Service.WORKER, Service.CONTROLLER, Service.RECOVERY])
def test_every_service_has_the_port_that_the_settings_name(service: Service, tmp_path: Path) -> None:
    where = serving_one(service, tmp_path, metrics_address="0.0.0.0").cluster.metrics
    assert list(where.values()) == ["http://0.0.0.0:9100/metrics"]


def test_a_served_worker_hands_over_when_it_is_to_stop_and_one_of_a_whole_cluster_does_not(tmp_path: Path) -> None:
    (served,) = serving_one(Service.WORKER, tmp_path, leave_s=20).workers
    assert (served.ends_by, served.stop_s, served.rest_s) == (signal.SIGTERM, 20 + FAREWELL_S, YIELD_S)
    assert served.hands_over
    assert served.dying is not None
    (whole,) = Supervisor(Settings(home=tmp_path, kafka="k:1"), workers=1).workers
    assert (whole.ends_by, whole.hands_over) == (signal.SIGINT, False)


@pytest.mark.parametrize(("service", "stop_s"), [(Service.SPARK, 20 + FAREWELL_S), (None, STOP_S)])
def test_a_served_driver_hands_over_as_a_worker_does(
    service: Service | None, stop_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Demand:
        def drivers(self) -> int:
            return 1

    monkeypatch.setattr("holdfast.services.node.members.spark_drivers.ensure", read_set)
    settings = Settings(home=tmp_path, kafka="k:1", leave_s=20)
    supervisor = Supervisor(settings, workers=0, service=service)
    supervisor._drivers.follow(Demand())  # type: ignore[arg-type]
    supervisor._drivers.provide()
    (driver,) = supervisor._drivers.members
    assert (driver.stop_s, driver.hands_over) == (stop_s, service is not None)
    assert driver.ends_by == (signal.SIGINT if service is None else signal.SIGTERM)


def test_a_supervisor_without_a_controller_asks_none_and_waits_for_none() -> None:
    log = MemoryLog(lambda: 0)
    log.create(TOPICS.specs())
    readiness = Readiness(log, TOPICS, "", Neighbours(Naming("a"), "m:/x#1"))
    submit, beats = Partition(TOPICS.submit, 0), Partition(TOPICS.heartbeats, 0)
    assert log.offsets([submit], "end") == {submit: 0}
    assert readiness.reached(set())
    assert readiness.missing({"a-worker-1"}) == ["a-worker-1"]
    appender = log.appender("worker")
    appender.append(beats, heartbeats.encode(Heartbeat("a-worker-1", "1", 1)))
    appender.flush(1.0)
    readiness.poll(0)
    assert readiness.reached({"a-worker-1"})


def test_a_container_runs_one_driver_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (len(drivers_for(monkeypatch, None).members), len(drivers_for(monkeypatch, 1).members)) == (2, 1)


def test_a_standby_driver_starts_when_the_job_runs_or_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    for ready in ("runs", "late"):
        starting = [True]
        drivers = drivers_for(monkeypatch, None, starting)
        drivers.provide()
        assert len(drivers.members) == 1
        if ready == "runs":
            starting[0] = False
        else:
            drivers._first_s -= AFTER_S
        drivers._look_s = 0.0
        drivers.provide()
        assert len(drivers.members) == 2


def drivers_for(monkeypatch: pytest.MonkeyPatch, most: int | None, starting: list[bool] | None = None) -> SparkDrivers:
    """For a job that needs two."""

    class Demand:
        def drivers(self) -> int:
            return 2

        def starting(self) -> bool:
            return any(starting or [])

    monkeypatch.setattr("holdfast.services.node.members.spark_drivers.ensure", lambda name: None)
    drivers = SparkDrivers(lambda number, jars: number, lambda: None, most)  # type: ignore[arg-type, return-value]
    drivers.follow(Demand())  # type: ignore[arg-type]
    drivers.provide()
    return drivers


def test_a_driver_is_asked_for_by_plans_and_its_job_starts_until_it_has_run() -> None:
    log = MemoryLog(lambda: 0)
    log.create(TOPICS.specs())
    made = plan(job())
    hosted = structs.replace(made.units[0], name="spark-h", host="spark", scheme="hybrid", partition=1)
    made = structs.replace(made, units=(*made.units, hosted))
    demand, appender = SparkDemand(log, TOPICS), log.appender("controller")
    assert (demand.drivers(), demand.starting()) == (0, False)
    appender.append(Partition(TOPICS.plans, 0), plans.encode(made))
    appender.flush(1.0)
    assert (demand.drivers(), demand.starting()) == (2, True)
    for state, starts in (("starting", True), ("running", False)):
        said = plans.Status(made.job, made.generation, state, 0)
        appender.append(Partition(TOPICS.status, 0), plans.encode(said), key=b"j")
        appender.flush(1.0)
        assert (demand.drivers(), demand.starting()) == (2, starts)


def test_serve_waits_for_kafka_until_it_is_to_stop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    supervisor = serving_one(Service.WORKER, tmp_path)
    asked: list[int] = []

    def unreached() -> str:
        asked.append(1)
        if len(asked) == 3:
            supervisor.ask_to_stop()
        return "nobody is there"

    with pytest.raises(Stopped):
        single_service._await(unreached, supervisor)
    assert capsys.readouterr().err.count("waits: nobody is there") == 1


def test_serve_continues_once_kafka_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(single_service, "LOOK_AGAIN_S", 0.0)
    reasons = ["not yet", "not yet", ""]
    single_service._await(lambda: reasons.pop(0), serving_one(Service.WORKER, tmp_path))
    assert reasons == []


def test_the_output_of_a_child_without_a_log_is_that_of_its_parent() -> None:
    script = (
        "from holdfast.services.node.machine.processes import Child\n"
        "Child(('sh', '-c', 'echo said; echo told >&2'), log=None).wait(300)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300)
    assert (done.stdout, done.stderr) == ("said\n", "told\n")
