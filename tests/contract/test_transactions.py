"""The contract of logs: transactions."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import Producer

from holdfast.schemas.topics import Partition
from holdfast.services.kernel.errors import Fenced, Retriable, Torn
from holdfast.services.log.kafka.log import KafkaLog
from holdfast.services.log.protocol import Log, Reader, Rows
from tests.contract.collecting import (
    DEADLINE_S,
    Collector,
    expect_scanned,
    fill,
    new_partition,
    numbers,
    scanned,
)

pytestmark = pytest.mark.session_broker


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
def test_a_transaction_that_stays_open_where_none_may_be_open_is_torn(
    kafka: str, kafka_log: KafkaLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka can declare complete what it has not ended everywhere; a zombie sees the next one's transactions."""
    partition = new_partition(kafka_log)
    fill(kafka_log, partition, b"before")
    assert kafka_log.last(partition, settled=True) is not None
    producer = _open_transaction(kafka, f"id-{partition.topic}", partition, b"open")
    monkeypatch.setattr("holdfast.services.log.kafka.offsets.OPEN_S", 0.1)
    with pytest.raises(Torn, match="offsets 1 to 2"):
        kafka_log.last(partition, settled=True)
    ask, ends = kafka_log._offsets._at_once, [producer.commit_transaction]

    def ask_and_end(*arguments: Any) -> list[int]:
        found = ask(*arguments)
        while ends:
            ends.pop()(DEADLINE_S)
        return found

    monkeypatch.setattr(kafka_log._offsets, "_at_once", ask_and_end)
    monkeypatch.setattr("holdfast.services.log.kafka.offsets.OPEN_S", DEADLINE_S)
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
    transactor.start()  # nothing else helps after an error
    transactor.commit([Rows(partition.topic, [b"y"], partitions=[0])])
    expect_scanned(kafka_log, partition, b"y")
    transactor.close()
