"""Costs of protection while nothing fails: bytes and elements through Kafka, and throughput, scheme by scheme.

Source: MECHANISMS section 6, Z6. Bytes in are those that Kafka appended to the job's topics: the growth of its log
files, of deleted ones too. Bytes in and out are what the broker's process read and wrote (`rchar`, which counts what
comes from clients and what goes to them once each), heartbeats and our own looking on included. Elements are rows of
frames; sent ones count once for every copy that takes them in, as the paper counts messages between its queues.
"""

from __future__ import annotations

import os
import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from string import Template

from bench.failover.observer import Observer
from bench.measures.throughput import per_second
from bench.rig import jobs
from bench.rig.cluster import BenchCluster, now_ms
from bench.rig.feeder import Feeder
from bench.rig.figures import Figures
from bench.rig.followed import DEADLINE_S, Followed, MeasureFailed
from bench.rig.scale import Scale
from bench.rig.tap import Kept, PromptReader, Tap
from holdfast.schemas import checkpoints, commands
from holdfast.schemas.checkpoints import Part
from holdfast.schemas.frames import HEADER_BYTES
from holdfast.schemas.topics import JobTopics, Partition
from holdfast.services.kernel.codecs.fields import stream_schema
from holdfast.services.kernel.codecs.frames import FrameCodec
from holdfast.services.kernel.plans.layout import RemoteInput, unit_layouts

WORKERS = 4
SETTLING_S = 3.0
LOOK_S = 0.5
COVERED_S = 1.0
NONE = "none"
Look = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Variant:
    """A scheme as it is measured.

    receivers: number of copies of a unit that read its inputs.
    """

    scheme: str
    receivers: int
    inputs: str = "held"


@dataclass(frozen=True, slots=True)
class Load:
    """Load of a job.

    keys: number of keys of its records, in turn.
    """

    rate_per_s: float
    keys: int


USUAL = Load(5_000, 1_000)

VARIANTS: Mapping[str, Variant] = {
    NONE: Variant("none", 1),
    "passive": Variant("passive", 1),
    "hybrid": Variant("hybrid", 2),
    "hybrid_paused": Variant("hybrid", 1, "paused"),
    "active_standby": Variant("active-standby", 2),
    "active_replication": Variant("active-replication", 2),
}
"""Variants by name in the figures. Passive-hot has hybrid's flags: without failures both do the same."""


def overhead(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Overhead of each scheme by itself, in any order; then each over none.

    Bytes and elements do not depend on how fast the machine is at the moment, and are measured once. Throughput does:
    it is the median of rounds, in each of which every scheme has its turn.
    """
    chance, found = random.Random(), {variant: dict[str, float]() for variant in VARIANTS}
    rates: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    for number in range(scale.rounds):
        for variant in chance.sample(list(VARIANTS), len(VARIANTS)):
            one = f"{name}-{variant.replace('_', '-')}{number}"
            told = _one(cluster, one, VARIANTS[variant], scale, counted=number == 0)
            rates[variant].append(told["records_per_s"])
            found[variant] |= told
            figures = ", ".join(f"{figure} {value:,}" for figure, value in told.items())
            cluster.say(f"  {variant}: {figures}")
    for variant, each in rates.items():
        found[variant]["records_per_s"] = statistics.median(each)
    return over_none(found)


def over_none(found: Mapping[str, Figures]) -> Figures:
    """Every variant's figures, and their ratios to none's."""
    figures: Figures = {}
    for variant in VARIANTS:
        figures |= {f"{variant}_{figure}": value for figure, value in found[variant].items()}
        if variant != NONE:
            ratios = {name: value / found[NONE][name] for name, value in found[variant].items() if found[NONE][name]}
            figures |= {f"{variant}_{figure}_over_none": round(ratio, 3) for figure, ratio in ratios.items()}
    return figures


def _one(cluster: BenchCluster, name: str, variant: Variant, scale: Scale, *, counted: bool) -> Figures:
    """Throughput, and if counted bytes and elements too."""
    with settled(cluster, jobs.STEADY, name, variant) as (job, topic):
        figures: Figures = {}
        if counted:
            figures |= _bytes(cluster, job, topic, scale.seconds)
            figures |= elements(cluster, job, topic, variant, scale.seconds)
        return figures | {"records_per_s": round(_throughput(cluster, job, topic, scale))}


@contextmanager
def settled(
    cluster: BenchCluster, template: Template, name: str, variant: Variant, load: Load = USUAL
) -> Iterator[tuple[Followed, str]]:
    """The job, protected and fed for a while, and the topic that it reads."""
    topic = f"bench-{name}"
    cluster.create(topic)
    settings = {"scheme": variant.scheme, "inputs": variant.inputs}
    with (
        cluster.running(template, topic, name=name, **settings) as job,
        Observer(cluster.log, cluster.topics) as observer,
    ):
        job.await_running()
        job.until(observer.protected, "not protected")
        fed(cluster, job, topic, SETTLING_S, load=load)
        yield job, topic


def fed(
    cluster: BenchCluster, job: Followed, topic: str, seconds: float, look: Look = lambda: None, load: Load = USUAL
) -> int:
    """Feeds steadily, waits until all records are processed and covered by checkpoints; returns their number."""
    before = job.records

    def record(index: int) -> bytes:
        return jobs.record(index, load.keys, int(now_ms()))

    with Feeder(cluster.users_appender("feeder"), topic, load.rate_per_s, record) as feeder:
        for _ in range(int(seconds / LOOK_S)):
            job.watch(LOOK_S)
            look()
    job.await_records(before + len(feeder.sent_ms))
    job.watch(COVERED_S)
    look()
    return len(feeder.sent_ms)


# -- bytes ------------------------------------------------------------------------------------------------------------


def _bytes(cluster: BenchCluster, job: Followed, topic: str, seconds: float) -> Figures:
    """Bytes for each record of the source."""
    root = cluster.topics.job(job.plan.job, job.plan.generation).root + "."
    files, known = Files(cluster.folder / "kafka", root), cluster.files.cluster()
    assert known is not None
    assert known.kafka_pid is not None
    appended, through = files.bytes(), _through(known.kafka_pid)
    records = fed(cluster, job, topic, seconds, files.bytes)
    return {
        "bytes_in": round((files.bytes() - appended) / records, 1),
        "bytes_in_and_out": round((_through(known.kafka_pid) - through) / records, 1),
    }


class Files:
    """The log files of some topics. A trim deletes whole files: what they held still counts."""

    def __init__(self, folder: Path, root: str) -> None:
        self._folder = folder
        self._root = root
        self._sizes: dict[str, int] = {}

    def bytes(self) -> int:
        """Appended so far."""
        for path, _, names in os.walk(self._folder):
            if Path(path).name.startswith(self._root):
                for name in names:
                    if name.endswith(".log"):
                        self._see(Path(path, name))
        return sum(self._sizes.values())

    def _see(self, file: Path) -> None:
        try:
            self._sizes[str(file)] = max(file.stat().st_size, self._sizes.get(str(file), 0))
        except FileNotFoundError:
            return  # deleted meanwhile


def _through(pid: int) -> int:
    """Bytes that a process has read; what it sends from a file to a client it reads as well."""
    fields = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(fields["rchar"])


# -- elements ---------------------------------------------------------------------------------------------------------


def elements(
    cluster: BenchCluster, job: Followed, topic: str, variant: Variant, seconds: float, load: Load = USUAL
) -> Figures:
    """Rows appended, rows sent, and entries of checkpoints, for each record of the source."""
    topics = cluster.topics.job(job.plan.job, job.plan.generation)
    data = codecs(job, topics)
    logs = [Partition(topics.checkpoints, unit.partition) for unit in job.plan.units]
    starts = cluster.log.offsets([*data, *logs], "end")
    with Tap(PromptReader(cluster.bootstrap_servers, starts)) as tap:
        records = fed(cluster, job, topic, seconds, load=load)
        ends = cluster.log.offsets(list(starts), "end")
        job.watch(COVERED_S)  # so that all of that is read
    values = {each: whole(tap.kept.get(each, []), start, ends[each]) for each, start in starts.items()}
    rows = sum(codec.decode(payloads(values[each])).height for each, codec in data.items())
    written = sum(entries(record) for each in logs for record in values[each])
    return {
        "rows_in": round(rows / records, 3),
        "rows_sent": round(rows * variant.receivers / records, 3),
        "checkpoint_entries": round(written / records, 3),
    }


def whole(kept: Sequence[Kept], start: int, end: int) -> list[bytes]:
    """Records between these positions. Raises MeasureFailed if they were trimmed before they were read."""
    read = {one.message.offset(): one.message.value() or b"" for one in kept}
    if missing := sum(offset not in read for offset in range(start, end)):
        raise MeasureFailed(f"{missing} of {end - start} records were trimmed before they were counted")
    return [read[offset] for offset in range(start, end)]


def payloads(frames: Sequence[bytes]) -> list[memoryview]:
    """Payloads of the frames that have rows."""
    return [memoryview(frame)[HEADER_BYTES:] for frame in frames if len(frame) > HEADER_BYTES]


def codecs(job: Followed, topics: JobTopics, unit: str | None = None) -> dict[Partition, FrameCodec]:
    """Codecs for the frames of each data partition, or of those that one unit reads."""
    found = {}
    layouts = unit_layouts(job.plan, topics)
    for layout in layouts.values() if unit is None else [layouts[unit]]:
        for task in layout.tasks:
            for slot, each in enumerate(task.inputs):
                if isinstance(each, RemoteInput):
                    found[each.partition] = FrameCodec(stream_schema(task.input_fields[slot]))
    return found


def entries(value: bytes) -> int:
    record = checkpoints.decode(value)
    return len(checkpoints.unpack(record.entries)) if isinstance(record, Part) else 0


# -- throughput -------------------------------------------------------------------------------------------------------


def _throughput(cluster: BenchCluster, job: Followed, topic: str, scale: Scale) -> float:
    """Records per second of a backlog that was built while the job was paused, with all copies placed as the scheme
    requires.
    """
    _tell(cluster, job, "pause")
    job.until(lambda: job.state == "paused", "the job does not pause")
    start, before, first = int(now_ms()), job.records, len(job.reached)
    cluster.preload(topic, scale.records, USUAL.keys, lambda _: start)
    _tell(cluster, job, "resume")
    job.await_records(before + scale.records)
    return per_second([one for one in job.reached[first:] if one.records > before])


def _tell(cluster: BenchCluster, job: Followed, command: str) -> None:
    record = commands.encode(commands.Command(command, job.plan.job))
    cluster.appender.append(Partition(cluster.topics.submit, 0), record)
    cluster.appender.flush(DEADLINE_S)
