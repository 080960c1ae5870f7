"""Reads live when each batch of a job passed where: cuts, frames and checkpoints are trimmed soon after."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from schemas import checkpoints, cuts
from schemas.checkpoints import CheckpointRecord, Part
from schemas.cuts import Cut
from schemas.frames import unpack
from schemas.topics import Partition
from services.cli.bench.cluster import BenchCluster, now_ms
from services.cli.bench.followed import Followed
from services.cli.bench.hops import CutAt
from services.kernel.errors import StateCorrupted
from services.log.protocol import Chunk, Log, Message


@dataclass(slots=True)
class Kept:
    """A record, when it came, and when it was written."""

    message: Message
    seen_ms: float


@dataclass(slots=True)
class Tap:
    """Keeps all that comes on some partitions, read by a thread of its own."""

    log: Log
    partitions: Sequence[Partition]
    kept: dict[Partition, list[Kept]] = field(default_factory=dict)
    over: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None

    def __enter__(self) -> Tap:
        reader = self.log.reader("bench-tap")
        reader.assign(self.log.offsets(self.partitions, "start"))

        def run() -> None:
            while not self.over.is_set():
                try:
                    chunks = reader.poll(0.05)
                except StateCorrupted:  # trimmed before we came
                    reader.assign(self.log.offsets(self.partitions, "start"))
                    continue
                self._keep(chunks, now_ms())
            reader.close()

        self.thread = threading.Thread(target=run, name="tap", daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        if self.thread is not None:
            self.thread.join()

    def _keep(self, chunks: list[Chunk], seen_ms: float) -> None:
        for chunk in chunks:
            self.kept.setdefault(chunk.partition, []).extend(Kept(message, seen_ms) for message in chunk.messages)


class Trace:
    """The cuts, frames and checkpoint records of one job from now on, its results when `out` is given."""

    def __init__(self, cluster: BenchCluster, job: Followed, out: str | None = None) -> None:
        topics = cluster.topics.job(job.plan.job, job.plan.generation)
        self._data = job.data_partitions()
        self._cuts = Partition(topics.cuts, 0)
        self._checkpoints = [Partition(topics.checkpoints, unit.partition) for unit in job.plan.units]
        data = [partition for found in self._data.values() for partition in found]
        self._inside = Tap(cluster.log, [self._cuts, *data, *self._checkpoints])
        self._out = Tap(cluster.log, [] if out is None else [Partition(out, 0)])  # alone: nothing delays its records

    def __enter__(self) -> Trace:
        self._inside.__enter__()
        if self._out.partitions:
            self._out.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._inside.__exit__()
        self._out.__exit__()

    def cuts(self) -> list[CutAt]:
        """Of sources with one partition."""
        found: dict[int, CutAt] = {}
        for kept in self._inside.kept.get(self._cuts, []):
            with suppress(ValueError):
                cut = cuts.decode(kept.message.value() or b"")
                if isinstance(cut, Cut) and cut.ranges:
                    one = cut.ranges[0]
                    at = CutAt(cut.batch, one.start, one.stop, kept.message.timestamp()[1])
                    found.setdefault(cut.batch, at)
        return list(found.values())

    def frames(self) -> dict[str, dict[int, float]]:
        """When each operator's last frame of a batch was sent."""
        found: dict[str, dict[int, float]] = {}
        for operator, partitions in self._data.items():
            times = found[operator] = {}
            for kept in (one for partition in partitions for one in self._inside.kept.get(partition, [])):
                batch, at = unpack(kept.message.value() or b"").batch, kept.message.timestamp()[1]
                times[batch] = max(at, times.get(batch, 0))
        return found

    def rows(self) -> tuple[dict[int, float], dict[int, float]]:
        """When the first row of each batch was written, and when its last one was seen."""
        written: dict[int, float] = {}
        seen: dict[int, float] = {}
        for kept in (one for found in self._out.kept.values() for one in found):
            batch = int(dict(kept.message.headers() or [])["batch"])
            written.setdefault(batch, kept.message.timestamp()[1])
            seen[batch] = kept.seen_ms
        return written, seen

    def dirty_keys(self, partition: int) -> list[int]:
        """How many changed keys each run of one unit held."""
        runs: dict[str, int] = {}
        for kept in self._inside.kept.get(self._checkpoints[partition], []):
            record: CheckpointRecord = checkpoints.decode(kept.message.value() or b"")
            if isinstance(record, Part) and not record.sweep:
                run = str(record.run)
                runs[run] = runs.get(run, 0) + len(checkpoints.unpack(record.entries))
        return list(runs.values())
