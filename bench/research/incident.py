"""./scripts/bench incident: eight of ten workers are killed at once, others come one by one, and queries come back.

The job is compose/jobs/hashtags.yaml (Su and Zhou 2017, section 6), fed from a file of posts again and again. Source
and parsers are on two workers whose slots they fill, the queries on eight others, each of which is a host of its own:
nobody reports their end. Each worker has a share of a CPU. What is printed is read from `jobs.status`: which queries
are available, with relative latencies as the controller measures them. One more query is beside the parsers, which do
not fail: it shows what the recovery costs the others. Source: MECHANISMS R6 to R8.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from rich.table import Table

from bench.model.hashtags import LOST, READS, STAIRCASE, TASKS, best
from bench.rig.cluster import HOLDFAST, BenchCluster, folder_of_its_own, now_ms
from bench.rig.feeder import Feeder
from bench.rig.followed import DEADLINE_S, Followed, MeasureFailed
from bench.rig.quota import Quotas
from holdfast.schemas import commands
from holdfast.schemas.commands import Command
from holdfast.schemas.plans import QueryState
from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.audit.replay import replay
from holdfast.services.cli.terminal import console
from holdfast.services.log.kafka.client import Cluster
from holdfast.services.log.kafka.reader import KafkaReader
from holdfast.services.planning.loader import load
from holdfast.services.view.cluster import ClusterView

ROOT = Path(__file__).parents[2]
JOB, POSTS = ROOT / "compose" / "jobs" / "hashtags.yaml", ROOT.parent / "shared" / "data" / "hashtags.jsonl.gz"
PLUGIN = "compose.jobs.hashtags"
HEALTHY = "healthy"
"""The query that does not read the parsers."""
EVERY_S = 45.0
"""Between two workers. In the paper they come 2 to 6 minutes after the failure."""
INTERVAL_MS = 1_000
SURVIVORS = 2
CALM_S = 60.0
"""Time without a failure before the incident: the latency of then is what later ones are compared with."""
PATIENCE_S = 600.0
INTERRUPTED = 130
QUIET = {"HOLDFAST_BALANCE_CALM_S": "0", "HOLDFAST_REASSIGN": "off", "HOLDFAST_PLUGINS": PLUGIN}
"""Settings under which units move only on request."""
OPEN = {"HOLDFAST_CLUSTER_SECRET": "off"}
"""Settings without a secret, which an embedded Kafka does not need."""
MOVED_S = 20.0
"""Between two requests for moves that were not made."""
_err = console(stderr=True)


@dataclass(frozen=True, slots=True)
class Seen:
    """State at one time after the failure.

    arrived: number of new workers.
    available: available queries.
    relative: relative latency by query.
    healthy: relative latency of the query that has not failed; None: not measured.
    """

    at_s: float
    arrived: int
    available: tuple[str, ...]
    relative: Mapping[str, float]
    healthy: float | None = None


class Host:
    """A worker with a parent process of its own, as in a container."""

    def __init__(self, name: str, folder: Path, kafka: str, variables: Mapping[str, str]) -> None:
        folder.mkdir(parents=True)
        self.name = name
        self._log = folder / "log"
        environment = {**os.environ, **variables, "HOLDFAST_HOST": name, "HOLDFAST_HOME": str(folder)}
        with self._log.open("wb") as log:
            self._parent = subprocess.Popen(
                [HOLDFAST, "serve", "worker", "--kafka", kafka],
                env=environment, cwd=ROOT, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def look(self) -> None:
        """Raises MeasureFailed if the host has ended."""
        if self._parent.poll() is not None:
            raise MeasureFailed(f"{self.name} has ended: {self._log.read_text().strip()[-500:]}")

    def kill(self, worker_pid: int | None) -> None:
        """Parent and worker, without a word."""
        self._parent.kill()
        if worker_pid is not None:
            with suppress(ProcessLookupError):
                os.kill(worker_pid, signal.SIGKILL)
        self._parent.wait()

    def stop(self) -> None:
        if self._parent.poll() is None:
            self._parent.terminate()
            try:
                self._parent.wait(30)
            except subprocess.TimeoutExpired:
                self._parent.kill()


class Incident:
    """A run.

    tasks: number of tasks of each operator but the source.
    blocking: true if no unit is restored before all can be.
    """

    def __init__(self, cluster: BenchCluster, tasks: int, blocking: bool, stack: ExitStack) -> None:
        self._cluster = cluster
        self._tasks = tasks
        self._blocking = blocking
        self._stack = stack
        self._view = ClusterView(cluster.topics)
        self._hosts: dict[str, Host] = {}
        self._state = cluster.log.reader("incident")
        topics = cluster.topics
        decided = dict.fromkeys([Partition(name, 0) for name in (topics.plans, topics.assignments, topics.status)], 0)
        self._state.assign(decided | cluster.log.offsets([Partition(topics.heartbeats, 0)], "end"))
        stack.callback(self._state.close)
        reader = KafkaReader(Cluster(cluster.bootstrap_servers), "incident-job", 200)
        self._job = Followed(cluster.log, reader, topics, "hashtags")
        stack.callback(self._job.close)
        self._struck_ms: float | None = None
        self.seen: list[Seen] = []

    # -- before the failure -------------------------------------------------------------------------------------------

    def prepare(self, posts: Sequence[bytes], rate_per_s: float, share: float, interval_ms: int) -> None:
        """Waits until the job runs with its units in place, and then for a while."""
        for number in range(1, LOST + 1):
            self._arrive(f"lost{number}")
        self._until(lambda: len(self._pids()) == LOST + SURVIVORS, "not every worker came")
        spec = load(_job(self._tasks, self._blocking, interval_ms), JOB.name)
        outputs = [query.sink.topic for query in spec.queries.values() if query.sink is not None]
        self._cluster.log.create([TopicSpec(topic, 1) for topic in ("posts", *outputs)])
        self._append(commands.encode(spec.as_plain()))
        self._job.await_admission()
        self._job.await_running()
        self._arrange()
        self._stack.enter_context(Quotas(self._pids, share))
        record = _looped(posts)
        feeder = Feeder(self._cluster.users_appender("posts"), [Partition("posts", 0)], rate_per_s, record)
        self._stack.enter_context(feeder)
        _say(f"{len(self._job.plan.units)} units run; {CALM_S:g} s without a failure ...")
        self._watch(CALM_S)
        self._until(lambda: self._measured(), "not every query is available, with a latency that is known")

    def _measured(self) -> bool:
        queries = self._queries()
        return bool(queries) and all(one.available and one.before_ms is not None for one in queries)

    def _arrange(self) -> None:
        """Moves the source and parsers, and no other units, to the workers that will survive."""
        asked_s = -MOVED_S

        def arranged() -> bool:
            nonlocal asked_s
            wrong = self._misplaced()
            if wrong and time.monotonic() - asked_s >= MOVED_S:
                asked_s = time.monotonic()
                for unit, worker in wrong.items():
                    self._append(commands.encode(Command("move", "hashtags", unit=unit, worker=worker)))
            return not wrong

        self._until(arranged, "units are not where they are wanted")

    def _misplaced(self) -> dict[str, str]:
        """The worker to which each misplaced unit must move: in exchange for a misplaced unit there, or to a free
        place.
        """
        leaders, living = self._leaders(), self._living()
        lost = sorted(name for name in self._pids() if name not in living)
        shared = [unit for unit in leaders if unit.startswith(("posts", "parser"))]
        load = {name: sum(leader == name for leader in leaders.values()) for name in (*living, *lost)}
        found = {}
        for unit, leader in leaders.items():
            homes = living if unit in shared else lost
            if leader not in homes:
                found[unit] = min(homes, key=lambda name: load[name])
                load[found[unit]] += 1
        return found

    def _living(self) -> list[str]:
        return sorted(self._cluster.workers())

    # -- the failure --------------------------------------------------------------------------------------------------

    def strike(self, every_s: float) -> None:
        """Kills eight workers; a new one comes every `every_s` seconds, once all queries that fit are available."""
        victims = {name: pid for name, pid in self._pids().items() if name not in self._living()}
        hosts, self._hosts = self._hosts, {}
        self._struck_ms = now_ms()
        for name, host in hosts.items():
            host.kill(next((pid for worker, pid in victims.items() if worker.startswith(name)), None))
        _say(f"{len(hosts)} workers killed")
        for number in range(1, LOST + 1):
            self._watch(number * every_s - self._after_s())
            self._arrive(f"new{number}")
            wanted = STAIRCASE[number - 1] if not self._blocking or number == LOST else 0
            self._until(partial(self._back, wanted), f"{wanted} queries are not available")
            _say(f"{self._after_s():6.1f} s: worker {number} is there, {len(self._available())} queries are available")

    def _back(self, queries: int) -> bool:
        return len(self._available()) >= queries

    def _after_s(self) -> float:
        """Since the failure."""
        return 0.0 if self._struck_ms is None else (now_ms() - self._struck_ms) / 1000

    def watch_until(self, after_s: float) -> None:
        """Watches until `after_s` seconds after the failure."""
        self._watch(after_s - self._after_s())

    def inexact(self) -> int:
        rows = replay(self._cluster.log, self._cluster.topics, "hashtags").rows
        return rows.lost + rows.duplicated + rows.wrong

    # -- what is seen -------------------------------------------------------------------------------------------------

    def _arrive(self, name: str) -> None:
        folder, slots = self._cluster.folder / "hosts" / name, str(2 * self._tasks)
        host = Host(name, folder, self._cluster.bootstrap_servers, {**QUIET, "HOLDFAST_SLOTS": slots, **OPEN})
        self._hosts[name] = host
        self._stack.callback(host.stop)

    def _pids(self) -> dict[str, int]:
        lines = self._view.workers(int(now_ms()))
        return {line.worker: line.pid for line in lines if line.state in ("live", "stuck")}

    def _leaders(self) -> dict[str, str]:
        lines = self._view.units(self._job.plan)
        return {line.unit: next((c.worker for c in line.copies if c.role == "primary"), "") for line in lines}

    def _queries(self) -> Sequence[QueryState]:
        line = self._view.find("hashtags")
        return () if line is None else self._view.status(line, int(now_ms())).queries

    def _available(self) -> list[str]:
        return [one.query for one in self._queries() if one.available and one.query != HEALTHY]

    def _read(self) -> None:
        for chunk in self._state.poll(0.05):
            for message in chunk.messages:
                self._view.read(chunk.partition.topic, message.value())
        self._job.read(0)
        for host in self._hosts.values():
            host.look()
        self._note()

    def _note(self) -> None:
        if self._struck_ms is None:
            return
        queries = self._queries()
        relative = {one.query: one.relative for one in queries if one.relative is not None}
        healthy = relative.pop(HEALTHY, None)
        seen = Seen(self._after_s(), len(self._hosts), tuple(self._available()), relative, healthy)
        if not self.seen or seen.at_s - self.seen[-1].at_s >= 1 or seen.available != self.seen[-1].available:
            self.seen.append(seen)

    def _watch(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._read()

    def _until(self, reached: Callable[[], bool], otherwise: str) -> None:
        def looked() -> bool:
            self._read()
            return reached()

        self._job.until(looked, otherwise, PATIENCE_S)

    def _append(self, record: bytes) -> None:
        self._cluster.appender.append(Partition(self._cluster.topics.submit, 0), record)
        self._cluster.appender.flush(DEADLINE_S)


def _looped(posts: Sequence[bytes]) -> Callable[[int], bytes]:
    """The posts in order, again and again, each time with later times."""
    decoded = [json.loads(line) for line in posts]
    times = [datetime.fromisoformat(post["event_time"]) for post in decoded]
    lap = max(times) - min(times) + timedelta(days=1)

    def record(index: int) -> bytes:
        laps, at = divmod(index, len(decoded))
        return json.dumps({**decoded[at], "event_time": str(times[at] + laps * lap)}).encode()

    return record


def _job(tasks: int, blocking: bool, interval_ms: int) -> str:
    """The example, with one more query that does not read the parsers.

    blocking: true to restore all units together.
    """
    text = JOB.read_text().replace(f"parallelism: {TASKS}", f"parallelism: {tasks}")
    text = re.sub(r"(?m)^batch_interval_ms: .*$", f"batch_interval_ms: {interval_ms}", text)
    text = text.replace(
        "queries:\n", f"queries:\n  {HEALTHY}: {{input: parser, sink: {{topic: all, partitions: 1}}}}\n"
    )
    text = text.replace("- [parser]\n", f"- [parser, {HEALTHY}]\n")
    return text + ("  buffering: source\n  checkpoint: {policy: aligned}\n" if blocking else "")


def steps(seen: Sequence[Seen]) -> list[int]:
    """Number of available queries before the next worker came, by worker; the last worker's: at the end."""
    last = {one.arrived: len(one.available) for one in seen if one.arrived}
    return [last[arrived] for arrived in sorted(last)]


def first_back_s(seen: Sequence[Seen]) -> float | None:
    """Time at which the first query was available again; None: none was."""
    down = next((at for at, one in enumerate(seen) if not one.available), len(seen))
    return next((one.at_s for one in seen[down:] if one.available), None)


def area(seen: Sequence[Seen], until_s: float) -> float:
    """Available queries times seconds from the first worker on, over the most that fit at each time.

    The most that fit are there at once when a worker comes: neither its start nor a restore takes time, nor the 10 s
    over which latencies are averaged.
    """
    found = fit = 0.0
    for one, following in zip(seen, [*seen[1:], None], strict=True):
        seconds = max(0.0, (until_s if following is None else min(following.at_s, until_s)) - one.at_s)
        if one.arrived:
            found, fit = found + len(one.available) * seconds, fit + best(one.arrived) * seconds
    return found / fit if fit else 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a run.

    wrong: number of rows lost, duplicated or wrong.
    until_s: seconds of observation.
    """

    seen: tuple[Seen, ...]
    wrong: int
    until_s: float

    @property
    def healthy(self) -> float:
        """The highest relative latency of the query that has not failed."""
        return max((one.healthy for one in self.seen if one.healthy is not None), default=0.0)

    def summary(self) -> dict[str, Any]:
        back_s = first_back_s(self.seen)
        return {
            "staircase": steps(self.seen),
            "first_back_s": None if back_s is None else round(back_s, 1),
            "area": round(area(self.seen, self.until_s), 3),
            "healthy_relative_max": self.healthy,
            "wrong": self.wrong,
            "curve": [[round(one.at_s, 1), one.arrived, len(one.available)] for one in self.seen],
        }


def run(
    posts_file: Path = POSTS,
    tasks: int = TASKS,
    share: float = 0.2,
    rate_per_s: float = 20.0,
    every_s: float = EVERY_S,
    blocking: bool = False,
    interval_ms: int = INTERVAL_MS,
) -> Outcome:
    """Runs one incident on a cluster of its own. Raises MeasureFailed."""
    with gzip.open(posts_file) as file:
        posts = file.read().splitlines()
    with folder_of_its_own(_say) as cluster, ExitStack() as stack:
        survivors = {**QUIET, "HOLDFAST_SLOTS": str(-(-(1 + tasks) // SURVIVORS))}
        cluster.start(SURVIVORS, survivors)
        incident = Incident(cluster, tasks, blocking, stack)
        incident.prepare(posts, rate_per_s, share, interval_ms)
        try:
            incident.strike(every_s)
            incident.watch_until(every_s * (LOST + 1))
        finally:
            _err.print(_table(incident.seen))
        wrong = incident.inexact()
        _say(f"{wrong} rows lost, duplicated or wrong")
        return Outcome(tuple(incident.seen), wrong, every_s * (LOST + 1))


def main(words: Sequence[str]) -> int:
    asked = _options(words)
    try:
        found = run(asked.posts, asked.tasks, asked.share, asked.rate, asked.every, asked.blocking, asked.interval_ms)
    except MeasureFailed as error:
        _say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        _say("stopped; the cluster is down")
        return INTERRUPTED
    print(json.dumps(found.summary()))
    stairs = [0] * (LOST - 1) + [len(READS)] if asked.blocking else list(STAIRCASE)
    return int(steps(found.seen) != stairs or found.wrong > 0)


def _table(seen: Sequence[Seen]) -> Table:
    """A row for each change."""
    table = Table("s after the failure", "workers that came", "available", "queries", "relative latency, most")
    before: tuple[int, tuple[str, ...]] | None = None
    for one in seen:
        if before != (one.arrived, one.available):
            before = one.arrived, one.available
            most = f"{max(one.relative.values()):.2f}" if one.relative else "-"
            count = str(len(one.available))
            table.add_row(f"{one.at_s:.1f}", str(one.arrived), count, " ".join(one.available), most)
    return table


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench incident",
        description="Kills eight of ten workers of the 15-query job on hashtags, starts others one by one, and shows "
        "how the queries come back. It exits with 1 unless they do so in the staircase of the paper, or with "
        "--blocking all at the last worker, with no row lost, duplicated or wrong. Two cores carry the whole job of 81 "
        "units with --tasks 5 --rate 2 --share 0.4 --interval-ms 4000.",
    )
    parser.add_argument("--posts", type=Path, default=POSTS, help="a .jsonl.gz with event_time and hashtags a line")
    parser.add_argument("--tasks", type=int, default=TASKS, help="of each operator; 1 is a job of 17 units")
    parser.add_argument("--share", type=float, default=0.2, help="of a CPU, for each worker, once the job runs")
    parser.add_argument("--rate", type=float, default=20.0, help="posts a second")
    parser.add_argument("--every", type=float, default=EVERY_S, help="seconds between two workers")
    parser.add_argument("--interval-ms", type=int, default=INTERVAL_MS, help="between two batches")
    parser.add_argument("--blocking", action="store_true", help="nothing is restored before all fits, as a baseline")
    return parser.parse_args(words)


def _say(text: str) -> None:
    _err.print(text, markup=False)
