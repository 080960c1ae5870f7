"""The bench of containers, as far as it goes without an engine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.compose import command
from bench.compose.bystander import longest
from bench.compose.command import SOAK_EVERY_S, main
from bench.compose.held import BOUNDS_MIB, above_bounds, by_topic, growth, peaks, processes
from bench.compose.loaded import OF_WORKERS, WHOM, Silence, clock, failed, worst, worst_fed
from bench.compose.project import BROKERS, COMPOSE, Project
from bench.compose.strikes import STRIKES
from bench.rig.figures import Figures
from bench.rig.followed import Followed, MeasureFailed, Refused
from holdfast.schemas import plans
from holdfast.schemas.decided import Id
from holdfast.schemas.events import Event
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.log.memory import MemoryLog


@pytest.mark.parametrize("file", ["compose.yaml", "compose.small.yaml", "compose.secure.yaml"])
def test_a_project_has_ports_of_its_own_for_every_broker_of_a_file(file: str, tmp_path: Path) -> None:
    project = Project(tmp_path, file)
    named = set(re.findall(r"HOLDFAST_KAFKA_PORT(?:_[0-9])?", (COMPOSE / file).read_text()))
    ports = [int(project.environment[name]) for name in named]
    assert len(set(ports)) == len(named) == (1 if "small" in file else BROKERS)
    assert not {29_092, 29_093, 29_094} & set(ports), "those of somebody's own cluster"
    assert project.secret.stat().st_mode & 0o077 == 0


def test_every_strike_of_a_soak_is_known_and_a_full_disk_is_none_of_them() -> None:
    drawn = {name for names in (*WHOM.values(), OF_WORKERS) for name in names}
    assert drawn == STRIKES.keys() - {"full-disk"}, "the volumes of compose.yaml have no bound of their own"
    assert SOAK_EVERY_S > 0


def test_the_worst_silence_is_that_of_results_beside_that_of_what_was_fed() -> None:
    silences = [Silence("worker-1 restarts", 120.0, 6.0), Silence("worker-2 restarts", 80.0, 11.0)]
    assert (worst(silences), worst_fed(silences)) == (120.0, 11.0)
    assert str(silences[0]) == "worker-1 restarts: longest silence of results 120 ms, of what was fed 6 ms"
    assert (worst([]), worst_fed([])) == (0.0, 0.0)


def test_without_an_engine_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("bench.compose.command.no_engine", lambda: "there is no docker command")
    assert main([]) == 1
    assert "error: there is no docker command" in capsys.readouterr().err


def test_a_container_counts_as_struck_when_the_engine_has_sent_the_signal() -> None:
    class Engine:
        def container(self, service: str) -> str:
            return f"{service}-1"

        def docker(self, *words: str) -> str:
            return "1795512336031000000\n" if words[0] == "events" and "container=worker-1-1" in words else ""

    at_s = STRIKES["container"].strike(Engine(), "worker-1")  # type: ignore[arg-type]
    assert at_s == pytest.approx(1_795_512_336.031, abs=1e-4)


TOP = """PID RSS COMMAND
100 30720 /opt/holdfast/bin/python /opt/holdfast/bin/holdfast serve worker
101 204800 /opt/holdfast/bin/python -m holdfast.services.worker.process.main --worker w1-worker-1
102 8000 python3.11 -I -S /opt/healthcheck.py
"""


def test_memory_is_of_each_kind_of_process_and_of_none_that_comes_and_goes() -> None:
    assert processes("worker-2", TOP) == {"worker, its parent": 30.0, "worker, worker.process.main": 200.0}
    assert processes("kafka-1", "PID RSS COMMAND\n7 409600 /opt/java/openjdk/bin/java -Xmx512m kafka.Kafka") == {
        "kafka": 400.0
    }


def test_growth_compares_the_most_of_the_first_five_minutes_with_the_most_after_them() -> None:
    samples = [(20.0, {"a": 90.0, "b": 1.0}), (300.0, {"a": 100.0}), (320.0, {"a": 95.0}), (900.0, {"a": 111.0})]
    assert growth(samples) == {"a": (100.0, 111.0)}, "b was not seen later"
    assert growth(samples[:2]) == {}


def test_bytes_of_a_topic_are_those_of_all_its_partitions() -> None:
    folders = {"holdfast.bench-rolling.12-0a1b2c.data.count.0-0": 512, "holdfast.bench-rolling.12-0a1b2c.cuts-0": 1024}
    folders |= {"__transaction_state-0": 2048, "__transaction_state-11": 2048, "holdfast.heartbeats-0": 1024}
    du = (
        "".join(f"{kib}\t/var/lib/kafka/data/{name}\n" for name, kib in folders.items()) + "9000\t/var/lib/kafka/data\n"
    )
    found = by_topic(du)
    assert found == {"data.count.0": 0.5, "cuts": 1.0, "__transaction_state": 4.0, "holdfast.heartbeats": 1.0}
    assert peaks([(0.0, found), (1.0, {"cuts": 3.0})]) == found | {"cuts": 3.0}


def test_every_topic_of_ours_has_a_bound() -> None:
    ours = ClusterTopics()
    job = ours.job("visits", "12-0a1b2c")
    names = [spec.name for spec in ours.specs()] + ["cuts", "checkpoints", "progress", "delivered", "dead-letters"]
    assert job.progress.endswith(".progress")
    assert above_bounds({name: 1000.0 for name in names}) == names
    assert above_bounds({name: 0.1 for name in names}) == []
    assert above_bounds({"data.count.0": BOUNDS_MIB["data"] + 1, "bench-rolling": 1e6}) == ["data.count.0"]


def test_a_silence_reaches_to_both_ends() -> None:
    assert longest([10.0, 30.0, 95.0], 20.0, 100.0) == 65.0
    assert longest([], 20.0, 100.0) == 80.0


def test_a_switch_for_a_failure_is_told_from_a_move() -> None:
    assert failed(Event(1, "decided", "j", detail="hybrid: the primary is silent: no heartbeat (w2 commits)"))
    assert not failed(Event(1, "decided", "j", detail="hybrid: the worker of the primary is leaving: w1 (w2 commits)"))
    assert not failed(Event(1, "unit-active", "j", detail="hybrid: the primary is silent: "))


def test_the_duration_of_a_soak_is_given_with_its_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.compose.command.no_engine", lambda: "there is no docker command")
    assert main(["--soak", "30m"]) == 1
    with pytest.raises(SystemExit):
        main(["--soak", "30"])
    assert (clock(90.4), clock(1800.0)) == ("1:30", "30:00")


def test_rows_are_compared_although_a_strike_does_not_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    """The failure is what the command ends with; the rows that were delivered before it are judged."""

    def does_not_mend(*_: object) -> None:
        raise MeasureFailed("units without protection: count-0")

    monkeypatch.setattr(command, "_first_result", lambda *_: None)
    monkeypatch.setattr(command, "_under_load", does_not_mend)
    monkeypatch.setattr(command, "rows", lambda *_: {"rows": 7, "lost": 0})
    found: Figures = {}
    with pytest.raises(MeasureFailed, match="count-0"):
        command._measure(None, command._options(["--soak", "30m"]), found)  # type: ignore[arg-type]
    assert found == {"rows": 7, "lost": 0}


def test_a_wait_that_runs_out_says_how_things_are_then() -> None:
    log = MemoryLog(lambda: 0)
    log.create(ClusterTopics().specs())
    seen: list[int] = []

    def reached() -> bool:
        seen.append(1)
        return False

    job = Followed(log, log.reader("test"), ClusterTopics(), "visits")
    with pytest.raises(MeasureFailed, match=r"looked at [1-9][0-9]* times after 0 s"):
        job.until(reached, lambda: f"looked at {len(seen)} times", 0.0)


def test_running_containers_are_known_by_their_services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project(tmp_path, "compose.yaml")
    asked: list[tuple[str, ...]] = []

    def docker(*words: str) -> str:
        asked.append(words)
        return "worker-1 0a1b\nkafka-1 2c3d\n"

    monkeypatch.setattr(project, "docker", docker)
    assert project.running() == {"kafka-1": "2c3d", "worker-1": "0a1b"}
    assert f"label=com.docker.compose.project={project.name}" in asked[0], "of this project alone"


def test_a_controllers_snapshot_among_the_decisions_ends_no_measure() -> None:
    log = MemoryLog(lambda: 0)
    log.create(ClusterTopics().specs())
    job = Followed(log, log.reader("test"), ClusterTopics(), "visits")
    appender = log.appender("test")
    snapshot = plans.Snapshot(upto=0, submit=0, decisions=(), commands=())
    refused = plans.Rejection("visits", "1-0a1b2c", Id("c", 1), ())
    for record in (snapshot, refused):
        appender.append(Partition(ClusterTopics().plans, 0), plans.encode(record))
    with pytest.raises(Refused):
        job.await_admission()
