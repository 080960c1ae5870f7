"""A large job as its services would report it, on a Kafka of its own and without them: for what only shows it."""

from __future__ import annotations

import threading
import time
from itertools import cycle, islice
from pathlib import Path

from msgspec.structs import replace

from holdfast.schemas import assignments, events, heartbeats, plans, progress
from holdfast.schemas.assignments import PRIMARY, Assignment, Change, Copy, Flags, job_key, unit_key
from holdfast.schemas.costs import Costs
from holdfast.schemas.decided import Id
from holdfast.schemas.events import Event
from holdfast.schemas.heartbeats import CopyState, Heartbeat
from holdfast.schemas.plans import QueryState, Status
from holdfast.schemas.progress import Progress
from holdfast.schemas.topics import ClusterTopics, Partition, TopicSpec
from holdfast.services.log.door import open_log
from holdfast.services.node.kafka.broker import EmbeddedKafka
from holdfast.services.planning.loader import load
from holdfast.services.planning.plan import make_plan

WORKERS, EACH_S = 5, 0.1
"""Number of workers, and seconds between two heartbeats of one, as in a real cluster: 50 updates a second."""
COSTS = 4
"""Number of copies whose costs a heartbeat carries: services/hosting/heartbeats.py."""
GENERATION, TASKS = "1-aaaaaa", 125
JOB = f"""
name: large
sources: {{given: {{topic: given, fields: {{k: string, v: int, at: timestamp}}, event_time: at}}}}
operators:
  counts: {{aggregate: {{n: "count()", total: "sum(v)"}}, key: [k], input: given, parallelism: {TASKS}}}
  sums: {{aggregate: {{m: "sum(n)"}}, key: [k], input: counts, parallelism: {TASKS}}}
  tops: {{aggregate: {{most: "max(m)"}}, key: [k], input: sums, parallelism: {TASKS}}}
  lows: {{aggregate: {{least: "min(m)"}}, key: [k], input: sums, parallelism: {TASKS - 1}}}
queries: {{most: {{input: tops, sink: {{topic: most}}}}, least: {{input: lows, sink: {{topic: least}}}}}}
"""
STANDBY = Flags(process=False, send=False, commit=False, checkpoint_target=True)


class Staged:
    """500 units, each with a leader and a standby; workers report from `start` to `stop`.

    each_s: between two heartbeats of a worker.
    """

    def __init__(self, folder: Path, each_s: float = EACH_S) -> None:
        self._kafka = EmbeddedKafka(folder / "kafka")
        self._each_s = each_s
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._report, args=(at,), daemon=True) for at in range(WORKERS)]
        self._units: list[str] = []

    @property
    def bootstrap_servers(self) -> str:
        return self._kafka.bootstrap_servers

    def start(self) -> None:
        self._kafka.start()
        self._topics = ClusterTopics()
        self._log = open_log(self.bootstrap_servers, self._topics.prefix, "staged")
        self._appender = self._log.appender("staged")
        self.plan = make_plan(
            load(JOB, "job.yaml"), generation=GENERATION, id=Id("staged", 1), topics=None, first={},
            prefix=self._topics.prefix, versions={"holdfast": "staged"}, allow=[],
        )  # fmt: skip
        self._units = [unit.name for unit in self.plan.units]
        job = self._topics.job(self.plan.job, GENERATION)
        self._progress = job.progress
        self._log.create([*self._topics.specs(), TopicSpec(job.progress), TopicSpec("given", 1)])
        self._append(self._topics.plans, plans.encode(self.plan))
        queries = tuple(QueryState(query, available=True, since_ms=_now_ms()) for query in ("most", "least"))
        status = Status(
            self.plan.job, GENERATION, "running", _now_ms(), available=len(self._units), units=len(self._units),
            since_ms=_now_ms(), queries=queries,
        )  # fmt: skip
        self._append(self._topics.status, plans.encode(status), job_key(self.plan.job, GENERATION))
        changes = tuple(self._change(at, 1, at % WORKERS) for at in range(len(self._units)))
        self._append(self._topics.assignments, assignments.encode(Assignment("staged", _now_ms(), changes)))
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()
        self._log.close()
        self._kafka.stop()

    def take_over(self, at: int) -> str:
        """Publishes events of a takeover; returns its unit.

        at: number of the takeover, from 0.
        """
        turns, index = divmod(at, len(self._units))
        unit, epoch = self._units[index], 1 + 2 * turns
        told = "hybrid: the primary is gone: the secondary takes its place (worker ended) (worker-2 commits)"
        phases = {"activation": 10.0, "replay": 20.0, "first_output": 56.0, "recovered": 90.0}
        of = Event(_now_ms(), "placed", job=self.plan.job, unit=unit, epoch=epoch, worker="worker-1", detail="placed")
        for one in (
            of,
            replace(of, kind="decided", epoch=epoch + 1, worker="", detail=told, phases_ms={"detection": 40.0}),
            replace(of, kind="unit-active", epoch=epoch + 1, worker="worker-2", detail="", phases_ms=phases),
        ):
            self._append(self._topics.events, events.encode(one))
        return unit

    def _change(self, at: int, epoch: int, leader: int) -> Change:
        names = [_worker(leader), _worker((leader + 1) % WORKERS)]
        copies = tuple(Copy(name, f"{name}-1", flags) for name, flags in zip(names, (PRIMARY, STANDBY), strict=True))
        return Change(
            unit_key(self.plan.job, GENERATION, self._units[at]), epoch, copies, reason="staged", scheme="hybrid"
        )

    def _report(self, at: int) -> None:
        """Sends heartbeats of one worker, and progress of the units that it leads, until the end."""
        keys = [unit_key(self.plan.job, GENERATION, unit) for unit in self._units]
        leads = set(keys[at::WORKERS])
        here = [*keys[at::WORKERS], *keys[(at - 1) % WORKERS :: WORKERS]]
        turns, batch = cycle(here), 0
        while not self._ended.wait(self._each_s):
            batch += 1
            costs = tuple(_costs(key, batch, leads=key in leads) for key in islice(turns, COSTS))
            copies = tuple(CopyState(key, batch, "running" if key in leads else "synced") for key in here)
            name = _worker(at)
            beat = Heartbeat(name, f"{name}-1", _now_ms(), slots=250, copies=copies, costs=costs)
            self._append(self._topics.heartbeats, heartbeats.encode(beat))
            unit = self._units[at::WORKERS][batch % len(leads)]
            self._append(self._progress, progress.encode(Progress(unit, batch, batch - 1)))

    def _append(self, topic: str, value: bytes, key: str = "") -> None:
        self._appender.append(Partition(topic, 0), value, key=key.encode() or None)
        self._appender.flush(10.0)


def _costs(key: str, batch: int, *, leads: bool) -> Costs:
    records = 100 * batch
    return Costs(
        key, {"given": (records, 50 * records)}, {"sink-most": batch}, processed=records, process_ms=batch,
        cpu_ms=2.0 * batch, leads=leads, records=records, latencies=batch, latency_ms=12 * batch, state_keys=1_000,
        state_bytes=64_000, checkpoint_age_ms=400.0, checkpoint_bytes=900 * batch, run_bytes=900, sent_bytes=records,
    )  # fmt: skip


def _worker(at: int) -> str:
    return f"worker-{at + 1}"


def _now_ms() -> int:
    return int(time.time() * 1000)
