"""Records on a running job's own topics that are not its own: skipped and reported, and every row comes out once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import xxhash

from holdfast.schemas import checkpoints, cuts, delivered, events, frames, plans, progress
from holdfast.schemas.checkpoints import Anchor, Position
from holdfast.schemas.cuts import Cut, Range
from holdfast.schemas.decided import Id
from holdfast.schemas.delivered import Delivered
from holdfast.schemas.frames import HEADER_BYTES, Header
from holdfast.schemas.plans import Skip
from holdfast.schemas.progress import Progress
from holdfast.schemas.topics import Partition
from holdfast.services.audit import replay as replaying
from holdfast.services.client import bad_records
from holdfast.services.kernel.errors import CommandFailed
from holdfast.services.kernel.plans.layout import data_topics
from holdfast.services.view.door import Door, Whereabouts
from tests.support.memory_cluster import GENERATION, MemoryCluster
from tests.support.orders import JOB, check, orders

BUSY = JOB + "fault_tolerance: {default: {scheme: none}, checkpoint: {interval_ms: 50}}\n"
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
    """Topics of which a record was reported as refused."""
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


# -- what a person must decide ----------------------------------------------------------------------------------------


def skip(cluster: MemoryCluster, partition: Partition, offset: int) -> None:
    one = Skip("orders", GENERATION, partition.topic, partition.index, offset)
    append(cluster, Partition(cluster.cluster.plans, 0), plans.encode(one))


def door(cluster: MemoryCluster) -> Door:
    """For the command line, onto a log in memory."""
    log: Any = cluster.log
    return Door(log, cluster.cluster, cluster.log.topics(), Whereabouts(Path(), "", "t", True))


def running(cluster: MemoryCluster, fed: list[dict[str, Any]]) -> None:
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in cluster.units})
    for partition in (0, 1):
        cluster.feed("orders", fed[partition:200:2], partition)
    cluster.turn(300)


def states(cluster: MemoryCluster) -> dict[str, str]:
    return {copy.unit.split("/")[1]: copy.state for worker in cluster.workers.values() for copy in worker.copies()}


@pytest.mark.parametrize("takeover", [False, True])
def test_a_cut_of_records_that_do_not_exist_fails_the_job_with_its_cause_until_it_is_skipped(takeover: bool) -> None:
    """It hung for ever, and every copy of it said that it ran."""
    fed = orders(300)
    cluster = MemoryCluster(BUSY)
    running(cluster, fed)
    at = Partition(cluster.topics.cuts, 0)
    last = [record for m in cluster.log.scan(at) if isinstance(record := cuts.decode(m.value() or b""), Cut)]
    cut = [record for record in last if record.task == "orders-0"][-1]
    ahead = tuple(Range(r.partition, r.stop, r.stop + 10**9) for r in cut.ranges)
    forged = Cut(cut.task, cut.batch + 1, ahead, cut.watermark, Id("somebody", 1), cut.id)
    offset = cluster.log.offsets([at], "end")[at]
    append(cluster, at, cuts.encode(forged))
    for partition in (0, 1):
        cluster.feed("orders", fed[200 + partition :: 2], partition)
    cluster.until(lambda: states(cluster)["orders-0"] == "failed")
    (error,) = [c.error for c in cluster.workers["w1"].copies() if c.state == "failed"]
    assert "which ends at" in error
    assert "holdfast repair orders --list" in error
    (line,) = bad_records.search(door(cluster), cluster.plan)
    assert (line.topic, line.partition, line.offset, line.holds) == (at.topic, 0, offset, True)
    where, found = bad_records.place(f"cuts:{offset}", cluster.plan, cluster.topics, cluster.log.topics())
    bad_records.skip(door(cluster), cluster.plan, where, found)
    if takeover:
        cluster.kill("w1")
        second = cluster.start("w2")
        cluster.place({unit: [second] for unit in cluster.units})
    cluster.until(lambda: all(state == "running" for state in states(cluster).values()))
    cluster.run_to_end()
    check(cluster.rows, fed)
    assert [(one.holds, one.skipped) for one in bad_records.search(door(cluster), cluster.plan)] == [(False, True)]
    report = replaying.replay(door(cluster).log, cluster.cluster, "orders")
    assert report.exact, report


def test_a_frame_that_contradicts_a_true_one_fails_the_job_until_it_is_skipped() -> None:
    fed = orders(300)
    cluster = MemoryCluster(BUSY)
    running(cluster, fed)
    data = Partition(next(iter(data_topics(cluster.plan))), 0)
    value = next(v for m in cluster.log.scan(data) if len(v := m.value() or b"") > HEADER_BYTES)
    header = frames.unpack(newest(cluster, data) or b"")
    other = header._replace(
        batch=header.batch + 1, payload_hash=frames.unpack(value).payload_hash, schema=frames.unpack(value).schema
    )
    offset = cluster.log.offsets([data], "end")[data]
    append(cluster, data, other.pack() + value[HEADER_BYTES:])
    cluster.until(lambda: "failed" in states(cluster).values())
    holding = [one for one in bad_records.search(door(cluster), cluster.plan) if one.holds]
    assert {one.topic for one in holding} == {data.topic}
    assert offset in {one.offset for one in holding}
    skip(cluster, data, offset)
    cluster.until(lambda: all(state == "running" for state in states(cluster).values()))
    for partition in (0, 1):
        cluster.feed("orders", fed[200 + partition :: 2], partition)
    cluster.run_to_end()
    check(cluster.rows, fed)


def test_a_skip_of_what_is_not_the_jobs_own_is_refused() -> None:
    cluster = MemoryCluster(BUSY)
    for topic in ("orders", "shops", "t.jobs.plans"):
        skip(cluster, Partition(topic, 0), 1)
    worker = cluster.start("w1")
    cluster.turn(5)
    assert worker.refusals.counts == {cluster.cluster.plans: 3}
    for text in ("cuts", "cuts:x", "cuts:9:1", "nothing:1", "cuts:0:0:0"):
        with pytest.raises(CommandFailed):
            bad_records.place(text, cluster.plan, cluster.topics, cluster.log.topics())


def test_a_worker_counts_what_it_refuses_for_its_heartbeat() -> None:
    cluster = MemoryCluster(BUSY)
    running(cluster, orders(300))
    at = Partition(cluster.topics.cuts, 0)
    append(cluster, at, b"{", b"[]")
    worker = cluster.workers["w1"]
    cluster.until(lambda: worker.refusals.most() == {at.topic: 2})
