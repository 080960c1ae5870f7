"""Where a late reader of `assignments` begins is the same on both logs, also when the lower part is trimmed away."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import pytest

from holdfast.schemas import assignments
from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.log.faust.catching_up import catch_up
from holdfast.services.log.kafka.log import KafkaLog
from holdfast.services.log.late.assignments import read_standings
from holdfast.services.log.memory import MemoryLog
from holdfast.services.log.protocol import Log
from tests.unit.decisions.test_standings import fold, history_with_snapshots

pytestmark = pytest.mark.session_broker

RECORDS, EVERY = 12_000, 1_000
DEADLINE_S = 60.0


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.kafka)])
def log(request: pytest.FixtureRequest) -> Iterator[Log]:
    if request.param == "memory":
        yield MemoryLog(lambda: time.time_ns() // 1_000_000)
    else:
        made = KafkaLog(request.getfixturevalue("kafka"), None, "contract")
        yield made
        made.close()


@pytest.fixture
def where(log: Log) -> Partition:
    topic = f"assignments-{uuid.uuid4().hex[:8]}"
    log.create([TopicSpec(topic)])
    return Partition(topic, 0)


def test_reading_begins_at_a_snapshot_near_the_end_and_records_before_it_may_be_trimmed(
    log: Log, where: Partition
) -> None:
    records = history_with_snapshots(RECORDS, EVERY)
    appender = log.appender("history")
    for record in records:
        appender.append(where, assignments.encode(record))
    appender.flush(DEADLINE_S)
    standings = read_standings(log, where)
    assert standings.snapshot() == fold(records).snapshot()
    assert standings.since >= RECORDS - 4_096
    log.trim({where: standings.since})
    again = read_standings(log, where)
    assert (again.snapshot(), again.since) == (standings.snapshot(), standings.since)


def test_an_empty_log_begins_at_its_start_and_a_catch_up_feeds_what_is_there(log: Log, where: Partition) -> None:
    assert read_standings(log, where).next == 0
    appender, fed = log.appender("some"), list[tuple[int, bytes | None]]()
    for value in (b"a", b"b", b"c"):
        appender.append(where, value)
    appender.flush(DEADLINE_S)
    nexts = catch_up(log, {where: 1}, lambda _, offset, __, value: fed.append((offset, value)))
    assert (fed, nexts) == ([(1, b"b"), (2, b"c")], {where: 3})
