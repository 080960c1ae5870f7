"""What KafkaLog makes of a broker that hangs, dies and comes back: everything waits, and nothing is lost or doubled."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.client.writer import paced
from holdfast.services.kernel.errors import HoldfastError, Indefinite, Retriable
from holdfast.services.log.kafka.appender import KafkaAppender
from holdfast.services.log.kafka.client import Cluster
from holdfast.services.log.kafka.log import KafkaLog
from holdfast.services.log.kafka.transactor import COMMIT_S, START_S
from holdfast.services.log.protocol import Message, Rows, Transactor
from holdfast.services.node.kafka.broker import EmbeddedKafka
from tests.support.kafka import running_kafka

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

DEADLINE_S = 120.0
ROWS = Partition("rows", 0)


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    with running_kafka(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture
def broker(started: EmbeddedKafka) -> EmbeddedKafka:
    """One that a test may kill."""
    if not started.running:
        started.start()
    return started


@pytest.fixture
def log(broker: EmbeddedKafka) -> Iterator[KafkaLog]:
    log = KafkaLog(broker.bootstrap_servers, None, "outages")
    log.delete([ROWS.topic])
    log.create([TopicSpec(ROWS.topic)])
    yield log
    log.close()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "not in time"


def restart(broker: EmbeddedKafka) -> None:
    broker.kill()
    broker.start()


def one_row(value: bytes) -> list[Rows]:
    return [Rows(ROWS.topic, [value], partitions=[0])]


def values(log: KafkaLog) -> list[bytes | None]:
    return [m.value() for m in log.scan(ROWS)]


def test_appender_and_reader_wait_for_the_broker_and_continue(broker: EmbeddedKafka, log: KafkaLog) -> None:
    appender, reader = log.appender("a"), log.reader("r")
    read: list[Message] = []
    answers: list[tuple[Exception | None, int]] = []

    def append(begin: int, count: int) -> None:
        for n in range(begin, begin + count):
            appender.append(ROWS, str(n).encode(), done=lambda error, offset: answers.append((error, offset)))

    def turn() -> int:
        appender.poll()
        read.extend(m for chunk in reader.poll(0.01) for m in chunk.messages)
        return len(read)

    reader.assign({ROWS: 0})
    append(0, 1_000)
    until(lambda: turn() == 1_000)
    broker.kill()
    append(1_000, 1_000)
    with pytest.raises(Retriable, match=broker.bootstrap_servers):
        appender.flush(0.5)
    turn()
    broker.start()
    append(2_000, 1_000)
    until(lambda: turn() == 3_000 and len(answers) == 3_000)
    assert [m.value() for m in read] == [str(n).encode() for n in range(3_000)]
    assert answers == [(None, n) for n in range(3_000)]
    appender.close()
    reader.close()


def test_a_commit_in_which_the_broker_dies_is_indefinite_and_a_new_start_tells(
    broker: EmbeddedKafka, log: KafkaLog
) -> None:
    transactor = log.transactor("id")
    transactor.start()
    transactor.commit(one_row(b"before"))
    broker.child.send(signal.SIGSTOP)
    outcome: list[Exception | None] = []

    def commit() -> None:
        try:
            transactor.commit(one_row(b"unknown"))
            outcome.append(None)
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=commit)
    thread.start()
    thread.join(0.3)  # it has sent its row by then, or has not: it is indefinite both ways
    began = time.monotonic()
    broker.kill()
    thread.join(DEADLINE_S)
    assert [type(error) for error in outcome] == [Indefinite]
    assert time.monotonic() - began < COMMIT_S - 1.0, "the lost connection was noticed, not the time that is over"
    with pytest.raises(Indefinite):
        transactor.commit(one_row(b"too early"))
    broker.start()
    transactor.start()
    transactor.commit(one_row(b"after"))
    until(lambda: values(log)[-1:] == [b"after"])
    assert values(log) in ([b"before", b"after"], [b"before", b"unknown", b"after"])
    transactor.close()


def test_a_connection_lost_between_commits_ends_the_use_of_a_producer(broker: EmbeddedKafka, log: KafkaLog) -> None:
    transactor = log.transactor("id")
    transactor.start()
    transactor.commit(one_row(b"before"))
    restart(broker)
    with pytest.raises(Indefinite):
        transactor.commit(one_row(b"never"))
    transactor.start()
    transactor.commit(one_row(b"after"))
    until(lambda: values(log) == [b"before", b"after"])
    transactor.close()


def test_transactions_that_were_being_ended_when_kafka_died_are_whole_afterwards(
    broker: EmbeddedKafka, log: KafkaLog
) -> None:
    """Without the fencing of services/node/kafka/fence.py Kafka skips the ends of some of them now and then."""
    rows, positions = ([Partition(topic, index) for index in range(24)] for topic in ("many", "positions"))
    log.create([TopicSpec("many", len(rows)), TopicSpec("positions", len(positions))])
    for number in (b"1", b"2"):
        transactors = [log.transactor(f"id-{row.index}") for row in rows]
        for transactor in transactors:
            transactor.start()
        ends = log.offsets(rows, "end")
        with ThreadPoolExecutor(len(rows)) as threads:
            asked = [
                threads.submit(_committed, transactor, [_one(row, number), _one(position, number)])
                for transactor, row, position in zip(transactors, rows, positions, strict=True)
            ]
            while log.offsets(rows, "end") == ends:
                pass  # at once when the first end is written, which is not yet the case everywhere
            restart(broker)
            committed = [one.result() for one in asked]
        for row, position, sure in zip(rows, positions, committed, strict=True):
            successor = log.transactor(f"id-{row.index}")
            successor.start()
            last = log.last(position, settled=True)
            found = b"" if last is None else last.value()
            assert [m.value() for m in log.scan(row)].count(number) == (found == number)
            assert found == number or not sure
            successor.close()


def _one(partition: Partition, value: bytes) -> Rows:
    return Rows(partition.topic, [value], partitions=[partition.index])


def _committed(transactor: Transactor, rows: list[Rows]) -> bool:
    """It is said to be."""
    try:
        transactor.commit(rows)
    except (Indefinite, Retriable):
        return False
    return True


def test_a_start_without_a_broker_is_retriable_in_bounded_time(
    broker: EmbeddedKafka, log: KafkaLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.services.log.kafka.transactor.START_S", 1.0)
    transactor = log.transactor("id")
    broker.kill()
    began = time.monotonic()
    with pytest.raises(Retriable, match=broker.bootstrap_servers):
        transactor.start()
    assert time.monotonic() - began < START_S
    monkeypatch.undo()
    broker.start()
    transactor.start()
    transactor.commit(one_row(b"x"))
    until(lambda: values(log) == [b"x"])
    transactor.close()


SPINS = 0.2
"""Share of a core above which a thread that has nothing to do does not wait: one that spins takes 42 to 51 % (decision
0159), one that waits 2 to 3 %, and up to 9 % where the machine is slow."""
STANDS_S = 4.0


def thread_seconds() -> dict[tuple[str, str], float]:
    """CPU time of each thread of this process, by id and name."""
    found = {}
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it has ended
            name, _, fields = (task / "stat").read_text(encoding="utf-8").partition("(")[2].rpartition(")")
            ticks = fields.split()[11:13]
            found[task.name, name] = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    return found


class StoppingRows(Sequence[bytes]):
    """Rows of which the later ones come once the first is on the broker and the broker is stopped.

    So requests for one partition are in flight while more of its rows are ready, which is when the library spins.
    """

    def __init__(self, first_arrived: Callable[[], bool], stop: Callable[[], None], count: int) -> None:
        self._first_arrived, self._stop, self._count = first_arrived, stop, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        if index >= self._count:
            raise IndexError
        if index == 1:
            until(self._first_arrived)
            self._stop()
        return b"x" * 100


def test_no_thread_of_a_producer_spins_while_the_broker_hangs(broker: EmbeddedKafka, log: KafkaLog) -> None:
    """An appender and a transactor have records in flight, and more of the same partition are ready all the time.

    The appender gathers records for a moment, so that many are in flight in one request.
    """
    log.create([TopicSpec("appended")])
    cluster, transactor = Cluster(broker.bootstrap_servers), log.transactor("spin")
    KafkaAppender(cluster, "first").close()  # the cluster has named one broker: the next client hardly asks who leads
    appender = KafkaAppender(cluster, "spin", linger_ms=5)
    where = Partition("appended", 0)
    appender.append(where, b"before")
    appender.flush(DEADLINE_S)
    transactor.start()
    stopped = threading.Event()

    def stop() -> None:
        os.kill(broker.pid, signal.SIGSTOP)
        stopped.set()

    def commit() -> None:
        rows = StoppingRows(lambda: log.offsets([ROWS], "end")[ROWS] > 0, stop, 30_000)
        with suppress(HoldfastError):  # as Kafka finds the transaction when it continues
            transactor.commit([Rows(ROWS.topic, rows, partitions=[0] * len(rows))])

    thread = threading.Thread(target=commit)
    thread.start()
    try:
        assert stopped.wait(DEADLINE_S)
        before, began_s = thread_seconds(), time.monotonic()
        for burst in paced([[b"x" * 200] * 50] * int(STANDS_S * 40), 2_000, clock=time.monotonic, sleep=time.sleep):
            for value in burst:
                appender.append(where, value)
            appender.poll()
        took_s = time.monotonic() - began_s
        spent = {key: seconds - before.get(key, 0.0) for key, seconds in thread_seconds().items()}
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    thread.join(DEADLINE_S)
    appender.flush(DEADLINE_S)
    appender.close()
    transactor.close()
    assert took_s >= STANDS_S / 2
    assert {
        key: seconds for key, seconds in spent.items() if key[1].startswith("rdk:") and seconds > SPINS * took_s
    } == {}
