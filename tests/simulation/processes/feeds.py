"""Records of a drawn job, drawn from a seed: mostly steady, skewed, some of them late or broken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import msgspec

from holdfast.schemas.cuts import NO_WATERMARK
from tests.simulation.kafka.timeline import EPOCH_MS
from tests.simulation.processes.jobs import TABLE, DrawnJob


@dataclass(frozen=True, slots=True)
class Feed:
    """Records that a user appends to one partition at one time."""

    at_ms: int
    topic: str
    partition: int
    values: tuple[bytes, ...]
    committed: bool = False
    """In a transaction: then a marker follows them."""


def draw_feed(random: Random, job: DrawnJob, until_ms: int) -> list[Feed]:
    """Records that the user appends until then: mostly steady, skewed, some of them late or broken."""
    feed = []
    keys = [f"k{i}" for i in range(random.choice((2, 5, 20)))]
    for topic in sorted({source["topic"] for source in job.spec["sources"].values()}):
        every_ms = random.choice((50, 100, 200, 400))
        most = 2 if any("join" in spec for spec in job.spec["operators"].values()) else random.choice((2, 5, 20))
        quiet_from = random.randint(0, 2 * until_ms)
        at_ms = random.randint(0, 500)
        while at_ms < until_ms:
            if not quiet_from < at_ms < quiet_from + 3_000:
                partition = random.randrange(job.topics[topic])
                made = _entry if topic == f"in-{TABLE}" else _record
                values = tuple(made(random, keys, at_ms) for _ in range(random.randint(1, most)))
                feed.append(Feed(at_ms, topic, partition, values, random.random() < 0.2))
            at_ms += random.randint(1, 2 * every_ms)
    return sorted(feed, key=lambda one: one.at_ms)


def draw_growth(random: Random, topic: str, partitions: Sequence[int], from_ms: int, until_ms: int) -> list[Feed]:
    """Records that the user appends to new partitions: at once, and then for a while."""
    feed, at_ms = [], from_ms
    while at_ms <= until_ms:
        values = tuple(_record(random, ["k0", "k1", "new"], at_ms) for _ in range(random.randint(1, 5)))
        feed.append(Feed(at_ms, topic, random.choice(partitions), values, random.random() < 0.2))
        at_ms += random.randint(1, 200)
    return feed


def _entry(random: Random, keys: list[str], at_ms: int) -> bytes:
    """A row of the table, or what is none."""
    if random.random() < 0.02:
        return random.choice((b"", b"{", b'{"c": 1}', b"\xff"))
    return msgspec.json.encode({"k": random.choice((None, *keys)), "c": at_ms})


def event_time_us(value: bytes) -> int:
    """Event time of a record as drawn; of one that has none, the lowest."""
    try:
        found = msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return NO_WATERMARK
    at = found.get("at") if isinstance(found, dict) else None
    return at * 1000 if isinstance(at, int) else NO_WATERMARK


def _record(random: Random, keys: list[str], at_ms: int) -> bytes:
    kind = random.random()
    if kind < 0.02:
        return random.choice((b"", b"{", b'{"k": 1}', b'{"k": "a", "x": "no", "at": 3}', b"\xff\x00"))
    late_ms = random.choice((3_000, 10_000)) if kind < 0.07 else random.randint(0, 300)
    record = {
        "k": None if random.random() < 0.03 else keys[min(int(random.expovariate(0.5)), len(keys) - 1)],
        "x": random.randint(0, 100),
        "y": None if random.random() < 0.1 else random.random(),
        "at": EPOCH_MS + at_ms - late_ms,
    }
    return msgspec.json.encode(record)
