"""Growth of topics while a job runs for long: `python -m tests.simulation.growth --hours 24`.

A day takes two minutes of CPU: while nothing happens, time passes in large steps (CALM), and records are few. Each hour
another job is submitted and, an hour later, cancelled, a worker is killed, and a bad record comes. The simulated Kafka
trims as it is asked to; compaction and retention, which it has not, are done here as each topic's settings say.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from random import Random
from types import ModuleType
from typing import Any
from unittest import mock

import structlog

from holdfast.schemas.topics import Partition
from holdfast.services.controller import conductor, drafter, polled_conductor
from holdfast.services.decisions import jobs as folding
from holdfast.services.kernel.liveness import attention
from holdfast.services.recovery import replica
from holdfast.services.recovery.core import recovery
from holdfast.services.worker.core import cut_rhythm, cut_trims
from holdfast.services.worker.sources import cut_trimmer
from holdfast.services.worker.unit.checkpoints import trimmer
from holdfast.services.worker.unit.turns import progress_publisher
from tests.simulation.kafka import broker
from tests.simulation.kafka.broker import Broker
from tests.simulation.kafka.names import TOPICS, kind_of
from tests.simulation.kafka.timeline import EPOCH_MS
from tests.simulation.processes import hosts
from tests.simulation.processes import services as processes
from tests.simulation.processes.cluster import Cluster
from tests.simulation.processes.engine import describe
from tests.simulation.processes.feeds import Feed
from tests.simulation.processes.jobs import NAME, planned
from tests.simulation.report.history import seldom_collected, simulated_clock

MIB = 1024 * 1024
RECORD_BYTES = 70
"""Size that Kafka takes for a record that comes alone, beside its key and value."""
POLICE_S, HOUR_S = 60, 3_600
KEPT_JOBS = 3
JOB: dict[str, Any] = {
    "name": NAME,
    "keep_dead_letters_s": HOUR_S,
    "sources": {
        "s": {
            "topic": "in-s",
            "fields": {"k": "string", "x": "int", "at": "timestamp"},
            "event_time": "at",
            "unit": "ms",
            "parallelism": 2,
        }
    },
    "operators": {"n": {"aggregate": {"n": "count()"}, "key": ["k"], "input": "s", "parallelism": 2}},
    "queries": {"q": {"input": "n", "sink": {"topic": "out-0"}}},
    "batch_interval_ms": 100,
    "fault_tolerance": {"default": {"scheme": "none"}},
}


@dataclass(frozen=True, slots=True)
class Pace:
    """Pace of time. feed_ms: between two records. slow: by how much longer processes rest than they really do."""

    feed_ms: int
    horizon_s: int
    slow: int = 1


QUICK, CALM = Pace(500, 5), Pace(120_000, 600, slow=100)
_RESTS: tuple[tuple[ModuleType, str], ...] = (
    (processes, "BEAT_US"),
    (hosts, "BEAT_US"),
    (processes, "MAX_IDLE_US"),
    (hosts, "MAX_IDLE_US"),
    (hosts, "IDLES_US"),
    (attention, "LOOP_US"),
    (attention, "OUTAGE_US"),
    (attention, "RECONNECT_US"),
    (recovery, "LOOP_US"),
    (recovery, "SWEEP_US"),
    (recovery, "WHOLE_US"),
    (processes, "ECHO_MS"),
    (replica, "ECHO_MS"),
    (polled_conductor, "TICK_MS"),
    (conductor, "ROOT_MS"),
    (cut_rhythm, "IDLE_CUT_MS"),
    (cut_rhythm, "REST_CUT_MS"),
    (cut_trimmer, "LOOK_MS"),
    (trimmer, "OUTPUT_MS"),
    (trimmer, "ANCHOR_MS"),
    (progress_publisher, "PROGRESS_MS"),
)
"""Pauses between actions that processes repeat while nothing happens."""


@dataclass(slots=True)
class Growing:
    """The most records that a partition of a kind of topic held, and bytes of all of them, by third of the run."""

    records: Mapping[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0, 0]))
    bytes: Mapping[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0, 0]))

    def look(self, cluster: Cluster, third: int) -> None:
        sizes: dict[str, int] = defaultdict(int)
        for one in cluster.broker.partitions():
            if not one.topic.startswith(f"{TOPICS.prefix}."):
                continue
            kind, held = kind_of(one.topic), _held(cluster.broker, one)
            self.records[kind][third] = max(self.records[kind][third], len(held))
            sizes[kind] += sum(held)
        for kind, size in sizes.items():
            self.bytes[kind][third] = max(self.bytes[kind][third], size)

    @property
    def most_mib(self) -> float:
        """Maximum of all topics together, where each has its most."""
        return sum(max(sizes) for sizes in self.bytes.values()) / MIB

    def not_flat(self) -> list[str]:
        """Kinds that hold more in the last third than in the one before, by more than a tenth and a saw's tooth."""
        return [kind for kind, (_, was, now) in self.bytes.items() if now > 1.1 * was + 64 * 1024]


def _held(broker: Broker, one: Partition) -> list[int]:
    """The bytes of each record."""
    stored = broker.stored(one)
    return [
        RECORD_BYTES + len(message.value() or b"") + len(message.key() or b"")
        for message in stored.read(stored.start, len(stored.messages))
    ]


def police(broker: Broker, now_ms: int) -> None:
    """Compacts, and deletes by age and bytes, what each topic's settings say; all but what is being written."""
    for one in broker.partitions():
        config, stored = broker.config(one.topic), broker.stored(one)
        if config.get("cleanup.policy") == "compact":
            broker.compact(one, now_ms - int(config["segment.ms"]), now_ms - int(config["delete.retention.ms"]))
            continue
        keeps_ms, keeps = int(config.get("retention.ms", -1)), int(config.get("retention.bytes", -1))
        over = sum(_held(broker, one)) - keeps if keeps >= 0 else 0
        upto = stored.start
        for message in stored.read(stored.start, len(stored.messages)):
            old = 0 <= keeps_ms < now_ms - message.timestamp()[1]
            if not old and over <= 0:
                break
            over -= RECORD_BYTES + len(message.value() or b"") + len(message.key() or b"")
            upto = message.offset() + 1
        stored.trim(upto)


def grow(seconds: int, pace: Pace = QUICK) -> Growing:
    """The job runs for so long, and is fed all the time."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    job = JOB | {"replay_horizon_s": pace.horizon_s}
    if pace.slow > 1:
        job |= {"fault_tolerance": {"default": {"scheme": "none"}, "checkpoint": {"interval_ms": 500 * pace.slow}}}
    made, found = planned(job, {"in-s": 2, "out-0": 1}), Growing()
    with seldom_collected(), _patched(pace):
        cluster = Cluster("growth", made, {"w0": "", "w1": ""}, 1, 1)
        with mock.patch.object(replica, "time", simulated_clock(cluster)):
            _run(cluster, seconds, found, pace, job)
    return found


@contextmanager
def _patched(pace: Pace) -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(drafter, "Describer", return_value=describe))
        stack.enter_context(mock.patch.multiple(cut_trims, FEWEST_RECORDS=20, SHORTEST_MS=500))
        stack.enter_context(mock.patch.object(broker, "replayed", return_value=False))  # no checker will ask for it
        stack.enter_context(mock.patch.object(folding, "KEPT_OVER", KEPT_JOBS))
        for module, name in _RESTS if pace.slow > 1 else ():
            rest = getattr(module, name)
            longer = tuple(one * pace.slow for one in rest) if isinstance(rest, tuple) else rest * pace.slow
            stack.enter_context(mock.patch.object(module, name, longer))
        yield


def _run(cluster: Cluster, seconds: int, found: Growing, pace: Pace, job: Mapping[str, Any]) -> None:
    random, step_s = Random("growth"), max(1, pace.feed_ms // 1000)
    cluster.submit(cluster.job.spec)
    for second in range(0, seconds, step_s):
        for at_ms in range(second * 1000, (second + step_s) * 1000, pace.feed_ms):
            _feed(cluster, at_ms, random)
        if second and second % HOUR_S < step_s:
            _hourly(cluster, second // HOUR_S, job)
        cluster.timeline.run((second + step_s) * 1_000_000, cluster.wrong)
        assert not cluster.wrong, cluster.wrong
        if second % POLICE_S < step_s:
            police(cluster.broker, cluster.timeline.time_ms)
        found.look(cluster, 3 * second // seconds)
        cluster.broker.forget()


def _feed(cluster: Cluster, at_ms: int, random: Random) -> None:
    value = b'{"k": "k%d", "x": 1, "at": %d}' % (random.randrange(5), EPOCH_MS + at_ms)
    feed = Feed(at_ms, "in-s", random.randrange(2), (value,), False)
    cluster.timeline.at(at_ms * 1000, lambda: cluster.feed(feed))


def _hourly(cluster: Cluster, hour: int, job: Mapping[str, Any]) -> None:
    """Another job comes, and the one of the hour before goes; a worker is killed; a bad record comes."""
    cluster.submit({**job, "name": f"hour-{hour}"})
    cluster.submit({"command": "cancel", "job": f"hour-{hour - 1}"})
    cluster.crash("w1", 1_000, notice=True)
    cluster.feed(Feed(0, "in-s", 0, (b"no record",), False))


def main() -> None:
    parser = argparse.ArgumentParser(prog="growth", description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0, help="of simulated time")
    parser.add_argument("--quick", action="store_true", help="two records a second, and no large steps")
    given = parser.parse_args()
    began_s = time.process_time()
    found = grow(round(given.hours * HOUR_S), QUICK if given.quick else CALM)
    for kind, most in sorted(found.records.items()):
        kib = [size / 1024 for size in found.bytes[kind]]
        print(f"{kind:14}" + "".join(f"{n:8,} records {size:9,.1f} KiB" for n, size in zip(most, kib, strict=True)))
    print(f"by third of the run the most records of a partition, and the most KiB; together {found.most_mib:.1f} MiB")
    print(f"not flat: {', '.join(found.not_flat()) or 'none'}; {time.process_time() - began_s:.0f} s of CPU")


if __name__ == "__main__":
    main()
