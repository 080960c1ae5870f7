"""Records on a running job's own topics that are not its: skipped and told of, and every row comes out once."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
import xxhash

from schemas import checkpoints, delivered, events, frames, progress
from schemas.checkpoints import Anchor, Position
from schemas.decided import Id
from schemas.delivered import Delivered
from schemas.frames import HEADER_BYTES, Header
from schemas.progress import Progress
from schemas.topics import Partition
from services.kernel.planning.layout import data_topics
from tests.support.memory_cluster import MemoryCluster
from tests.support.orders import JOB, check, orders

BUSY = JOB + "fault_tolerance: {checkpoint: {interval_ms: 50}}\n"
RUBBISH = (b"", b"\x00", b"\xff" * 7, b"{}", b"[]", b"null", b"\x01" + b"\x00" * 43, b"\x01" * 200, b"{" * 10_000)


def append(cluster: MemoryCluster, partition: Partition, *values: bytes) -> None:
    appender = cluster.log.appender("somebody")
    for value in values:
        appender.append(partition, value)


def own(cluster: MemoryCluster) -> list[Partition]:
    """Every partition of the job's own topics."""
    topics, units = cluster.topics, len(cluster.plan.units)
    found = {topics.cuts: 1, topics.progress: 1, topics.checkpoints: units, topics.delivered: units}
    return [Partition(name, i) for name, count in (found | data_topics(cluster.plan)).items() for i in range(count)]


def refused(cluster: MemoryCluster) -> set[str]:
    """Topics of which a record was told of as refused."""
    told = (events.decode(m.value() or b"") for m in cluster.log.scan(Partition(cluster.cluster.events, 0)))
    return {event.topic for event in told if event.kind == "record-refused"}


Stranger = Callable[[MemoryCluster], None]


def run(stranger: Stranger, takeover: bool = False) -> MemoryCluster:
    """A job at whose topics a stranger writes while it runs; its workers are killed after that, or not."""
    fed = orders(300)
    cluster = MemoryCluster(BUSY)
    first = cluster.start("w1")
    cluster.place({unit: [first] for unit in cluster.units})
    for start in range(0, 300, 100):
        for partition in (0, 1):
            cluster.feed("orders", fed[start + partition : start + 100 : 2], partition)
        cluster.turn(300)
        stranger(cluster)
        if takeover and start == 100:
            cluster.kill("w1")
            second = cluster.start("w2")
            cluster.place({unit: [second] for unit in cluster.units})
    cluster.run_to_end()
    check(cluster.rows, fed)
    return cluster


@pytest.mark.parametrize("takeover", [False, True])
def test_rubbish_on_every_topic_of_a_job(takeover: bool) -> None:
    def litter(cluster: MemoryCluster) -> None:
        for one in own(cluster):
            append(cluster, one, *RUBBISH)

    cluster = run(litter, takeover)
    assert refused(cluster) >= {one.topic for one in own(cluster)} - {cluster.topics.delivered}


def forged(cluster: MemoryCluster, value: bytes, **fields: int) -> bytes:
    """A frame that was sent, with something else in its header, or behind it."""
    header = frames.unpack(value)._replace(**fields)
    return header.pack() + value[HEADER_BYTES:]


def newest(cluster: MemoryCluster, partition: Partition) -> bytes | None:
    last = cluster.log.last(partition)
    return None if last is None else last.value()


FORGED: dict[str, Callable[[Header], dict[str, int]]] = {
    "a batch far ahead": lambda header: {"batch": header.batch + 1_000, "payload_hash": xxhash.xxh3_64_intdigest(b"")},
    "the last batch there can be": lambda header: {"batch": 2**64 - 1},
    "the next batch, with another payload": lambda header: {
        "batch": header.batch + 1,
        "payload_hash": 7,
    },
    "the same batch, with another payload": lambda header: {"payload_hash": 7},
    "another version": lambda header: {"version": 9},
    "another generation": lambda header: {"generation": 1},
    "a writer that there is not": lambda header: {"writer": 999},
    "no parts": lambda header: {"batch": header.batch + 1, "parts": 0},
    "a part behind the last": lambda header: {"batch": header.batch + 1, "part": 7, "parts": 3},
    "another schema": lambda header: {"batch": header.batch + 1, "schema": 1},
}


@pytest.mark.parametrize("takeover", [False, True])
@pytest.mark.parametrize("name", FORGED)
def test_a_forged_frame_takes_no_frames_place(name: str, takeover: bool) -> None:
    def forge(cluster: MemoryCluster) -> None:
        for topic, count in data_topics(cluster.plan).items():
            for partition in (Partition(topic, index) for index in range(count)):
                value = newest(cluster, partition)
                if value is not None and len(value) >= HEADER_BYTES:
                    append(cluster, partition, forged(cluster, value, **FORGED[name](frames.unpack(value))))

    run(forge, takeover)


@pytest.mark.parametrize("body", [b"x", b"\xff" * 64, b"\x00" * 200])
def test_a_frame_whose_body_are_no_rows_takes_no_frames_place(body: bytes) -> None:
    def forge(cluster: MemoryCluster) -> None:
        for topic in data_topics(cluster.plan):
            value = newest(cluster, Partition(topic, 0))
            if value is not None and len(value) >= HEADER_BYTES:
                header = frames.unpack(value)
                sealed = header._replace(batch=header.batch + 1, payload_hash=xxhash.xxh3_64_intdigest(body))
                append(cluster, Partition(topic, 0), sealed.pack() + body)

    cluster = run(forge)
    assert refused(cluster) == set(data_topics(cluster.plan))


@pytest.mark.parametrize("upto", [1, 5, 50, 10**9, 2**53])
def test_an_anchor_that_no_copy_wrote_makes_nobody_trim_or_forget(upto: int) -> None:
    def anchor(cluster: MemoryCluster) -> None:
        for index in range(len(cluster.plan.units)):
            record = checkpoints.encode(Anchor(upto, Id("somebody", 3), 2))
            append(cluster, Partition(cluster.topics.checkpoints, index), record)

    run(anchor, takeover=True)


@pytest.mark.parametrize("batch", [10**6, 2**53])
def test_a_delivered_position_ahead_of_every_batch_is_not_believed(batch: int) -> None:
    def deliver(cluster: MemoryCluster) -> None:
        for unit in cluster.plan.units:
            record = delivered.encode(Delivered(unit.name, batch, 1))
            append(cluster, Partition(cluster.topics.delivered, unit.partition), record)

    cluster = run(deliver, takeover=True)
    assert cluster.topics.delivered in refused(cluster)


@pytest.mark.parametrize("acked", [1, 10**6, 2**53])
def test_progress_that_nobody_made_trims_nothing_that_is_needed(acked: int) -> None:
    def tell(cluster: MemoryCluster) -> None:
        positions = tuple(Position(t, i, 10**6) for t, n in data_topics(cluster.plan).items() for i in range(n))
        for unit in cluster.plan.units:
            record = Progress(unit.name, acked, acked, positions, records=2**53)
            append(cluster, Partition(cluster.topics.progress, 0), progress.encode(record))

    run(tell, takeover=True)


def test_fields_that_a_newer_version_adds_are_passed_over() -> None:
    def newer(cluster: MemoryCluster) -> None:
        record = msgspec.json.decode(progress.encode(Progress(cluster.plan.units[0].name, 1, 0)))
        append(cluster, Partition(cluster.topics.progress, 0), msgspec.json.encode(record | {"mood": "calm"}))

    run(newer)
