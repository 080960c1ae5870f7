"""Time of a takeover by the size of the state. Source: PROTOCOL 6 (the backup keeps a warm image)."""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterator
from contextlib import contextmanager

from bench.failover.arrivals import Arrivals
from bench.failover.observer import Observer
from bench.failover.rounds import Struck
from bench.rig import jobs
from bench.rig.cluster import BenchCluster, now_ms
from bench.rig.feeder import Feeder
from bench.rig.figures import Figures, beside
from bench.rig.followed import DEADLINE_S
from bench.rig.scale import Scale

SMALL = 1_000
RATE_PER_S = 1_000


def takeover_size(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Two hybrid jobs in one cluster, of 1,000 keys and of many; the unit with the state is killed of each in turn."""
    chance = random.Random(1)
    found: dict[str, list[float]] = {"small": [], "large": []}
    observer = Observer(cluster.log, cluster.topics)
    with (
        observer,
        _sized(cluster, f"{name}-small", SMALL, observer, chance) as small,
        _sized(cluster, f"{name}-large", scale.state_keys, observer, chance) as large,
    ):
        for _ in range(scale.kills):
            for size, struck in (("small", small), ("large", large)):
                found[size].append(struck.takeover_ms("count"))
                cluster.say(f"  {size} state: {found[size][-1]:.0f} ms")
        small.settle()
    return grown(found["small"], found["large"]) | {"large_keys": scale.state_keys}


@contextmanager
def _sized(cluster: BenchCluster, name: str, keys: int, observer: Observer, chance: random.Random) -> Iterator[Struck]:
    """A job with this number of keys, and a low rate of results."""
    topic, start = f"bench-{name}", int(now_ms())
    cluster.create(topic)
    cluster.preload(topic, keys, keys, lambda _: start)
    cluster.say(f"  {keys:,} keys are preloaded")
    with cluster.running(jobs.SIZED, topic, name=name) as job:
        job.await_records(keys)
        feeder = Feeder(cluster.users_appender("feeder"), topic, RATE_PER_S, lambda index: _record(index, keys))
        with Arrivals(cluster.log, f"{topic}-out") as arrivals, feeder:
            yield Struck(cluster, job, observer, arrivals, chance, patience_s=DEADLINE_S)


def _record(index: int, keys: int) -> bytes:
    at = int(now_ms())
    return b'{"user":"%s","amount":%d,"at":%d}' % (jobs.key(index, keys), at, at)


def grown(small: list[float], large: list[float]) -> Figures:
    """And how many times as long it takes with the large state."""
    share = statistics.median(large) / statistics.median(small)
    return beside(small=small, large=large) | {"large_over_small": round(share, 2)}
