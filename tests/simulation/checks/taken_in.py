"""Records of sources: each is cut once, none too early, and drains reach their ends."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

import msgspec

from holdfast.schemas import cuts
from holdfast.schemas.cuts import NO_WATERMARK, Control, Cut, Replaced
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.cuts import CutLog, of_plan
from holdfast.services.kernel.plans.layout import task_name
from tests.simulation.checks.generation import Generation
from tests.simulation.kafka.names import TOPICS
from tests.simulation.processes.cluster import Cluster
from tests.simulation.processes.feeds import event_time_us


def _drained_behind(cluster: Cluster, generation: Generation, drain: Control) -> Iterator[str]:
    """No drain ends a source before what was in its topic when the drain was asked for."""
    topics = {task_name(s.operator, i): s.topic for s in generation.plan.sources for i in range(len(s.owners))}
    there: dict[Partition, int] = {}
    begun = {past.topic: past.seen for past in cluster.broker.past}
    for place, one in enumerate(cluster.broker.written):
        if one.partition.topic == TOPICS.submit and one.offset == drain.offset:
            break
        if place >= begun.get(one.partition.topic, 0):
            there[one.partition] = one.offset + 1
    for task, ends in drain.ends.items():
        for index, end in ends.items():
            if end < (held := there.get(Partition(topics[task], index), 0)):
                yield f"drain: {task} ends at {end} of partition {index}, which held {held} when it was asked for"


def _gone_when_cut_as_lost(cluster: Cluster, generation: Generation, place: int, cut: Cut) -> Iterator[str]:
    """Nothing is cut as lost but all of what the log no longer held then, in a job that asks for that."""
    source = cut.task.rpartition("-")[0]
    topics = {one.operator: one.topic for one in generation.plan.sources}
    asked = generation.plan.spec["sources"].get(source, {}).get("on_data_loss") == "continue"
    for r in cut.ranges:
        partition = Partition(topics[source], r.partition)
        began = max((t.upto for t in cluster.broker.trims if t.partition == partition and t.seen <= place), default=0)
        if r.lost and (not asked or r.lost != r.stop - r.start or r.stop > began):
            yield f"lost: {cut.task} batch {cut.batch} is lost up to {r.stop} of {partition}, which began at {began}"


def every_record_is_cut(cluster: Cluster, generation: Generation) -> Iterator[str]:
    """Invariant 1 for what went in: valid cuts follow each other and reach the ends of the drain.

    And what joins a table comes once the table is there (JOBS "A job file").
    """
    log = of_plan(generation.plan)
    brought: dict[str, int] = {}
    for place, one in enumerate(cluster.broker.written):
        if one.partition.topic == generation.topics.cuts:
            try:
                record = cuts.decode(one.value)
            except msgspec.DecodeError as error:
                yield f"cut log: {one.author} wrote what nobody can read at {one.offset}: {error}"
                continue
            if log.read(one.offset, record) and isinstance(record, Cut):
                yield from _gone_when_cut_as_lost(cluster, generation, place, record)
                if any(r.stop > r.start for r in record.ranges):
                    brought.setdefault(record.task, record.batch)
            if isinstance(record, Control) and record.kind == "drain" and log.ends == record.ends:
                yield from _drained_behind(cluster, generation, record)
    yield from _every_partition_is_read(cluster, generation, log)
    sources = generation.plan.spec["sources"]
    tables = {task for task in log.tasks if sources.get(task.rpartition("-")[0], {}).get("table")}
    loaded = log.loaded(tables)
    for task, batch in brought.items():
        if task not in tables and (loaded is None or batch < loaded):
            yield f"table: {task} brought records in batch {batch}, the tables are there from batch {loaded} on"
    if generation.ended == "drained":
        for task, ends in (log.ends or {}).items():
            reached = {r.partition: r.stop for r in log.task(task).ranges}
            short = {partition: end for partition, end in ends.items() if reached.get(partition, -1) < end}
            if short:
                yield f"not cut: {task} ended at {reached}, short of {short}"


def asked_to_read_again(cluster: Cluster, generation: Generation) -> Iterator[str]:
    """Checks that no record of a topic that was created again is cut until a person has said where the job
    continues.
    """
    log, gone = of_plan(generation.plan), {past.id: past.seen for past in cluster.broker.past}
    for place, one in enumerate(cluster.broker.written if gone else ()):
        if one.partition.topic != generation.topics.cuts:
            continue
        record = cuts.decode(one.value)
        if log.read(one.offset, record) and isinstance(record, Cut) and any(r.stop > r.start for r in record.ranges):
            known = log.known(record.task.rpartition("-")[0])
            if place >= gone.get(known[-1], place + 1):
                yield f"replaced: {record.task} cut batch {record.batch} of a topic that nobody has asked it to read"


def nobody_gives_way_unled(cluster: Cluster, generation: Generation) -> Iterator[str]:
    """While nobody leads a partition, a watermark goes past it only as far as any record had come before.

    What its writers keep meanwhile is in order, and late behind such a watermark; that nothing more lies there is what
    Kafka alone can say, through the leader.
    """
    spec, log = generation.plan.spec["sources"], of_plan(generation.plan)
    streams = {
        one.operator: one.topic
        for one in generation.plan.sources
        if one.operator in spec and not spec[one.operator].get("table")
    }
    times_us, newest_us = _how_far(cluster, set(streams.values()))
    for one in cluster.broker.written:
        if one.partition.topic != generation.topics.cuts:
            continue
        record = cuts.decode(one.value)
        before = log.task(record.task).watermark if isinstance(record, Cut) else NO_WATERMARK
        if not log.read(one.offset, record) or not isinstance(record, Cut) or record.final:
            continue
        topic = streams.get(record.task.rpartition("-")[0], "")
        for r in record.ranges if record.watermark > before else ():
            since_us = cluster.broker.unled_since_us(Partition(topic, r.partition), one.time_us)
            if since_us is None or (r.newest_us is not None and r.newest_us >= record.watermark):
                continue
            if record.watermark > (reached := newest_us[bisect_left(times_us, since_us)]):
                yield (
                    f"gives way: {record.task} batch {record.batch} goes past partition {r.partition} to "
                    f"{record.watermark}, nobody leads it since others had come to {reached}"
                )


def _how_far(cluster: Cluster, topics: set[str]) -> tuple[list[int], list[int]]:
    """Times at which records were appended to these topics, and the largest event time before each and behind the
    last.
    """
    times_us, newest_us = list[int](), [NO_WATERMARK]
    for one in cluster.broker.written:
        if one.partition.topic in topics:
            times_us.append(one.time_us)
            newest_us.append(max(newest_us[-1], event_time_us(one.value)))
    return times_us, newest_us


def _every_partition_is_read(cluster: Cluster, generation: Generation, log: CutLog) -> Iterator[str]:
    """Once the job has run out, also those that appeared while it ran, each by one task and from its first record."""
    if log.ends is None or not all(task.final for task in log.tasks.values()):
        return
    hosted = {one.operator for one in generation.plan.spark}
    for source in generation.plan.sources:
        if source.operator in hosted:
            continue  # it reads a commit log
        own = [log.task(task_name(source.operator, index)) for index in range(len(source.owners))]
        count = cluster.broker.topics()[source.topic]
        # A drain ends partitions at 0 that the topic had before it was created again.
        read = sorted(r.partition for task in own for r in task.ranges if r.partition < count or r.stop)
        if read != list(range(count)):
            yield f"partitions: {source.operator} reads {read} of {source.topic}, which has {count}"
    first: dict[tuple[str, int], int] = {}
    for one in cluster.broker.written:
        record = cuts.decode(one.value) if one.partition.topic == generation.topics.cuts else None
        if isinstance(record, Replaced):
            break  # from there on a person says where partitions begin
        for r in record.ranges if isinstance(record, Cut) else ():
            first.setdefault((record.task, r.partition), r.start)  # type: ignore[union-attr]
    begins = {(task, r.partition): r.start for task, of in of_plan(generation.plan).tasks.items() for r in of.ranges}
    for (task, p), at in first.items():
        if at != begins.get((task, p), 0):
            yield f"partitions: {task} begins partition {p} at {at}"
