"""The contract of transactions: a row that its topic does not take costs no other row."""

from __future__ import annotations

import uuid

import pytest

from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.kernel.errors import InvalidRecord
from holdfast.services.log.kafka.log import KafkaLog
from holdfast.services.log.protocol import Log, Rows
from holdfast.services.log.record_sizes import size_alone
from tests.contract.collecting import expect_scanned

pytestmark = pytest.mark.session_broker

_LIMIT = 100_000


def _narrow(log: Log) -> Partition:
    name = f"narrow-{uuid.uuid4().hex[:12]}"
    log.create([TopicSpec(name, config={"max.message.bytes": str(_LIMIT)})])
    return Partition(name, 0)


@pytest.mark.parametrize("size", [_LIMIT + 1, 600_000, 17 * 1024 * 1024])
def test_after_a_refused_row_a_new_start_commits_the_others(log: Log, size: int) -> None:
    partition = _narrow(log)
    transactor = log.transactor(f"id-{partition.topic}")
    transactor.start()
    transactor.commit([Rows(partition.topic, [b"earlier"], partitions=[0])])
    for _ in range(2):
        with pytest.raises(InvalidRecord, match="MSG_SIZE_TOO_LARGE"):
            transactor.commit([Rows(partition.topic, [b"a", b"b" * size, b"c"], partitions=[0] * 3)])
    transactor.start()
    transactor.commit([Rows(partition.topic, [b"a", b"c"], partitions=[0] * 2)])
    transactor.commit([Rows(partition.topic, [b"d"], partitions=[0])])
    expect_scanned(log, partition, b"earlier", b"a", b"c", b"d")
    transactor.close()


@pytest.mark.parametrize("key", [None, b"key" * 40])
def test_the_largest_row_that_a_topic_takes_is_known_to_the_byte(log: Log, key: bytes | None) -> None:
    partition = _narrow(log)
    transactor = log.transactor(f"id-{partition.topic}", _LIMIT)
    headers = [("batch", b"1"), ("query", b"q")]
    own = [] if key is None else [("trace", b"t" * 200), ("n", b"5")]
    around = size_alone(_LIMIT, None if key is None else len(key), Rows("", [], headers=headers), own) - _LIMIT
    fits = b"x" * (_LIMIT - around)
    transactor.start()
    transactor.commit([Rows(partition.topic, [b"a", fits, b"c"], [key] * 3, [0] * 3, headers, [[], own, []])])
    with pytest.raises(InvalidRecord):
        transactor.commit([Rows(partition.topic, [fits + b"x"], [key], [0], headers, [own])])
    expect_scanned(log, partition, b"a", fits, b"c")
    assert [message.headers() for message in log.scan(partition)] == [headers, [*headers, *own], headers]
    transactor.close()


@pytest.mark.kafka
def test_small_rows_that_together_are_more_than_a_topic_takes_go_in_batches_that_fit(kafka_log: KafkaLog) -> None:
    partition = _narrow(kafka_log)
    rows = Rows(partition.topic, [b"%04d" % number + b"x" * 1000 for number in range(400)], partitions=[0] * 400)
    transactor = kafka_log.transactor(f"id-{partition.topic}")
    transactor.start()
    with pytest.raises(InvalidRecord):
        transactor.commit([rows])
    transactor.close()
    transactor = kafka_log.transactor(f"id-{partition.topic}", _LIMIT)
    transactor.start()
    transactor.commit([rows])
    expect_scanned(kafka_log, partition, *rows.values)
    transactor.close()
