"""One contract for both logs: what holds in memory holds on Kafka, so that what is tested in memory counts."""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.cimpl import NewPartitions

from schemas.topics import Partition, TopicSpec
from services.kernel.errors import Fenced, Retriable, StateCorrupted, Torn
from services.log.kafka import KafkaLog
from services.log.kafka_client import Cluster
from services.log.kafka_reader import KafkaReader
from services.log.memory import MemoryLog
from services.log.protocol import Chunk, Log, Message, Reader, Rows
from services.log.sealed import SealedLog
from services.worker.process.paced import PacedReader
from tests.support.commands import until as wait_until

DEADLINE_S = 60.0
TRIES = 4
"""A busy machine may hold up any one call. One that waits where it must not is never quick: one quick call is proof."""
QUIET_S = 0.3
"""For how long nothing must come where nothing may come; on a log that gives what it has within milliseconds."""


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.kafka)])
def log(request: pytest.FixtureRequest) -> Iterator[Log]:
    if request.param == "memory":
        yield MemoryLog(lambda: time.time_ns() // 1_000_000)
    else:
        yield from _kafka_log(request.getfixturevalue("kafka"))


@pytest.fixture(params=["one", "two"])
def reader(request: pytest.FixtureRequest, log: Log) -> Reader:
    """One that is always asked; and the pair of a worker, of which the partitions 0 belong to the one on demand."""
    if request.param == "one":
        return log.reader("r")
    pair = log.reader("often"), log.reader("seldom", on_demand=True)
    return PacedReader(*pair, lambda partition: partition.index == 0, lambda: time.monotonic() * 1000)


@pytest.fixture
def kafka_log(kafka: str) -> Iterator[KafkaLog]:
    """For what memory has not: open transactions, markers, a broker that is not there."""
    yield from _kafka_log(kafka)


def _kafka_log(servers: str) -> Iterator[KafkaLog]:
    log = KafkaLog(servers, None, "contract")
    yield log
    log.close()


class Collector:
    """What a reader gave, by partition; checks that each chunk is current and in order."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.records: dict[Partition, list[Message]] = defaultdict(list)
        self.ends: dict[Partition, list[int]] = defaultdict(list)

    def turn(self, timeout_s: float = 0.02) -> list[Chunk]:
        chunks = self.reader.poll(timeout_s)
        for chunk in chunks:
            assert self.reader.current(chunk)
            self.records[chunk.partition] += chunk.messages
            if chunk.end is not None:
                self.ends[chunk.partition].append(chunk.end)
        return chunks

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline, f"not in time; read: {self.records}, ends: {self.ends}"
            self.turn()

    def nothing_comes(self) -> None:
        until = time.monotonic() + QUIET_S
        while time.monotonic() < until:
            assert not any(chunk.messages for chunk in self.turn())

    def values(self, partition: Partition) -> list[bytes | None]:
        return [m.value() for m in self.records[partition]]

    def offsets(self, partition: Partition) -> list[int]:
        return [m.offset() for m in self.records[partition]]


def new_topic(log: Log, partitions: int = 1, **config: str) -> str:
    name = f"contract-{uuid.uuid4().hex[:12]}"
    log.create([TopicSpec(name, partitions, {k.replace("_", "."): v for k, v in config.items()})])
    return name


def new_partition(log: Log) -> Partition:
    return Partition(new_topic(log), 0)


def new_partition_of_old(log: Log) -> Partition:
    """Keeps records of 1970, which a broker that happens to look would take away."""
    return Partition(new_topic(log, retention_ms="-1"), 0)


def fill(log: Log, partition: Partition, *values: bytes | None) -> None:
    appender = log.appender("fill")
    for value in values:
        appender.append(partition, value)
    appender.flush(DEADLINE_S)
    appender.close()


def numbers(count: int, begin: int = 0) -> list[bytes]:
    return [str(n).encode() for n in range(begin, begin + count)]


def scanned(log: Log, partition: Partition, start: int | None = None) -> list[bytes | None]:
    return [m.value() for m in log.scan(partition, start)]


def expect_scanned(log: Log, partition: Partition, *values: bytes | None) -> None:
    """Scans until the values are there: a commit is decided before it can be seen."""
    deadline = time.monotonic() + DEADLINE_S
    while (found := scanned(log, partition)) != list(values):
        assert time.monotonic() < deadline, f"{found} instead of {values}"


def expect_error(reader: Reader, error: type[Exception]) -> str:
    """Polls until the error is raised."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        try:
            reader.poll(0.02)
        except error as raised:
            return str(raised)
    raise AssertionError(f"no {error.__name__} in time")


# -- topics -----------------------------------------------------------------------------------------------------------


def test_create_leaves_existing_topics_as_they_are(log: Log) -> None:
    name = new_topic(log, 2, retention_ms="60000")
    fill(log, Partition(name, 1), b"kept")
    log.create([TopicSpec(name, 5, {"retention.ms": "1"})])
    assert log.topics()[name] == 2
    assert log.config(name)["retention.ms"] == "60000"
    assert scanned(log, Partition(name, 1)) == [b"kept"]


def test_configure_changes_what_is_named_and_leaves_the_rest(log: Log) -> None:
    name = new_topic(log, 1, retention_ms="60000", segment_bytes="1048576")
    fill(log, Partition(name, 0), b"kept")
    log.configure([TopicSpec(name, 1, {"retention.ms": "120000", "retention.bytes": "1000000"})])
    wait_until(lambda: log.config(name)["retention.ms"] == "120000", "the setting is there")
    found = log.config(name)
    assert (found["retention.bytes"], found["segment.bytes"]) == ("1000000", "1048576")
    assert scanned(log, Partition(name, 0)) == [b"kept"]
    log.configure([TopicSpec(name, 1, {"retention.ms": "120000"})])


def test_a_created_topic_can_be_used_at_once(log: Log) -> None:
    name = new_topic(log, 8)
    partitions = [Partition(name, n) for n in range(8)]
    for partition in partitions:
        fill(log, partition, b"x")
    assert set(log.offsets(partitions, "end").values()) == {1}


def test_of_what_goes_at_once_to_topics_just_created_nothing_is_lost(log: Log) -> None:
    """Several requests are under way, of which a partition that is not ready may refuse the first alone."""
    appender = log.appender("contract")
    for _ in range(10):
        where = Partition(new_topic(log, 1), 0)
        for value in (b"first", b"x" * 1_000_000, b"last"):
            appender.append(where, value)
        appender.flush(DEADLINE_S)
        assert [len(value or b"") for value in scanned(log, where)] == [5, 1_000_000, 4]
    appender.close()


def test_internal_topics_are_not_listed(log: Log) -> None:
    transactor = log.transactor(f"id-{uuid.uuid4().hex}")
    transactor.start()  # on Kafka this makes one
    transactor.close()
    assert not [name for name in log.topics() if name.startswith("__")]


def test_describe_tells_which_topic_it_is_and_how_many_partitions_it_has(log: Log) -> None:
    name, other = new_topic(log, 2), new_topic(log)
    found = log.describe([name, other, "no-such-topic"])
    assert {topic: one.partitions for topic, one in found.items()} == {name: 2, other: 1}
    assert found[name].id
    assert found[name].id != found[other].id
    assert log.describe([name, name]) == {name: found[name]}
    assert log.describe([]) == {}


def test_a_topic_created_anew_is_another_one(log: Log) -> None:
    name = new_topic(log, 3)
    fill(log, Partition(name, 0), b"old")
    before = log.describe([name])[name]
    log.delete([name])
    assert log.describe([name]) == {}
    log.create([TopicSpec(name, 1)])
    after = log.describe([name])[name]
    assert (before.partitions, after.partitions) == (3, 1)
    assert before.id != after.id
    assert scanned(log, Partition(name, 0)) == []


def test_a_topic_that_has_grown_is_the_same_and_its_new_partitions_can_be_read(log: Log) -> None:
    name = new_topic(log, 2)
    before = log.describe([name])[name]
    collector = Collector(log.reader("grown"))
    collector.reader.assign({Partition(name, 0): 0})
    fill(log, Partition(name, 0), b"0")
    collector.until(lambda: collector.values(Partition(name, 0)) == [b"0"])
    grow(log, name, 4)
    deadline = time.monotonic() + DEADLINE_S
    while (after := log.describe([name])[name]).partitions < 4:
        assert time.monotonic() < deadline
    assert (after.id, after.partitions) == (before.id, 4)
    partition = Partition(name, 3)
    fill(log, partition, b"a", b"b")
    collector.reader.assign({partition: 0})
    asked = time.monotonic()
    collector.until(lambda: collector.values(partition) == [b"a", b"b"])
    assert time.monotonic() - asked < 20, "and not minutes later"
    assert collector.offsets(partition) == [0, 1]
    collector.reader.close()


def grow(log: Log, topic: str, partitions: int) -> None:
    log = log.raw if isinstance(log, SealedLog) else log
    if isinstance(log, MemoryLog):
        log.grow(topic, partitions)
        return
    assert isinstance(log, KafkaLog)
    (done,) = log._requests.admin.create_partitions([NewPartitions(topic, partitions)]).values()
    done.result(DEADLINE_S)


def test_delete_removes_what_is_there_and_ignores_the_rest(log: Log) -> None:
    first, second = new_topic(log), new_topic(log)
    log.delete([first, "contract-never-existed"])
    assert first not in log.topics()
    assert second in log.topics()
    log.delete([first])
    assert log.config(first) == {}


def test_a_topic_that_is_not_there_is_said_to_be_missing(log: Log) -> None:
    missing = Partition("contract-never-existed", 0)
    with pytest.raises(Retriable, match="contract-never-existed"):
        log.offsets([missing], "end")
    with pytest.raises(Retriable, match="contract-never-existed"):
        list(log.scan(missing))


# -- appending --------------------------------------------------------------------------------------------------------


def test_records_keep_their_order(log: Log, reader: Reader) -> None:
    partition, values = new_partition(log), numbers(5_000)
    fill(log, partition, *values)
    collector = Collector(reader)
    collector.reader.assign({partition: 0})
    collector.until(lambda: len(collector.records[partition]) >= len(values))
    assert collector.values(partition) == values
    assert collector.offsets(partition) == list(range(len(values)))
    collector.reader.close()


def test_done_tells_the_offset_and_is_called_from_poll_only(log: Log) -> None:
    partition, answers = new_partition(log), list[tuple[Exception | None, int]]()
    appender = log.appender("a")
    for value in numbers(100):
        appender.append(partition, value, done=lambda error, offset: answers.append((error, offset)))
    assert answers == []
    deadline = time.monotonic() + DEADLINE_S
    while len(answers) < 100 and time.monotonic() < deadline:
        appender.poll()
    assert answers == [(None, n) for n in range(100)]
    appender.close()


def test_close_calls_done_for_what_is_still_open(log: Log) -> None:
    partition, answers = new_partition(log), list[int]()
    appender = log.appender("a")
    appender.append(partition, b"x", done=lambda error, offset: answers.append(offset))
    appender.close()
    assert answers == [0]


def test_a_record_comes_back_as_it_was_written(log: Log) -> None:
    partition = new_partition_of_old(log)
    appender = log.appender("a")
    headers = [("batch", b"7"), ("status", b""), ("batch", b"8")]
    appender.append(partition, b"v", key=b"k", headers=headers, timestamp_ms=1_234_567)
    appender.append(partition, None, key=b"")
    appender.append(partition, b"", headers=[])
    appender.flush(DEADLINE_S)
    appender.close()
    before = time.time() * 1000
    full, tombstone, empty = log.scan(partition)
    assert (full.value(), full.key(), full.headers(), full.timestamp()) == (b"v", b"k", headers, (1, 1_234_567))
    assert (tombstone.value(), tombstone.key(), tombstone.headers()) == (None, b"", None)
    assert (empty.value(), empty.key(), empty.headers()) == (b"", None, None)
    assert abs(empty.timestamp()[1] - before) < 60_000


def test_large_records_pass_and_keep_company_with_small_ones(log: Log) -> None:
    partition = new_partition(log)
    large = bytes(range(256)) * (5 * 1024 * 4)
    fill(log, partition, b"before", large, large, b"after")
    assert scanned(log, partition) == [b"before", large, large, b"after"]
    assert log.last(partition) is not None


def test_keys_choose_the_partition_that_the_java_client_would(log: Log) -> None:
    """Golden values of org.apache.kafka.common.utils.Utils.murmur2, from Kafka's own UtilsTest."""
    golden = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536, b"abc": 479470107}
    name = new_topic(log, 7)
    appender = log.appender("a")
    transactor = log.transactor(name)
    transactor.start()
    for key in golden:
        appender.append(Partition(name, -1), b"appended", key=key)
    appender.flush(DEADLINE_S)
    appender.close()
    transactor.commit([Rows(name, [b"committed"] * len(golden), keys=list(golden))])
    transactor.close()
    for index in range(7):
        keys = [key for key, hashed in golden.items() if (hashed & 0x7FFFFFFF) % 7 == index]
        partition = Partition(name, index)
        expect_scanned(log, partition, *[b"appended"] * len(keys), *[b"committed"] * len(keys))
        assert [m.key() for m in log.scan(partition)] == keys * 2


# -- reading ----------------------------------------------------------------------------------------------------------


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
        reader.assign({partition: position})
        assert not reader.current(chunk)
        chunk = _first_chunk(reader, partition)
        assert chunk.messages[0].offset() == position
        assert reader.current(chunk)
    reader.close()


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


def test_what_a_patient_reader_waits_for_comes_though_little_does(log: Log) -> None:
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
        reader.assign({partition: position})
        assert not reader.current(chunk)
        chunk = _first_chunk(reader, partition)
        assert chunk.messages[0].offset() == position
        assert reader.current(chunk)
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


# -- transactions -----------------------------------------------------------------------------------------------------


def test_a_transaction_over_two_topics_shows_all_rows(log: Log) -> None:
    rows, position = new_partition(log), new_partition(log)
    transactor = log.transactor(f"id-{rows.topic}")
    transactor.start()
    headers = [("batch", b"1")]
    for batch in range(3):
        transactor.commit(
            [
                Rows(rows.topic, numbers(50, batch * 50), partitions=[0] * 50, headers=headers),
                Rows(position.topic, [str(batch).encode()], keys=[b"unit"], partitions=[0]),
            ]
        )
    expect_scanned(log, position, b"0", b"1", b"2")
    expect_scanned(log, rows, *numbers(150))
    assert all(m.headers() == headers for m in log.scan(rows))
    last = log.last(position)
    assert last is not None
    assert (last.key(), last.value()) == (b"unit", b"2")
    transactor.close()


def test_the_last_to_start_fences_the_others_whose_rows_never_appear(log: Log) -> None:
    partition = new_partition(log)
    first, second = (log.transactor(f"id-{partition.topic}") for _ in range(2))
    first.start()
    first.commit([Rows(partition.topic, [b"first"], partitions=[0])])
    second.start()
    for _ in range(2):
        with pytest.raises(Fenced):
            first.commit([Rows(partition.topic, [b"zombie"] * 10, partitions=[0] * 10)])
    second.commit([Rows(partition.topic, [b"second"], partitions=[0])])
    expect_scanned(log, partition, b"first", b"second")
    first.start()
    first.commit([Rows(partition.topic, [b"back"], partitions=[0])])
    with pytest.raises(Fenced):
        second.commit([Rows(partition.topic, [b"zombie"], partitions=[0])])
    expect_scanned(log, partition, b"first", b"second", b"back")
    first.close()
    second.close()


def test_a_transactor_that_was_connected_in_advance_disturbs_nobody_until_it_starts(log: Log) -> None:
    partition = new_partition(log)
    first, second = (log.transactor(f"id-{partition.topic}") for _ in range(2))
    first.start()
    second.connect()
    first.commit([Rows(partition.topic, [b"first"], partitions=[0])])
    second.start()
    with pytest.raises(Fenced):
        first.commit([Rows(partition.topic, [b"zombie"], partitions=[0])])
    second.commit([Rows(partition.topic, [b"second"], partitions=[0])])
    expect_scanned(log, partition, b"first", b"second")
    first.close()
    second.close()


def test_a_transactor_that_never_started_commits_nothing(log: Log) -> None:
    partition = new_partition(log)
    transactor = log.transactor(f"id-{partition.topic}")
    with pytest.raises(Fenced, match="start"):
        transactor.commit([Rows(partition.topic, [b"x"], partitions=[0])])
    transactor.close()
    assert scanned(log, partition) == []


def test_readers_and_scans_go_over_the_ends_of_transactions(log: Log, reader: Reader) -> None:
    partition = new_partition(log)
    transactor = log.transactor(f"id-{partition.topic}")
    transactor.start()
    collector = Collector(reader)
    collector.reader.assign({partition: 0})
    for n in range(5):
        transactor.commit([Rows(partition.topic, [str(n).encode()], partitions=[0])])
    expect_scanned(log, partition, *numbers(5))
    end = log.offsets([partition], "end")[partition]
    collector.until(lambda: end in collector.ends[partition])
    assert collector.values(partition) == numbers(5)
    transactor.close()
    collector.reader.close()


# -- Kafka only -------------------------------------------------------------------------------------------------------


def _open_transaction(kafka: str, id: str, partition: Partition, *values: bytes) -> Producer:
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": id, "linger.ms": 0})
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    for value in values:
        producer.produce(partition.topic, value, partition=partition.index)
    assert producer.flush(DEADLINE_S) == 0
    return producer


def _await_stable(log: KafkaLog, ends: dict[Partition, int]) -> None:
    """Ends of transactions are marked a little after they are decided."""
    deadline = time.monotonic() + DEADLINE_S
    while (found := log.offsets(ends, "end")) != ends:
        assert time.monotonic() < deadline, f"{found} instead of {ends}"


@pytest.mark.kafka
def test_open_and_aborted_transactions_are_invisible(kafka: str, kafka_log: KafkaLog) -> None:
    partition = new_partition(kafka_log)
    fill(kafka_log, partition, b"before")
    producer = _open_transaction(kafka, f"id-{partition.topic}", partition, b"open", b"open")
    fill(kafka_log, partition, b"behind")
    assert kafka_log.offsets([partition], "end") == {partition: 1}
    assert scanned(kafka_log, partition) == [b"before"]
    last = kafka_log.last(partition)
    assert last is not None
    assert last.value() == b"before"
    collector = Collector(kafka_log.reader("r"))
    collector.reader.assign({partition: 0})
    collector.until(lambda: collector.ends[partition] == [1])
    producer.abort_transaction(DEADLINE_S)
    collector.until(lambda: 5 in collector.ends[partition])
    assert collector.values(partition) == [b"before", b"behind"]
    expect_scanned(kafka_log, partition, b"before", b"behind")
    collector.reader.close()


@pytest.mark.kafka
def test_what_stays_open_where_nothing_may_be_open_is_torn(
    kafka: str, kafka_log: KafkaLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka can declare complete what it has not ended everywhere; a zombie sees the next one's transactions."""
    partition = new_partition(kafka_log)
    fill(kafka_log, partition, b"before")
    assert kafka_log.last(partition, settled=True) is not None
    producer = _open_transaction(kafka, f"id-{partition.topic}", partition, b"open")
    monkeypatch.setattr("services.log.kafka_offsets.OPEN_S", 0.1)
    with pytest.raises(Torn, match="offsets 1 to 2"):
        kafka_log.last(partition, settled=True)
    ask, ends = kafka_log._offsets._at_once, [producer.commit_transaction]

    def ask_and_end(*arguments: Any) -> list[int]:
        found = ask(*arguments)
        while ends:
            ends.pop()(DEADLINE_S)
        return found

    monkeypatch.setattr(kafka_log._offsets, "_at_once", ask_and_end)
    monkeypatch.setattr("services.log.kafka_offsets.OPEN_S", DEADLINE_S)
    last = kafka_log.last(partition, settled=True)
    assert last is not None
    assert last.value() == b"open"


@pytest.mark.kafka
def test_starting_aborts_the_open_transaction_of_a_former_holder(kafka: str, kafka_log: KafkaLog) -> None:
    partition = new_partition(kafka_log)
    _open_transaction(kafka, f"id-{partition.topic}", partition, b"open")
    transactor = kafka_log.transactor(f"id-{partition.topic}")
    transactor.start()
    transactor.commit([Rows(partition.topic, [b"mine"], partitions=[0])])
    expect_scanned(kafka_log, partition, b"mine")
    transactor.close()


@pytest.mark.kafka
def test_last_looks_past_any_number_of_aborted_records_and_markers(kafka: str, kafka_log: KafkaLog) -> None:
    partition = new_partition(kafka_log)
    fill(kafka_log, partition, b"the last")
    for _ in range(3):
        _open_transaction(kafka, f"id-{partition.topic}", partition, *[b"x"] * 100).abort_transaction(DEADLINE_S)
    _await_stable(kafka_log, {partition: 304})
    last = kafka_log.last(partition)
    assert last is not None
    assert last.value() == b"the last"
    assert scanned(kafka_log, partition) == [b"the last"]
    kafka_log.trim({partition: 1})
    assert kafka_log.last(partition) is None
    assert scanned(kafka_log, partition) == []


@pytest.mark.kafka
def test_a_transaction_with_a_row_for_a_missing_topic_is_aborted_whole(kafka_log: KafkaLog) -> None:
    partition = new_partition(kafka_log)
    transactor = kafka_log.transactor(f"id-{partition.topic}")
    transactor.start()
    missing = Rows("contract-never-existed", [b"x"], partitions=[0])
    with pytest.raises(Retriable):
        transactor.commit([Rows(partition.topic, [b"x"], partitions=[0]), missing])
    transactor.commit([Rows(partition.topic, [b"y"], partitions=[0])])
    expect_scanned(kafka_log, partition, b"y")
    transactor.close()


def test_a_broker_that_does_not_answer_is_retriable_within_five_seconds() -> None:
    log = KafkaLog("127.0.0.1:1", None, "contract")
    calls: list[Callable[[], object]] = [
        log.topics,
        lambda: log.create([TopicSpec("t")]),
        lambda: log.delete(["t"]),
        lambda: log.config("t"),
        lambda: log.offsets([Partition("t", 0)], "end"),
        lambda: log.trim({Partition("t", 0): 1}),
        lambda: list(log.scan(Partition("t", 0))),
        lambda: log.last(Partition("t", 0)),
    ]

    def expect_retriable(call: Callable[[], object]) -> float:
        began = time.monotonic()
        with pytest.raises(Retriable, match=r"127\.0\.0\.1:1.*Check that the broker runs"):
            call()
        return time.monotonic() - began

    least_s = [float("inf")] * len(calls)
    with ThreadPoolExecutor(len(calls)) as pool:
        for _ in range(TRIES):
            if max(least_s) >= 5.0:
                least_s = list(map(min, least_s, pool.map(expect_retriable, calls)))
    assert max(least_s) < 5.0
    log.close()


def test_an_appender_whose_broker_does_not_answer_keeps_what_it_has_until_closed() -> None:
    log = KafkaLog("127.0.0.1:1", None, "contract")
    appender, answers = log.appender("a"), list[Exception | None]()
    appender.append(Partition("t", 0), b"x", done=lambda error, offset: answers.append(error))
    with pytest.raises(Retriable, match="127"):
        appender.flush(0.2)
    assert answers == []
    appender.close()
    assert [type(error) for error in answers] == [Retriable]


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
