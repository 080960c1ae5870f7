"""The contract of logs: what is appended."""

from __future__ import annotations

import time

import pytest

from holdfast.schemas.topics import Partition
from holdfast.services.kernel.errors import Retriable
from holdfast.services.log.kafka.log import KafkaLog
from holdfast.services.log.protocol import Log, Reader, Rows
from tests.contract.collecting import (
    DEADLINE_S,
    Collector,
    expect_scanned,
    fill,
    new_partition,
    new_partition_of_old,
    new_topic,
    numbers,
    scanned,
)

pytestmark = pytest.mark.session_broker


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


def test_an_appender_whose_broker_does_not_answer_keeps_what_it_has_until_closed() -> None:
    log = KafkaLog("127.0.0.1:1", None, "contract")
    appender, answers = log.appender("a"), list[Exception | None]()
    appender.append(Partition("t", 0), b"x", done=lambda error, offset: answers.append(error))
    with pytest.raises(Retriable, match="127"):
        appender.flush(0.2)
    assert answers == []
    appender.close()
    assert [type(error) for error in answers] == [Retriable]
