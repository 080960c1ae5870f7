"""How many records each topic holds while a job runs for long: `python -m tests.simulation.growth --hours 24`.

Nothing fails here, so what grows grows by design. The simulated Kafka trims as it is asked to, and neither compacts nor
deletes by age: what is bounded by that (POLICED) is bounded by its settings, which tests/unit/test_topics.py holds.
"""

from __future__ import annotations

import argparse
import logging
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from unittest import mock

import structlog

from services.controller import drafting
from services.recovery import replica
from services.worker.core import cut_trimming
from tests.simulation.cluster import Cluster
from tests.simulation.engine import describe
from tests.simulation.history import seldom_collected, simulated_clock
from tests.simulation.jobs import NAME, Feed, planned
from tests.simulation.names import TOPICS, kind_of
from tests.simulation.timeline import EPOCH_MS

POLICED = frozenset({"heartbeats", "events", "status", "progress", "delivered", "dead-letters", "submit", "plans"})
"""Kinds of topics that Kafka compacts, or deletes by age; those that a person or the end of a job makes grow."""
HORIZON_S = 5
FEED_MS = 500
JOB = {
    "name": NAME,
    "replay_horizon_s": HORIZON_S,
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
}


@dataclass(slots=True)
class Growing:
    """The most records that a partition of a kind of topic held, by third of the run."""

    most: Mapping[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0, 0]))

    def look(self, cluster: Cluster, third: int) -> None:
        for one in cluster.broker.partitions():
            kind = kind_of(one.topic)
            if kind not in POLICED and one.topic.startswith(f"{TOPICS.prefix}."):
                self.most[kind][third] = max(self.most[kind][third], len(cluster.broker.stored(one).messages))


def grow(seconds: int) -> Growing:
    """The job runs for so long, and is fed all the time."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    made, found = planned(JOB, {"in-s": 2, "out-0": 1}), Growing()
    described = mock.patch.object(drafting, "Describer", return_value=describe)
    quick = mock.patch.multiple(cut_trimming, FEWEST_RECORDS=20, SHORTEST_MS=500)
    with seldom_collected(), described, quick:
        cluster = Cluster("growth", made, {"w0": "", "w1": ""}, 1, 1)
        with mock.patch.object(replica, "time", simulated_clock(cluster)):
            _run(cluster, seconds, found)
    return found


def _run(cluster: Cluster, seconds: int, found: Growing) -> None:
    random = Random("growth")
    cluster.submit(cluster.job.spec)
    for second in range(seconds):
        for at_ms in range(second * 1000, second * 1000 + 1000, FEED_MS):
            value = b'{"k": "k%d", "x": 1, "at": %d}' % (random.randrange(5), EPOCH_MS + at_ms)
            feed = Feed(at_ms, "in-s", random.randrange(2), (value,), False)
            cluster.timeline.at(at_ms * 1000, lambda feed=feed: cluster.feed(feed))  # type: ignore[misc]
        cluster.timeline.run((second + 1) * 1_000_000, cluster.wrong)
        assert not cluster.wrong, cluster.wrong
        found.look(cluster, 3 * second // seconds)
        cluster.broker.forget()


def main() -> None:
    parser = argparse.ArgumentParser(prog="growth", description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0, help="of simulated time")
    for kind, most in sorted(grow(round(parser.parse_args().hours * 3600)).most.items()):
        print(f"{kind:14} {most[0]:7,} {most[1]:7,} {most[2]:7,} records at most in a partition, by third of the run")


if __name__ == "__main__":
    main()
