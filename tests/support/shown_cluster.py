"""A cluster in memory that a console shows: one job with a worker and a standby, hostile records, and events that come.

As a program it serves the console and prints its address: tests open it in a browser, in a process of its own, since
NiceGUI keeps its pages for a whole process.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from pathlib import Path

from holdfast.schemas import events, heartbeats
from holdfast.schemas.assignments import Flags
from holdfast.schemas.dead_letters import DeadLetter
from holdfast.schemas.dead_letters import encode as encode_dead
from holdfast.schemas.events import Event
from holdfast.schemas.heartbeats import CopyState, Heartbeat
from holdfast.schemas.topics import Partition
from holdfast.services.view.door import Door, Whereabouts
from tests.support.memory_cluster import MemoryCluster

HOSTILE = "<script>document.title='taken'</script><img src=x onerror=document.title='taken'>"
JOB = """
name: counted
sources: {given: {topic: given, fields: {k: string, at: timestamp}, event_time: at}}
operators: {counts: {aggregate: {n: "count()"}, key: [k], input: given, parallelism: 2}}
queries: {all: {input: counts, sink: {topic: all}}}
"""
SECONDARY = Flags(process=False, send=False, commit=False, checkpoint_target=True)
TOLD = "hybrid: the primary is gone: the secondary takes its place (worker ended) (worker-2 commits)"


class ShownCluster:
    """Its first unit is led by worker-1, with a standby on worker-2, until `fail` has made worker-2 the leader."""

    def __init__(self) -> None:
        self.memory = MemoryCluster(JOB)
        self.memory.day_ms = int(time.time() * 1000)
        self._appender = self.memory.log.appender("shown")
        one, two = self.memory.start("worker-1"), self.memory.start("worker-2")
        self.memory.place({unit: [one, (two, SECONDARY)] for unit in self.memory.units})
        self.unit = self.memory.units[0]
        self.door = Door(
            self.memory.log, self.memory.cluster, self.memory.log.topics(), Whereabouts(Path(), "memory", "t", False)
        )
        letter = DeadLetter("given", f"no JSON: {HOSTILE}", 3, "given", 0, 7, HOSTILE.encode())
        self.append(self.memory.topics.dead_letters, encode_dead(letter))
        self.beat()

    def append(self, topic: str, value: bytes) -> None:
        self._appender.append(Partition(topic, 0), value)

    def beat(self, leads: str = "running") -> None:
        """leads: state of the copies that lead."""
        for name, state in (("worker-1", leads), ("worker-2", "synced")):
            worker = self.memory.workers[name].identity
            copies = tuple(
                CopyState(f"{self.memory.plan.job}@{self.memory.plan.generation}/{unit}", 5, state)
                for unit in self.memory.units
            )
            beat = Heartbeat(name, worker.incarnation, int(time.time() * 1000), slots=4, copies=copies)
            self.append(self.memory.cluster.heartbeats, heartbeats.encode(beat))

    def tell(self, kind: str, **more: object) -> None:
        event = Event(int(time.time() * 1000), kind, **more)  # type: ignore[arg-type]
        self.append(self.memory.cluster.events, events.encode(event))

    def decide(self) -> dict[str, str]:
        """worker-1 dies, and worker-2 begins to take its first unit over."""
        job = {"job": self.memory.plan.job, "unit": self.unit}
        self.tell("placed", **job, epoch=1, worker="worker-1", detail="its job is to run: placed")
        self.tell("decided", **job, epoch=2, detail=TOLD, phases_ms={"detection": 40.0})
        return job

    def fail(self) -> None:
        """The same, within the promise."""
        job = self.decide()
        phases = {"activation": 10.0, "replay": 20.0, "first_output": 56.0, "recovered": 90.0}
        self.tell("unit-active", **job, epoch=2, worker="worker-2", phases_ms=phases)
        self.tell("promise-kept", **job, epoch=2, promise_ms=500.0, predicted_ms={"total": 200.0})


def main() -> None:
    from holdfast.services.console.server import Served, serve

    cluster = ShownCluster()
    port = int(next((word for word in sys.argv[1:] if word.isdigit()), "0"))
    served = Served(port, "127.0.0.1", (), read_only="--read-only" in sys.argv, token="a-token").bound()
    ended = threading.Event()

    def live() -> None:
        while not ended.wait(0.2):
            cluster.beat()
            if Path(folder, "fail").exists():
                Path(folder, "fail").unlink()
                cluster.fail()

    with tempfile.TemporaryDirectory() as folder:
        threading.Thread(target=live, daemon=True).start()
        print(served.url, folder, flush=True)
        try:
            serve(cluster.door, served, None)
        finally:
            ended.set()


if __name__ == "__main__":
    main()
