"""Every command waits for leaders that are away, says so after a second, and ends with a clear error at its limit.

A command is run twice, on a log that answers and on one that first says of each thing it is asked that its leader is
away: both runs give the same. A command without a line in the tables below fails the first test.
"""

from __future__ import annotations

import ast
import copy
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner

from holdfast.schemas import events, plans
from holdfast.schemas.events import Event
from holdfast.schemas.plans import Status
from holdfast.schemas.topics import Partition
from holdfast.services.cli import whereabouts
from holdfast.services.cli.commands import COMMANDS, app
from holdfast.services.log import answers, door, patience
from holdfast.services.log.answers import Moved, Unacknowledged
from holdfast.services.log.memory import MemoryAppender, MemoryLog, MemoryReader, MemoryTransactor
from holdfast.services.log.protocol import Chunk, Rows
from tests.support.memory_cluster import GENERATION, MemoryCluster
from tests.support.orders import JOB, orders

ROOT = Path(__file__).parents[3]
LIMIT_S = 7.0
SOON = ["--timeout", "0.1"]

READING: dict[str, list[str]] = {
    "check": ["{job}"],
    "plan": ["orders", "--budget", "0.5", "--live"],
    "submit": ["{job}", "--create-topics", *SOON],
    "cancel": ["orders", *SOON],
    "pause": ["orders", *SOON],
    "resume": ["orders", *SOON],
    "savepoint": ["orders", "saved", *SOON],
    "update": ["orders", "{job}", "--dry-run"],
    "scheme": ["orders", "hourly-0", "passive", *SOON],
    "checkpoint": ["orders", "aligned", *SOON],
    "rollback": ["orders", *SOON],
    "move": ["orders", "hourly-0", "w9", *SOON],
    "accept": ["orders", *SOON],
    "drill": ["orders", "hourly-0", *SOON],
    "send": ["orders", "{records}", "--json"],
    "results": ["orders", "shops"],
    "replay": ["orders", "--json"],
    "repair": ["orders"],
    "dead-letters": ["orders", "--replay"],
    "list": ["--all"],
    "status": ["orders"],
    "state": ["orders", "hourly"],
    "init": ["{records}.yaml", "--topic", "orders", "--force"],
    "watch": ["orders", "--for", "0"],
    "units": ["orders"],
    "workers": [],
    "events": ["--json"],
    "explain": ["orders"],
    "topics": [],
    "acls": ["--apply"],
}
"""By command that reads topics: how it is called here. It may fail for want of a controller, the same way each time."""
WRITTEN = {"init": {"more.ndjson.yaml"}}
"""Files that a command is asked to write, by command. No other one stays in the folder in which it is typed."""
LISTING = {"acls", "check", "topics", "send"}
"""Of these, the ones that read no partition; the others list topics, too, by the same call."""
ALONE = {
    "up": "starts the cluster: the supervisor tries for ever, and says so in its log",
    "serve": "is the supervisor",
    "down": "ends processes of this machine",
    "console": "serves pages: its feed tries again for ever, and the pages say so",
    "kill": "signals a process of this machine",
    "stall": "signals a process of this machine",
    "try": "runs a job without Kafka",
    "convert": "prints a job in its other form",
    "functions": "prints the list of functions",
    "completion": "prints a script",
    "doctor": "says what is wrong with this machine, at once",
    "settings": "prints variables",
    "schema": "prints a schema",
}
"""By command that reads nothing from Kafka: what it does."""


class Restless(MemoryLog):
    """Another log, of which everything that is asked is first refused `refusals` times."""

    def __init__(self, inner: MemoryLog, refusals: int) -> None:
        super().__init__(lambda: 0)
        vars(self).update(vars(inner))
        self.refusals, self.refused = refusals, Counter[str]()

    def refuse(self, what: str, partition: Partition | None = None) -> None:
        if self.refused[what] < self.refusals:
            self.refused[what] += 1
            if partition is None or self.refused[what] % 2:
                raise Moved(f"{what}: Broker: Leader not available")
            answers.offset(partition, -1001)

    def topics(self, needed: Iterable[str] = ()) -> dict[str, int]:
        self.refuse("topics")
        return super().topics(needed)

    def describe(self, topics: Iterable[str]) -> Any:
        self.refuse(f"describe {topics}")
        return super().describe(topics)

    def config(self, topic: str) -> dict[str, str]:
        self.refuse(f"config {topic}")
        return super().config(topic)

    def create(self, topics: Iterable[Any]) -> None:
        self.refuse("create")
        super().create(topics)

    def offsets(self, partitions: Iterable[Partition], at: Any) -> dict[Partition, int]:
        wanted = list(partitions)
        for one in wanted:
            self.refuse(f"offsets {one} {at if isinstance(at, str) else 'time'}", one)
        return super().offsets(wanted, at)

    def scan(self, partition: Partition, start: int | None = None) -> Any:
        self.refuse(f"scan {partition}", partition)
        for number, message in enumerate(super().scan(partition, start)):
            if number == 1:
                self.refuse(f"rest of {partition}", partition)
            yield message

    def last(self, partition: Partition, settled: bool = False) -> Any:
        self.refuse(f"last {partition}", partition)
        return super().last(partition, settled)

    def tail(self, partition: Partition, settled: bool = False) -> Any:
        self.refuse(f"tail {partition}", partition)
        return super().tail(partition, settled)

    def reader(
        self, name: str, *, on_demand: bool = False, patient: bool = False, waits_long: bool = False
    ) -> MemoryReader:
        return RestlessReader(self)

    def appender(self, name: str) -> MemoryAppender:
        return RestlessAppender(self)

    def transactor(self, transactional_id: str, batch_bytes: int | None = None) -> MemoryTransactor:
        return RestlessTransactor(self, transactional_id)


class RestlessReader(MemoryReader):
    def __init__(self, log: Restless) -> None:
        super().__init__(log)
        self._left = log.refusals

    def poll(self, timeout_s: float, max_messages: int = 10_000) -> list[Chunk]:
        self._left -= 1
        return [] if self._left >= 0 else super().poll(timeout_s, max_messages)


class RestlessAppender(MemoryAppender):
    def __init__(self, log: Restless) -> None:
        super().__init__(log)
        self._log: Restless = log

    def flush(self, timeout_s: float) -> None:
        if self._log.refused["flush"] < self._log.refusals:
            self._log.refused["flush"] += 1
            raise Unacknowledged("records wait for a leader")
        super().flush(timeout_s)


class RestlessTransactor(MemoryTransactor):
    def __init__(self, log: Restless, transactional_id: str) -> None:
        super().__init__(log, transactional_id)
        self._log: Restless = log

    def start(self) -> None:
        self._log.refuse("start transactions")
        super().start()

    def commit(self, rows: Any) -> None:
        self._log.refuse("commit")
        super().commit(rows)


class Clock:
    """Each pause takes its time at once. Timers never go off by themselves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def timer(self, seconds: float, call: Callable[[], None]) -> Any:
        return self

    def start(self) -> None: ...

    def cancel(self) -> None: ...


@pytest.fixture(scope="module")
def filled() -> MemoryLog:
    """The log of a cluster whose job has run, with rows, a dead letter, a status and an event."""
    cluster = MemoryCluster(JOB)
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    for index in (0, 1):
        cluster.feed("orders", [*orders(8)[index::2], b"{not json"], index)
    cluster.turn(300)
    assert cluster.rows("shops")
    assert cluster.dead_letters()
    status = Status("orders", GENERATION, "running", 1, units=8, available=8)
    kept = Event(1, "worker-exited", worker="w1", detail="for a test")
    for topic, record in (
        (cluster.cluster.status, plans.encode(status)),
        (cluster.cluster.events, events.encode(kept)),
        (cluster.cluster.events, events.encode(kept)),
    ):
        cluster.log.appender("t").append(Partition(topic, 0), record)
    return cluster.log


@pytest.fixture
def run(
    filled: MemoryLog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[[str, int], tuple[Any, Restless]]:
    """Runs a command of the table on a copy of that log."""
    clock = Clock()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_CLUSTER", "t")
    monkeypatch.setenv("HOLDFAST_COMMAND_PATIENCE_S", str(LIMIT_S))
    monkeypatch.setattr(whereabouts, "reach", lambda *_: "")
    monkeypatch.setattr("holdfast.services.cli.replay._as_workers_run", lambda: None)  # replaces the process
    told: Mapping[str, Any] = {"clock_s": lambda: clock.now_s, "sleep": clock.sleep, "timer": clock.timer}
    monkeypatch.setattr(patience, "Patience", partial(patience.Patience, **told))
    monkeypatch.setattr("holdfast.services.log.kafka.rights.Rights", Mock())
    (tmp_path / "job.yaml").write_text(JOB.replace("name: orders", "name: other"))
    (tmp_path / "more.ndjson").write_text('{"shop": "a", "item": "x", "amount": 1, "at": 1600000000000}\n')

    def run(command: str, refusals: int) -> tuple[Any, Restless]:
        log = Restless(copy.deepcopy(filled), refusals)
        monkeypatch.setattr(door, "KafkaLog", lambda *_: log)
        given = [one.format(job="job.yaml", records="more.ndjson") for one in READING[command]]
        before = set(tmp_path.rglob("*"))
        found = CliRunner().invoke(app, [command, *given, "--kafka", "there:9092"])
        left = {path.name for path in set(tmp_path.rglob("*")) - before}
        assert left <= WRITTEN.get(command, set()), f"holdfast {command} leaves files in the user's folder"
        return found, log

    return run


def test_every_command_is_known_to_wait_or_to_need_no_kafka() -> None:
    commands = {command.name for command in COMMANDS}
    assert set(READING) | set(ALONE) == commands, "add a new command to READING, or say in ALONE why it reads nothing"
    assert not set(READING) & set(ALONE)


@pytest.mark.parametrize("command", READING)
def test_a_command_gives_the_same_while_leaders_change(
    run: Callable[[str, int], tuple[Any, Restless]], command: str
) -> None:
    calm, _ = run(command, 0)
    restless, log = run(command, 3)
    assert sum(log.refused.values()) >= 3
    assert restless.exception is None or isinstance(restless.exception, SystemExit), restless.exception
    assert (restless.exit_code, same(restless.output)) == (calm.exit_code, same(calm.output))


@pytest.mark.parametrize("command", sorted(LISTING))
def test_a_command_says_what_it_waits_for_and_ends_at_its_limit(
    run: Callable[[str, int], tuple[Any, Restless]], command: str
) -> None:
    began = time.monotonic()
    found, _ = run(command, 1_000_000)
    assert found.exit_code == 1, found.output
    assert f"waiting up to {LIMIT_S:g} s for Kafka to list its topics: " in found.stderr
    assert f"gave up after {LIMIT_S:g} s of waiting for Kafka to list its topics: " in found.stderr
    assert "Check that the brokers run" in found.stderr
    assert "HOLDFAST_COMMAND_PATIENCE_S" in found.stderr
    assert time.monotonic() - began < 600, "nothing here waits by a real clock"


@pytest.mark.parametrize("command", [one for one in READING if one not in LISTING])
def test_a_command_names_the_partition_that_has_no_leader(
    run: Callable[[str, int], tuple[Any, Restless]], command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Restless, "topics", MemoryLog.topics)
    monkeypatch.setattr(Restless, "create", MemoryLog.create)
    found, _ = run(command, 1_000_000)
    assert found.exit_code == 1, found.output
    assert re.search(
        rf"error: .*gave up after {LIMIT_S:g} s of waiting for Kafka to .*\w+\[\d\]", found.stderr, re.DOTALL
    ), found.stderr
    assert "Traceback" not in found.output


def test_records_on_their_way_are_waited_for_as_long(
    run: Callable[[str, int], tuple[Any, Restless]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RestlessAppender, "poll", lambda self: None)
    found, _ = run("send", 0)
    assert found.exit_code == 1, found.output
    assert f"waiting up to {LIMIT_S:g} s for Kafka to take 1 record" in found.stderr
    assert f"gave up after {LIMIT_S:g} s of waiting for Kafka to take 1 record: 0 to stay" in found.stderr


def same(output: str) -> str:
    """Without what differs between two runs: times, rates, names made of them, and words about waiting."""
    output = "".join(line for line in output.splitlines(keepends=True) if not line.startswith("waiting up to"))
    return re.sub(r"\d+-[0-9a-f]{6}|[\d.,:]+", "#", output)


DOORS = {"services/cli/whereabouts.py": {"holdfast.services.log.door"}}
KAFKA = {
    "holdfast.services.log.kafka.log",
    "holdfast.services.log.kafka.client",
    "holdfast.services.log.kafka.requests",
    "holdfast.services.log.door",
}


def test_no_command_reads_kafka_by_another_door() -> None:
    """Users, passwords and rights are no matter of a partition's leader: `acls` has the client for these."""
    found = {}
    for folder in ("cli", "client", "view", "audit"):
        for path in sorted((ROOT / "services" / folder).glob("**/*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            modules = {one.module for one in ast.walk(tree) if isinstance(one, ast.ImportFrom) and one.module}
            modules |= {name.name for one in ast.walk(tree) if isinstance(one, ast.Import) for name in one.names}
            doors = {one for one in modules if one in KAFKA or one.split(".")[0] == "confluent_kafka"}
            if doors:
                found[str(path.relative_to(ROOT))] = doors
    assert found == DOORS, "a command opens its log by `connected`, whose log waits for leaders"


class Interrupted(MemoryLog):
    """Another log. Ctrl-C comes while more records are waited for than there are."""

    def __init__(self, inner: MemoryLog) -> None:
        super().__init__(lambda: 0)
        vars(self).update(vars(inner))

    def reader(
        self, name: str, *, on_demand: bool = False, patient: bool = False, waits_long: bool = False
    ) -> MemoryReader:
        return InterruptedReader(self)


class InterruptedReader(MemoryReader):
    def poll(self, timeout_s: float, max_messages: int = 10_000) -> list[Chunk]:
        found = super().poll(timeout_s, max_messages)
        if not found:
            signal.raise_signal(signal.SIGINT)
        return found


@pytest.mark.parametrize(
    "words",
    [
        ["results", "orders", "shops", "--follow"],
        ["events", "--follow"],
        ["events", "--follow", "--json"],
        ["submit", "job.yaml", "--create-topics"],
        ["cancel", "orders", "--drain"],
    ],
)
def test_ctrl_c_ends_a_command_that_waits_with_130_and_no_word(
    filled: MemoryLog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str], request: pytest.FixtureRequest
) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_CLUSTER", "t")
    monkeypatch.setattr(whereabouts, "reach", lambda *_: "")
    monkeypatch.setattr(door, "KafkaLog", lambda *_: Interrupted(copy.deepcopy(filled)))
    (tmp_path / "job.yaml").write_text(JOB.replace("name: orders", "name: other"))
    found = CliRunner().invoke(app, [*words, "--kafka", "there:9092"])
    assert found.exit_code == 130, found.output
    assert "Traceback" not in found.output
    assert "error" not in found.stderr
    assert bool(found.stdout) == ("--follow" in words), "rows and events that came before are shown"


def test_the_rows_of_a_refused_transaction_are_committed_once(filled: MemoryLog) -> None:
    log = Restless(copy.deepcopy(filled), 3)
    transactor = RestlessTransactor(log, "x")
    waiting = patience.Patience(LIMIT_S, lambda _: None, sleep=lambda _: None)
    waiting.ask("start", transactor.start)
    before = len(list(MemoryLog.scan(log, Partition("shops", 0))))
    waiting.ask("commit", lambda: transactor.commit([Rows("shops", [b"row"], partitions=[0])]))
    assert len(list(MemoryLog.scan(log, Partition("shops", 0)))) == before + 1
