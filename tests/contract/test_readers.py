"""The contract of logs: what readers and scans give, and where they may stand."""

from __future__ import annotations

import time
from collections import defaultdict

import pytest

from holdfast.schemas.topics import Partition
from holdfast.services.kernel.errors import StateCorrupted
from holdfast.services.log.kafka.client import Cluster
from holdfast.services.log.kafka.log import KafkaLog
from holdfast.services.log.kafka.reader import KafkaReader
from holdfast.services.log.protocol import Chunk, Log, Reader
from holdfast.services.worker.process.paced import PacedReader
from tests.contract.collecting import (
    DEADLINE_S,
    TRIES,
    Collector,
    expect_error,
    fill,
    new_partition,
    new_partition_of_old,
    new_topic,
    numbers,
    scanned,
)

pytestmark = pytest.mark.session_broker


def test_reading_starts_at_the_assigned_position(log: Log, reader: Reader) -> None:
    partition = new_partition(log)
    fill(log, partition, *numbers(10))
    collector = Collector(reader)
    collector.reader.assign({partition: 6})
    collector.until(lambda: len(collector.records[partition]) == 4)
    assert collector.offsets(partition) == [6, 7, 8, 9]
    collector.reader.close()


def test_a_moved_partition_gives_nothing_of_its_former_position(log: Log, reader: Reader) -> None:
    """Moved back and forth while the reader has fetched ahead: each time the first record is the asked one."""
    partition, other = (Partition(new_topic(log), 0) for _ in range(2))
    fill(log, partition, *numbers(20_000))
    fill(log, other, *numbers(20_000))
    reader.assign({partition: 0, other: 0})
    chunk = _first_chunk(reader, partition)
    for position in [9_000, 1, 15_000, 3, 19_999, 0] * 3:
        chunk = _moved(reader, chunk, position)
    reader.close()


def _moved(reader: Reader, former: Chunk, position: int) -> Chunk:
    """The first chunk after a move of the partition of the former one, which is not current any more."""
    reader.assign({former.partition: position})
    assert not reader.current(former)
    chunk = _first_chunk(reader, former.partition)
    assert chunk.messages[0].offset() == position
    assert reader.current(chunk)
    return chunk


def _first_chunk(reader: Reader, partition: Partition) -> Chunk:
    """The first chunk of a partition that has records; few of them, so that more are fetched than handed out."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        for chunk in reader.poll(0.02, 50):
            if chunk.partition == partition and chunk.messages:
                return chunk
    raise AssertionError("nothing in time")


def test_an_unassigned_partition_gives_nothing_and_its_chunks_are_outdated(log: Log, reader: Reader) -> None:
    name = new_topic(log, 2)
    gone, stays = Partition(name, 0), Partition(name, 1)
    for partition in (gone, stays):
        fill(log, partition, *numbers(1_000))
    collector = Collector(reader)
    collector.reader.assign({gone: 0, stays: 0})
    chunk = _first_chunk(collector.reader, gone)
    collector.reader.unassign([gone, Partition(name, 7)])
    assert not collector.reader.current(chunk)
    collector.until(lambda: bool(collector.ends[stays]))
    fill(log, gone, b"later")
    collector.nothing_comes()
    assert gone not in collector.records
    collector.reader.assign({gone: 999})
    collector.until(lambda: len(collector.records[gone]) == 2)
    assert not collector.reader.current(chunk)
    assert collector.offsets(gone) == [999, 1_000]
    collector.reader.close()


def test_a_paused_partition_gives_nothing_until_resumed_and_loses_nothing(log: Log, reader: Reader) -> None:
    name = new_topic(log, 2)
    held, free = Partition(name, 0), Partition(name, 1)
    for partition in (held, free):
        fill(log, partition, *numbers(5_000))
    collector = Collector(reader)
    collector.reader.assign({held: 0, free: 0})
    first = _first_chunk(collector.reader, held)
    collector.reader.pause([held])
    collector.reader.pause([held])
    fill(log, held, *numbers(10, 5_000))
    collector.until(lambda: 5_000 in collector.ends[free])
    collector.nothing_comes()
    assert collector.reader.current(first)
    assert not collector.records[held]
    collector.reader.resume([held])
    collector.until(lambda: len(collector.records[held]) + len(first.messages) >= 5_010)
    assert collector.offsets(held) == list(range(len(first.messages), 5_010))
    collector.reader.close()


def test_assign_ends_a_pause(log: Log, reader: Reader) -> None:
    partition = new_partition(log)
    fill(log, partition, *numbers(10))
    collector = Collector(reader)
    collector.reader.assign({partition: 0})
    collector.until(lambda: len(collector.records[partition]) == 10)
    collector.reader.pause([partition])
    collector.reader.assign({partition: 8})
    collector.until(lambda: len(collector.records[partition]) == 12)
    assert collector.offsets(partition)[10:] == [8, 9]
    collector.reader.pause([partition])
    collector.reader.unassign([partition])
    collector.reader.assign({partition: 9})
    collector.until(lambda: len(collector.records[partition]) == 13)
    collector.reader.close()


def test_the_end_is_reported_once_each_time_it_is_met(log: Log, reader: Reader) -> None:
    partition = new_partition(log)
    collector = Collector(reader)
    collector.reader.assign({partition: 0})
    collector.until(lambda: collector.ends[partition] == [0])
    fill(log, partition, *numbers(3))
    collector.until(lambda: 3 in collector.ends[partition])
    assert len(collector.records[partition]) == 3
    collector.nothing_comes()
    assert collector.ends[partition].count(3) == 1
    collector.reader.assign({partition: 3})
    collector.until(lambda: collector.ends[partition].count(3) == 2)
    collector.reader.close()


def test_poll_returns_within_its_time_when_nothing_comes(log: Log, reader: Reader) -> None:
    partition = new_partition(log)
    collector = Collector(reader)
    collector.reader.assign({partition: 0})
    collector.until(lambda: collector.ends[partition] == [0])

    def empty_poll() -> float:
        began = time.monotonic()
        assert collector.reader.poll(0.05) == []
        return time.monotonic() - began

    assert min(empty_poll() for _ in range(TRIES)) < 2.0
    assert collector.reader.poll(0.0) == []
    collector.reader.close()


def test_poll_gives_at_most_max_messages_and_no_partition_starves(log: Log, reader: Reader) -> None:
    name = new_topic(log, 3)
    partitions = [Partition(name, n) for n in range(3)]
    for partition in partitions:
        fill(log, partition, *numbers(300))
    reader.assign(dict.fromkeys(partitions, 0))
    read: dict[Partition, int] = defaultdict(int)
    deadline = time.monotonic() + DEADLINE_S
    while sum(read.values()) < 900 and time.monotonic() < deadline:
        chunks = reader.poll(0.02, 100)
        assert sum(len(c.messages) for c in chunks) <= 100
        for chunk in chunks:
            read[chunk.partition] += len(chunk.messages)
    assert read == dict.fromkeys(partitions, 300)
    reader.close()


def test_a_reader_of_many_partitions_keeps_each_in_order(log: Log, reader: Reader) -> None:
    first, second = new_topic(log, 4), new_topic(log, 4)
    partitions = [Partition(name, n) for name in (first, second) for n in range(4)]
    appender = log.appender("a")
    for n, value in enumerate(numbers(4_000)):
        appender.append(partitions[n % 8], value)
    appender.flush(DEADLINE_S)
    collector = Collector(reader)
    collector.reader.assign(dict.fromkeys(partitions, 0))
    collector.until(lambda: sum(map(len, collector.records.values())) == 4_000)
    for n, partition in enumerate(partitions):
        assert collector.values(partition) == numbers(4_000)[n::8]
    appender.close()
    collector.reader.close()


def test_a_partition_that_does_not_exist_yet_gives_nothing_and_harms_no_other(log: Log, reader: Reader) -> None:
    partition = new_partition(log)
    fill(log, partition, b"x")
    collector = Collector(reader)
    collector.reader.assign({Partition("contract-never-existed", 0): 0, partition: 0})
    collector.until(lambda: bool(collector.records[partition]))
    collector.nothing_comes()
    collector.reader.close()


def test_a_patient_reader_receives_the_records_of_a_quiet_partition(log: Log) -> None:
    partition = new_partition(log)
    collector = Collector(log.reader("r", patient=True))
    collector.reader.assign({partition: 0})
    collector.until(lambda: collector.ends[partition] == [0])
    for n in range(3):
        fill(log, partition, *numbers(1, n))
        collector.until(lambda n=n: len(collector.records[partition]) == n + 1)  # type: ignore[misc]
    assert collector.values(partition) == numbers(3)
    collector.reader.close()


def test_a_partition_that_is_handed_to_the_other_reader_gives_nothing_of_its_former_position(log: Log) -> None:
    partition, paced = new_partition(log), [True]
    fill(log, partition, *numbers(20_000))
    pair = log.reader("often"), log.reader("seldom", on_demand=True)
    reader = PacedReader(*pair, lambda _: paced[-1], lambda: time.monotonic() * 1000)
    reader.assign({partition: 0})
    chunk = _first_chunk(reader, partition)
    for position in [9_000, 1, 15_000]:
        paced.append(not paced[-1])
        chunk = _moved(reader, chunk, position)
    reader.close()


def test_a_record_elsewhere_ends_the_wait_for_a_partition_that_was_added(kafka_log: KafkaLog, kafka: str) -> None:
    """The request that waits at the broker meanwhile does not name it; the next one does."""
    topic = new_topic(kafka_log, 2)
    listened, added = Partition(topic, 0), Partition(topic, 1)
    appender = kafka_log.appender("added")
    appender.append(added, b"waits")
    appender.append(listened, b"first")
    appender.flush(DEADLINE_S)
    reader = KafkaReader(Cluster(kafka), "added", wait_ms=40_000)
    reader.assign({listened: 0})
    collector = Collector(reader)
    collector.until(lambda: bool(collector.records[listened]))
    reader.assign({added: 0})
    started = time.monotonic()
    while not collector.records[added]:
        appender.append(listened, b"more")
        appender.flush(DEADLINE_S)
        collector.turn(0.5)
    assert time.monotonic() - started < 20
    reader.close()


# -- positions, trimming, scans ---------------------------------------------------------------------------------------


def test_a_position_below_the_start_is_corrupted_state_and_harms_no_other_partition(log: Log, reader: Reader) -> None:
    name = new_topic(log, 2)
    trimmed, whole = Partition(name, 0), Partition(name, 1)
    for partition in (trimmed, whole):
        fill(log, partition, *numbers(10))
    log.trim({trimmed: 6})
    log.trim({trimmed: 3})  # below the start: nothing to do
    assert log.offsets([trimmed, whole], "start") == {trimmed: 6, whole: 0}
    collector = Collector(reader)
    collector.reader.assign({trimmed: 2, whole: 0})
    message = ""
    deadline = time.monotonic() + DEADLINE_S
    while not (message and len(collector.records[whole]) == 10) and time.monotonic() < deadline:
        try:
            collector.turn()
        except StateCorrupted as error:
            assert not message, "raised twice"
            message = str(error)
    assert str(trimmed) in message
    assert "2" in message.replace(str(trimmed), "")
    assert collector.offsets(whole) == list(range(10))
    collector.nothing_comes()
    collector.reader.assign({trimmed: 6})
    collector.until(lambda: len(collector.records[trimmed]) == 4)
    collector.reader.close()


def test_a_position_above_the_end_is_corrupted_state(log: Log, reader: Reader) -> None:
    partition = new_partition(log)
    fill(log, partition, *numbers(3))
    reader.assign({partition: 9})
    assert str(partition) in expect_error(reader, StateCorrupted)
    reader.close()


def test_trimming_above_the_end_is_corrupted_state(log: Log) -> None:
    partition = new_partition(log)
    fill(log, partition, *numbers(3))
    with pytest.raises(StateCorrupted, match="above the end"):
        log.trim({partition: 4})
    log.trim({partition: 3})
    assert log.offsets([partition], "start") == log.offsets([partition], "end") == {partition: 3}
    assert scanned(log, partition) == []
    assert log.last(partition) is None


def test_a_scan_ends_where_the_log_ended_at_the_call(log: Log) -> None:
    partition = new_partition(log)
    fill(log, partition, *numbers(100))
    scan = log.scan(partition)
    fill(log, partition, b"late")
    assert [m.value() for m in scan] == numbers(100)
    assert scanned(log, partition, 98) == [b"98", b"99", b"late"]
    assert scanned(log, partition, 101) == []


def test_a_scan_below_the_start_is_corrupted_state(log: Log) -> None:
    partition = new_partition(log)
    fill(log, partition, *numbers(10))
    log.trim({partition: 5})
    assert scanned(log, partition) == numbers(5, 5)
    with pytest.raises(StateCorrupted, match="position 3"):
        scanned(log, partition, 3)


def test_a_scan_may_be_left_before_its_end(log: Log) -> None:
    partition = new_partition(log)
    fill(log, partition, *numbers(1_000))
    scan = log.scan(partition)
    assert next(scan).value() == b"0"
    del scan
    assert scanned(log, partition) == numbers(1_000)


def test_last_is_the_last_record(log: Log) -> None:
    partition = new_partition(log)
    assert log.last(partition) is None
    fill(log, partition, *numbers(200))
    last = log.last(partition)
    assert last is not None
    assert (last.value(), last.offset()) == (b"199", 199)


def test_offsets_by_time(log: Log) -> None:
    partition = new_partition_of_old(log)
    appender = log.appender("a")
    for time_ms in (1_000, 2_000, 3_000):
        appender.append(partition, b"x", timestamp_ms=time_ms)
    appender.flush(DEADLINE_S)
    appender.close()
    found = {at: log.offsets([partition], at)[partition] for at in (500, 1_000, 1_001, 3_000, 3_001)}
    assert found == {500: 0, 1_000: 0, 1_001: 1, 3_000: 2, 3_001: 3}
    assert log.offsets([], "end") == log.offsets([], 5) == {}
