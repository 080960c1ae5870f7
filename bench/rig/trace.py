"""Reads live when each batch of a job passed where: cuts, frames and checkpoints are trimmed soon after."""

from __future__ import annotations

from contextlib import ExitStack, suppress

from bench.rig.cluster import BenchCluster
from bench.rig.followed import Followed
from bench.rig.hops import CutAt
from bench.rig.tap import SeldomReader, Tap
from holdfast.schemas import checkpoints, cuts
from holdfast.schemas.checkpoints import CheckpointRecord, Part
from holdfast.schemas.cuts import Cut
from holdfast.schemas.frames import unpack
from holdfast.schemas.topics import Partition


class Trace:
    """The cuts, frames and checkpoint records of one job from now on, its results when `out` is given."""

    def __init__(self, cluster: BenchCluster, job: Followed, out: str | None = None) -> None:
        topics = cluster.topics.job(job.plan.job, job.plan.generation)
        self._data = job.data_partitions()
        self._cuts = Partition(topics.cuts, 0)
        self._checkpoints = [Partition(topics.checkpoints, unit.partition) for unit in job.plan.units]
        data = [partition for found in self._data.values() for partition in found]
        inside = [self._cuts, *data, *self._checkpoints]
        self._taps = ExitStack()
        self._inside = Tap(SeldomReader(cluster.bootstrap_servers, inside))
        self._out: Tap | None = None
        if out is not None:
            reader = cluster.log.reader("bench-out")
            reader.assign({Partition(out, 0): 0})
            self._out = Tap(reader)

    def __enter__(self) -> Trace:
        for tap in (self._inside, self._out):
            if tap is not None:
                self._taps.enter_context(tap)
        return self

    def __exit__(self, *_: object) -> None:
        self._taps.close()

    def cuts(self) -> list[CutAt]:
        """Cuts of sources with one partition."""
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
        """Time at which each operator's last frame of a batch was sent."""
        found: dict[str, dict[int, float]] = {}
        for operator, partitions in self._data.items():
            times = found[operator] = {}
            for kept in (one for partition in partitions for one in self._inside.kept.get(partition, [])):
                batch, at = unpack(kept.message.value() or b"").batch, kept.message.timestamp()[1]
                times[batch] = max(at, times.get(batch, 0))
        return found

    def rows(self) -> tuple[dict[int, float], dict[int, float]]:
        """Time at which the first row of each batch was written, and at which its last one was seen."""
        written: dict[int, float] = {}
        seen: dict[int, float] = {}
        assert self._out is not None
        for kept in (one for found in self._out.kept.values() for one in found):
            batch = int(dict(kept.message.headers() or [])["batch"])
            written.setdefault(batch, kept.message.timestamp()[1])
            seen[batch] = kept.seen_ms
        return written, seen

    def dirty_keys(self, partition: int) -> list[int]:
        """Number of changed keys in each run of one unit."""
        runs: dict[str, int] = {}
        for kept in self._inside.kept.get(self._checkpoints[partition], []):
            record: CheckpointRecord = checkpoints.decode(kept.message.value() or b"")
            if isinstance(record, Part) and not record.sweep:
                run = str(record.run)
                runs[run] = runs.get(run, 0) + len(checkpoints.unpack(record.entries))
        return list(runs.values())
