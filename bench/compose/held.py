"""Memory and disk of a compose project: each kind of process, bytes of each topic on a broker's disk."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from bench.compose.project import DockerFailed, Project
from bench.rig.figures import Figures

SETTLED_S = 300.0
"""Time from the beginning after which the memory of a process is what it needs."""
DATA = "/var/lib/kafka/data"
KIB = 2**10
_MODULE, _PARTITION = re.compile(r" -m holdfast\.services\.(\S+)"), re.compile(r"(.+)-\d+")
_JOB = re.compile(r"(.+)\.\d+-[0-9a-f]{6}\.(.+)")
_NUMBERED = re.compile(r"-\d+$")

BOUNDS_MIB: Mapping[str, float] = {
    "cuts": 128,
    "data": 64,
    "checkpoints": 32,
    "progress": 8,
    "delivered": 24,
    "heartbeats": 32,
    "assignments": 40,
    "events": 32,
    "plans": 8,
    "status": 8,
    "submit": 8,
    "dead-letters": 1,
    "__transaction_state": 160,
    "__consumer_offsets": 40,
}
"""Bounds of each topic on one broker for a job of 2,000 records/s with 10,000 keys, with the segments that
docs/bounds.md
names: cuts of an hour, frames of 32 MiB ahead of their readers, four times the state, ten minutes of heartbeats and
marks.
"""

Sample = Mapping[str, float]


class Held:
    """Samples of memory and topics at each `look`, with the seconds since the beginning."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.memory_mib: list[tuple[float, Sample]] = []
        self.topics_mib: list[tuple[float, Sample]] = []

    def look(self, seconds: float) -> None:
        """Samples the running containers; a stopped container is left out."""
        memory: dict[str, float] = defaultdict(float)
        topics: dict[str, float] = defaultdict(float)
        docker = self._project.docker
        for service, container in self._project.running().items():
            with suppress(DockerFailed):
                for kind, held in processes(service, docker("top", container, "-eo", "pid,rss,args")).items():
                    memory[kind] = max(memory[kind], held)
                if service.startswith("kafka"):
                    for topic, held in by_topic(docker("exec", container, "du", "-k", "-d", "1", DATA)).items():
                        topics[topic] = max(topics[topic], held)
        self.memory_mib.append((seconds, dict(memory)))
        self.topics_mib.append((seconds, dict(topics)))

    def figures(self, say: Callable[[str], None]) -> Figures:
        """Growth of memory only where there was time for it."""
        grown, most = growth(self.memory_mib), peaks(self.topics_mib)
        for kind, (before, after) in grown.items():
            at_s = next(at for at, sample in self.memory_mib if at > SETTLED_S and sample.get(kind) == after)
            when = f"{after:.0f}, {at_s / 60:.1f} minutes after the beginning"
            say(f"  memory of {kind}: {before:.0f} MiB at most in the first five minutes, then {when}")
        above = above_bounds(most)
        for topic, held in sorted(most.items(), key=lambda item: -item[1]):
            say(f"  {topic}: {held:.1f} MiB at most{', above its bound' if topic in above else ''}")
        found: Figures = {"topics_above_bound": len(above)}
        for name, ours in (("memory_growth_pct", True), ("brokers_memory_growth_pct", False)):
            some = [100 * (after / before - 1) for kind, (before, after) in grown.items() if (kind != "kafka") == ours]
            if some:
                found[name] = round(max(some), 1)
        return found


def processes(service: str, top: str) -> dict[str, float]:
    """The largest memory of one process of each kind, MiB. Short-lived processes, such as health checks, are left out.

    Args:
        top: lines of a process number, kB of resident memory and the command.
    """
    found: dict[str, float] = defaultdict(float)
    name = _NUMBERED.sub("", service)
    for line in top.splitlines()[1:]:
        _, kib, command = line.split(None, 2)
        module = _MODULE.search(command)
        if module is not None:
            kind = f"{name}, {module[1]}"
        elif "java" in command.split(None, 1)[0]:
            kind = name
        elif "holdfast serve" in command:
            kind = f"{name}, its parent"
        else:
            continue
        found[kind] = max(found[kind], int(kib) / KIB)
    return dict(found)


def by_topic(du: str) -> dict[str, float]:
    """MiB of all partitions; of a job's topic without its name and generation, of the cluster's without the prefix.

    Args:
        du: lines of kB and a folder.
    """
    found: dict[str, float] = defaultdict(float)
    for line in du.splitlines():
        kib, folder = line.split(None, 1)
        named = _PARTITION.fullmatch(folder.rpartition("/")[2])
        if named is not None:
            own = _JOB.fullmatch(named[1])
            found[own[2] if own else named[1]] += int(kib) / KIB
    return dict(found)


def growth(samples: Sequence[tuple[float, Sample]]) -> dict[str, tuple[float, float]]:
    """Maximum of each kind in the first five minutes, and after them."""
    kinds = sorted({kind for _, sample in samples for kind in sample})
    found = {}
    for kind in kinds:
        before = [sample[kind] for at, sample in samples if kind in sample and at <= SETTLED_S]
        after = [sample[kind] for at, sample in samples if kind in sample and at > SETTLED_S]
        if before and after:
            found[kind] = (max(before), max(after))
    return found


def peaks(samples: Sequence[tuple[float, Sample]]) -> dict[str, float]:
    topics = {topic for _, sample in samples for topic in sample}
    return {topic: max(sample.get(topic, 0.0) for _, sample in samples) for topic in topics}


def above_bounds(peaks_mib: Mapping[str, float]) -> list[str]:
    """Topics of the product and of Kafka's transactions above their bounds; users' topics have bounds of their own."""
    return [topic for topic, held in peaks_mib.items() if held > _bound(topic)]


def _bound(topic: str) -> float:
    if topic in BOUNDS_MIB:
        return BOUNDS_MIB[topic]
    named = (bound for name, bound in BOUNDS_MIB.items() if topic.startswith(f"{name}.") or topic.endswith(f".{name}"))
    return next(named, float("inf"))
