"""The controller process on a real broker: jobs are decided, run and taken down by records alone."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from holdfast.schemas import assignments, cuts, heartbeats, plans, progress
from holdfast.schemas.assignments import Change
from holdfast.schemas.cuts import Control, CutRecord
from holdfast.schemas.heartbeats import CopyState, Heartbeat
from holdfast.schemas.plans import Decision, Ended, Plan, Rejection, Status
from holdfast.schemas.progress import Progress
from holdfast.schemas.topics import ClusterTopics, JobTopics, Partition, TopicSpec
from holdfast.services.controller.__main__ import HISTORY_MS
from holdfast.services.decisions.admitted import Admitted
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.kernel.versions import versions
from holdfast.services.log.kafka.log import KafkaLog
from holdfast.services.log.protocol import Message

pytestmark = [pytest.mark.kafka, pytest.mark.session_broker]

DEADLINE_S = 120.0
AT_ONCE_S = 5.0
TRIES = 4
"""A busy machine may hold up any one end of a process. One that ignores the signal is never quick: one quick end is
proof."""
BEAT_S = 0.1


class Site:
    """Controllers of one cluster, a recovery replica, and a worker that is nothing but heartbeats."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.cluster = ClusterTopics(f"site{secrets.token_hex(3)}")
        self.input, self.output = f"{self.cluster.prefix}-in", f"{self.cluster.prefix}-out"
        self._servers = bootstrap_servers
        self.log = KafkaLog(bootstrap_servers, None, "test")
        self.log.create([*self.cluster.specs(), TopicSpec(self.input, 2), TopicSpec(self.output)])
        self._appender = self.log.appender("test")
        self._reader = self.log.reader("test")
        self._reader.assign(
            {Partition(name, 0): 0 for name in (self.cluster.plans, self.cluster.assignments, self.cluster.status)}
        )
        self._admitted, self.assigned = Admitted(), Assigned()
        self.decisions: list[Decision] = []
        self.changes: list[Change] = []
        self.statuses: list[Status] = []
        self.controls: list[CutRecord] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        self.incarnation = "1"
        self.beating = True
        self._beat_at_s = 0.0

    def start_controller(self, *program: str) -> subprocess.Popen[bytes]:
        """program: in place of the controller's. The first controller comes with the recovery replica."""
        if not self.processes:
            self._start("-m", "holdfast.services.recovery")
        return self._start(*(program or ("-m", "holdfast.services.controller")))

    def _start(self, *program: str) -> subprocess.Popen[bytes]:
        settings = {"HOLDFAST_KAFKA": self._servers, "HOLDFAST_CLUSTER": self.cluster.prefix}
        process = subprocess.Popen([sys.executable, *program], env={**os.environ, **settings})
        self.processes.append(process)
        return process

    def job(self, **more: Any) -> dict[str, Any]:
        return {
            "name": "job",
            "sources": {"s": {"topic": self.input, "fields": {"x": "int"}, "parallelism": 2}},
            "operators": {"n": {"aggregate": {"n": "count()"}, "key": ["x"], "input": "s", "emit": "updates"}},
            "queries": {"q": {"input": "n", "sink": {"topic": self.output}}},
            "fault_tolerance": {"default": {"scheme": "none"}},
            **more,
        }

    def append(
        self, topic: str, value: object, partition: int = 0, key: bytes | None = None, time_ms: int | None = None
    ) -> None:
        data = value if isinstance(value, bytes) else msgspec.json.encode(value)
        self._appender.append(Partition(topic, partition), data, key=key, timestamp_ms=time_ms)
        self._appender.flush(DEADLINE_S)

    def submit(self, record: object) -> None:
        self.append(self.cluster.submit, record)

    def until(self, condition: Callable[[], bool]) -> None:
        """Reads and beats until the condition holds; fails with what was read when it never does."""
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline, (self.decisions, self.changes, self.statuses)
            self._beat()
            for chunk in self._reader.poll(0.02):
                for message in chunk.messages:
                    self._read(chunk.partition.topic, message)

    def watch(self, topic: str) -> None:
        self._reader.assign({Partition(topic, 0): 0})

    def until_state(self, state: str) -> Status:
        self.until(lambda: bool(self.statuses) and self.statuses[-1].state == state)
        return self.statuses[-1]

    def until_available(self, units: int) -> None:
        """It runs: one status says both, whatever later ones say of a worker that is not heard for a while."""
        self.until(lambda: any((one.state, one.available) == ("running", units) for one in self.statuses))

    def until_ended(self) -> None:
        """What lies in other topics may be read later than the status that follows from it."""
        self.until_state("ended")
        self.until(lambda: any(isinstance(one, Ended) for one in self.decisions))
        self.until(lambda: not any(change.copies for change in self.assigned.units().values()))

    def _read(self, topic: str, message: Message) -> None:
        value = message.value() or b""
        if topic == self.cluster.plans:
            decision = plans.decode(value)
            self.decisions += [decision] if self._admitted.read(decision) else []
        elif topic == self.cluster.assignments:
            self.changes += self.assigned.read(assignments.decode(value))
        elif topic.endswith(".cuts"):
            self.controls.append(cuts.decode(value))
        else:
            self.statuses.append(plans.decode_status(value))

    def _beat(self) -> None:
        if not self.beating or time.monotonic() < self._beat_at_s:
            return
        self._beat_at_s = time.monotonic() + BEAT_S
        beat = Heartbeat(
            worker="w",
            incarnation=self.incarnation,
            time_ms=int(time.time() * 1000),
            slots=8,
            versions=versions(),
            copies=tuple(
                CopyState(unit, change.epoch, "running")
                for unit, change in self.assigned.of_incarnation("w", self.incarnation).items()
            ),
        )
        self.append(self.cluster.heartbeats, heartbeats.encode(beat))

    @property
    def plan(self) -> Plan:
        return next(decision for decision in self.decisions if isinstance(decision, Plan))

    @property
    def names(self) -> JobTopics:
        return self.cluster.job("job", self.plan.generation)

    def job_topics(self) -> set[str]:
        return {name for name in self.log.topics() if name.startswith(f"{self.cluster.prefix}.job.")}

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        self._reader.close()
        self._appender.close()
        self.log.close()


@pytest.fixture
def site(kafka: str) -> Iterator[Site]:
    site = Site(kafka)
    yield site
    site.close()


def test_a_job_submitted_as_a_record_runs_and_cancelled_leaves_nothing_behind(site: Site) -> None:
    site.start_controller()
    site.submit(site.job())
    site.until_available(4)
    assert [change.unit.split("/")[1] for change in site.changes] == ["s-0", "s-1", "n-0", "n-1"]
    assert site.job_topics() == {
        f"{site.names.root}.{kind}"
        for kind in ("cuts", "checkpoints", "progress", "delivered", "dead-letters", "data.s.0")
    }
    assert site.log.topics()[site.names.checkpoints] == 4
    site.submit({"command": "cancel", "job": "job"})
    site.until_ended()
    assert [type(decision) for decision in site.decisions] == [Plan, Ended]
    assert site.job_topics() == set()


def test_a_controller_that_starts_begins_with_recent_heartbeats(site: Site) -> None:
    """An older one would make the worker that lives a former incarnation."""
    long_ago_ms = int(time.time() * 1000) - 5 * HISTORY_MS
    former = heartbeats.encode(Heartbeat("w", "9", long_ago_ms))
    site.append(site.cluster.heartbeats, former, time_ms=long_ago_ms)
    site.start_controller()
    site.submit(site.job())
    site.until_available(4)


def test_a_bad_job_is_answered_with_every_problem(site: Site) -> None:
    site.start_controller()
    site.submit(site.job(sources={"s": {"topic": "gone", "fields": {"x": "int"}}}, queries={
        "q": {"input": "n", "sink": {"topic": "none"}}}))  # fmt: skip
    status = site.until_state("rejected")
    site.until(lambda: bool(site.decisions))
    (rejection,) = site.decisions
    assert isinstance(rejection, Rejection)
    assert [problem.path for problem in rejection.problems] == ["sources.s.topic", "queries.q.sink.topic"]
    assert status.problems == rejection.problems


def test_drain_pins_the_ends_and_the_job_ends_when_every_unit_has_run_out(site: Site) -> None:
    site.start_controller()
    for number in range(3):
        site.append(site.input, {"x": number}, partition=1)
    site.submit(site.job())
    site.until_state("running")
    site.submit({"command": "drain", "job": "job"})
    site.until_state("draining")
    site.watch(site.names.cuts)
    site.until(lambda: bool(site.controls))
    assert site.controls[0] == Control("drain", 1, {"s-0": {0: 0}, "s-1": {1: 3}})
    for unit in site.plan.units:
        record = progress.encode(Progress(unit.name, 1, 1, ended=True))
        site.append(site.names.progress, record, key=unit.name.encode())
    site.until_state("ended")
    assert site.job_topics() == set()


def test_a_controller_killed_at_work_is_followed_by_one_that_finishes_it(site: Site) -> None:
    first = site.start_controller()
    site.submit(site.job())
    site.until_state("running")
    first.kill()
    first.wait()
    site.submit({"command": "cancel", "job": "job"})
    site.incarnation = "2"
    site.start_controller()
    site.until_ended()
    assert [type(decision) for decision in site.decisions] == [Plan, Ended]
    assert site.job_topics() == set()


def test_two_controllers_make_one_plan_and_give_a_returning_worker_its_units_once(site: Site) -> None:
    for _ in range(2):
        site.start_controller()
    site.submit(site.job())
    site.until_state("running")
    site.incarnation = "2"
    site.until(lambda: len(site.assigned.of_incarnation("w", "2")) == 4)
    site.submit({"command": "cancel", "job": "job"})
    site.until_ended()
    assert [type(decision) for decision in site.decisions] == [Plan, Ended]
    assert [change.epoch for change in site.changes] == [1] * 4 + [2] * 4 + [3] * 4
    site.until(lambda: not site.job_topics())  # the slower of the two may have created them once more


DEFECT = """
from holdfast.services.controller.__main__ import main
from holdfast.services.controller.conductor import Conductor

def defect(*_):
    raise KeyError("a defect")

Conductor.{method} = defect
raise SystemExit(main())
"""


@pytest.mark.parametrize(
    "method", ["feed", *(pytest.param(one, marks=pytest.mark.long) for one in ("tick", "carry_out"))]
)
def test_a_defect_ends_the_process_so_that_its_parent_starts_a_sound_one(site: Site, method: str) -> None:
    process = site.start_controller("-c", DEFECT.format(method=method))
    site.submit(site.job())
    assert process.wait(DEADLINE_S) == 1


@pytest.mark.alone
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_controller_ends_at_once_on_a_signal(site: Site, number: int) -> None:
    lasted_s: list[float] = []
    while min(lasted_s, default=AT_ONCE_S) >= AT_ONCE_S:
        assert len(lasted_s) < TRIES, f"it took {lasted_s} s"
        process = site.start_controller()
        site.submit(site.job(name=f"job-{len(lasted_s)}"))
        site.until(lambda: len(site.decisions) > len(lasted_s))
        began = time.monotonic()
        process.send_signal(number)
        assert process.wait(DEADLINE_S) == 0
        lasted_s.append(time.monotonic() - began)
