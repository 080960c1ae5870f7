"""Measures a cluster on this machine: throughput of one worker, latency from topic to topic. Run by ./scripts/bench.

Input is preloaded and the generator off for throughput. Figures come with the machine's load: machines are shared.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from schemas import commands, heartbeats, plans, progress
from schemas.plans import Ended, Plan
from schemas.topics import ClusterTopics, Partition, TopicSpec
from services.kernel.planning.loading import load
from services.log.kafka import KafkaLog

DEADLINE_S = 300.0
_console = Console(highlight=False, stderr=True)
Figures = dict[str, Any]

COUNT = """
name: bench-count
sources: {{events: {{topic: {topic}, fields: {{user: string, amount: int, at: timestamp}}, event_time: at, unit: ms}}}}
operators: {{count: {{aggregate: {{n: "count()", total: "sum(amount)"}}, key: [user], input: events}}}}
queries: {{counts: {{input: count, sink: {{topic: {topic}-out}}}}}}
"""
FILTER = """
name: bench-filter
sources: {{events: {{topic: {topic}, fields: {{user: string, amount: int, at: timestamp}}, event_time: at, unit: ms}}}}
operators:
  large: {{filter: "amount >= 80", input: events}}
  shaped: {{select: [user, "amount * 2 AS twice"], input: large}}
queries: {{kept: {{input: shaped, sink: {{topic: {topic}-out}}}}}}
"""
CHAIN = """
name: bench-chain
sources: {{events: {{topic: {topic}, fields: {{user: string, amount: int, at: timestamp}}, event_time: at, unit: ms}}}}
operators:
  count: {{aggregate: {{n: "count()"}}, key: [user], input: events}}
  known: {{filter: "n > 0", input: count}}
queries: {{counts: {{input: known, sink: {{topic: {topic}-out}}}}}}
placement: {{units: [[events], [count], [known], [counts]]}}
"""


class Bench:
    """A cluster, and what a client sees of it."""

    def __init__(self, folder: Path, workers: int) -> None:
        self._folder = folder
        self._call("up", "--detach", "--workers", str(workers))
        described = json.loads((folder / "cluster.json").read_text())
        self.log = KafkaLog(described["bootstrap_servers"], {}, "bench")
        self.appender = self.log.appender("bench")
        self.topics = ClusterTopics()

    def close(self) -> None:
        self._call("down")

    def preload(self, topic: str, records: int, keys: int) -> None:
        self.log.create([TopicSpec(topic, 1), TopicSpec(f"{topic}-out", 1)])
        start = int(time.time() * 1000) - records
        for index in range(records):
            self.appender.append(Partition(topic, 0), _record(index, keys, start + index))
            if index % 10_000 == 0:
                self.appender.poll()
        self.appender.flush(DEADLINE_S)

    def submit(self, job: str) -> Plan:
        spec = load(job, "bench.yaml")
        before = self._plan(spec.name)
        self.appender.append(Partition(self.topics.submit, 0), commands.encode(spec.as_plain()))
        self.appender.flush(DEADLINE_S)
        plan: Plan = _until(lambda: None if (found := self._plan(spec.name)) == before else found)
        _until(lambda: self.topics.job(plan.job, plan.generation).progress in self.log.topics() or None)
        return plan

    def cancel(self, plan: Plan) -> None:
        record = commands.encode(commands.Command("cancel", plan.job))
        self.appender.append(Partition(self.topics.submit, 0), record)
        self.appender.flush(DEADLINE_S)
        _until(lambda: any(isinstance(d, Ended) and d.generation == plan.generation for d in self._decisions()) or None)

    def records_done(self, plan: Plan) -> int:
        """Source records that the slowest unit's batches hold, as far as it is published."""
        partition = Partition(self.topics.job(plan.job, plan.generation).progress, 0)
        known = [progress.decode(m.value() or b"") for m in self.log.scan(partition)]
        return max((one.records for one in known), default=0)

    def cpu_s(self) -> float:
        """CPU seconds of all workers so far."""
        partition = Partition(self.topics.heartbeats, 0)
        end = self.log.offsets([partition], "end")[partition]
        newest: dict[str, float] = {}
        for message in self.log.scan(partition, max(0, end - 200)):
            beat = heartbeats.decode(message.value() or b"")
            if isinstance(beat, heartbeats.Heartbeat):
                newest[beat.incarnation] = beat.cpu
        return sum(newest.values())

    def _decisions(self) -> Iterator[plans.Decision]:
        return (plans.decode(m.value() or b"") for m in self.log.scan(Partition(self.topics.plans, 0)))

    def _plan(self, job: str) -> Plan | None:
        found = [d for d in self._decisions() if isinstance(d, Plan) and d.job == job]
        return found[-1] if found else None

    def _call(self, *words: str) -> None:
        holdfast = Path(sys.executable).parent / "holdfast"
        subprocess.run([holdfast, *words, "--data-dir", str(self._folder)], check=True, stdout=subprocess.DEVNULL)


def _record(index: int, keys: int, time_ms: int) -> bytes:
    return b'{"user":"user-%d","amount":%d,"at":%d}' % (index * 7919 % keys, index % 100, time_ms)


def throughput(bench: Bench, name: str, job: str, records: int, keys: int) -> Figures:
    """Records a second from the first batch to the last, and CPU seconds of the worker per million records."""
    topic = f"bench-{name}"
    bench.preload(topic, records, keys)
    cpu = bench.cpu_s()
    plan = bench.submit(job.format(topic=topic))
    _until(lambda: bench.records_done(plan) > 0 or None)
    started, first = time.perf_counter(), bench.records_done(plan)
    _until(lambda: bench.records_done(plan) >= records or None)
    took = time.perf_counter() - started
    time.sleep(0.3)  # the next heartbeat carries the CPU time
    spent = bench.cpu_s() - cpu
    bench.cancel(plan)
    return {
        "records_per_s": round((records - first) / took),
        "cpu_s_per_million": round(spent / records * 1e6, 2),
    }


def latency(bench: Bench, rate: int, seconds: int) -> Figures:
    """From the append in the user's topic to the row that a read_committed reader gets, through four units."""
    topic, keys = "bench-latency", 100
    bench.log.create([TopicSpec(topic, 1), TopicSpec(f"{topic}-out", 1)])
    plan = bench.submit(CHAIN.format(topic=topic))
    sent: dict[tuple[str, int], float] = {}
    delays: list[float] = []
    stop = threading.Event()
    reader = threading.Thread(target=_watch, args=(bench, f"{topic}-out", sent, delays, stop))
    reader.start()
    _feed(bench, topic, rate, seconds, keys, sent)
    stop.set()
    reader.join()
    bench.cancel(plan)
    settled = sorted(delays[len(delays) // 5 :])
    return {
        "rows": len(settled),
        "p50_ms": round(statistics.median(settled), 1),
        "p99_ms": round(settled[int(len(settled) * 0.99)], 1),
        "max_ms": round(settled[-1], 1),
    }


def _feed(bench: Bench, topic: str, rate: int, seconds: int, keys: int, sent: dict[tuple[str, int], float]) -> None:
    """`rate` records a second, one by one; remembers when the n-th of each key was sent."""
    counts = [0] * keys
    started = time.perf_counter()
    for index in range(rate * seconds):
        due = started + index / rate
        while (left := due - time.perf_counter()) > 0:
            time.sleep(min(left, 0.0005))
        key = index % keys
        counts[key] += 1
        sent[f"user-{key}", counts[key]] = time.perf_counter()
        record = b'{"user":"user-%d","amount":1,"at":%d}' % (key, int(time.time() * 1000))
        bench.appender.append(Partition(topic, 0), record)
    bench.appender.flush(DEADLINE_S)


def _watch(
    bench: Bench, topic: str, sent: dict[tuple[str, int], float], delays: list[float], stop: threading.Event
) -> None:
    reader = bench.log.reader("bench")
    reader.assign({Partition(topic, 0): 0})
    while not stop.is_set():
        for chunk in reader.poll(0.1):
            now = time.perf_counter()
            for message in chunk.messages:
                row = json.loads(message.value() or b"{}")
                if (at := sent.get((row["user"], row["n"]))) is not None:
                    delays.append((now - at) * 1000)
    reader.close()


def _until(found: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + DEADLINE_S
    while (value := found()) is None:
        if time.monotonic() > deadline:
            raise SystemExit(f"no result within {DEADLINE_S:g} s")
        time.sleep(0.02)
    return value


@contextmanager
def _cluster(workers: int) -> Iterator[Bench]:
    folder = Path(tempfile.mkdtemp(prefix="holdfast-bench-"))
    bench = Bench(folder, workers)
    try:
        yield bench
    finally:
        bench.close()
        shutil.rmtree(folder, ignore_errors=True)


MEASURES = ("count-1k", "count-100k", "filter", "latency")


def run(names: list[str], records: int, runs: int) -> dict[str, list[Figures]]:
    """Every measure `runs` times, each run in a cluster of its own with one worker."""
    found: dict[str, list[Figures]] = {name: [] for name in names}
    for number in range(runs):
        with _cluster(workers=1) as bench:
            for name in names:
                _console.print(f"run {number + 1} of {runs}: {name} ...")
                found[name].append(_measure(bench, name, records))
    return found


def _measure(bench: Bench, name: str, records: int) -> Figures:
    if name == "latency":
        return latency(bench, rate=2_000, seconds=15)
    if name == "filter":
        return throughput(bench, name, FILTER, records, 1_000)
    return throughput(bench, name, COUNT, records, 1_000 if name == "count-1k" else 100_000)


def _medians(runs: list[Figures]) -> Figures:
    return {figure: statistics.median(run[figure] for run in runs) for figure in runs[0]}


def main() -> int:
    parser = argparse.ArgumentParser(description="Measures throughput and latency of a cluster on this machine.")
    parser.add_argument("measures", nargs="*", metavar="MEASURE", help=f"of {', '.join(MEASURES)} (default: all)")
    parser.add_argument(
        "--records", type=int, default=2_000_000, help="preloaded for throughput (default: %(default)s)"
    )
    parser.add_argument("--runs", type=int, default=3, help="medians are of so many (default: %(default)s)")
    options = parser.parse_args()
    unknown = [name for name in options.measures if name not in MEASURES]
    if unknown:
        parser.error(f"there is no measure {unknown[0]!r}: one of {', '.join(MEASURES)}")
    load_before = os.getloadavg()[0]
    found = run(options.measures or list(MEASURES), options.records, options.runs)
    table = Table("measure", "figure", "median", "runs")
    for name, runs in found.items():
        for figure, median in _medians(runs).items():
            table.add_row(name, figure, f"{median:,}", ", ".join(f"{run[figure]:,}" for run in runs))
    _console.print(table)
    print(
        json.dumps(
            {
                "machine": {"cpus": os.cpu_count(), "python": platform.python_version(), "load": load_before},
                "medians": {name: _medians(runs) for name, runs in found.items()},
                "runs": found,
            }
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
