"""Appender: an idempotent producer that never gives up on a record and never drops an answer.

Source: PROTOCOL 1 (acks=all, idempotent, no delivery time-out shorter than the copy's life).
"""

from __future__ import annotations

import contextlib
import functools
from collections import deque
from collections.abc import Callable, Mapping
from typing import cast

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Message as KafkaMessage

from holdfast.schemas.topics import Partition
from holdfast.services.kernel.errors import InvalidRecord, Retriable
from holdfast.services.kernel.plurals import plural
from holdfast.services.log.answers import Unacknowledged
from holdfast.services.log.kafka.client import Cluster, connect, error_of, listed
from holdfast.services.log.kafka.login import LoginRefused
from holdfast.services.log.kafka.stalled import Stalled
from holdfast.services.log.protocol import Delivered, Headers

CONNECT_S = 1.0
CLOSE_S = 4.0
_FULL_WAIT_S = 0.05
UNPLACED = "the first record for a partition was answered without its offset: it may be lost"
"""The error of a record that may be lost. The library counts a failed request as delivered once a later one was
accepted, since brokers refuse a gap; but from a producer that is new to a partition they accept any first record.
"""

UNNAMED = (
    "the producer has ended, and the client library has lost the cause: most often this login has no right to write "
    "(authorization)"
)

_SETTINGS: Mapping[str, str | int] = {
    "message.timeout.ms": 0,
    "retry.backoff.ms": 5,
    "retry.backoff.max.ms": 200,
    # A broker takes one request of a connection after the other: those that wait there cannot grow any more. A higher
    # limit keeps a thread busy while a partition has 5 records in flight and more ready (docs/decisions/0159).
    "max.in.flight.requests.per.connection": 1,
}


_OF_CALLBACKS = (KafkaException, SystemError)
"""Errors raised by a wait in which the client finds that the producer has ended, such as without any right to write."""


class KafkaAppender:
    """Implements Appender over one producer.

    linger_ms: longest time in milliseconds that a record waits for others in its request.
    """

    def __init__(self, cluster: Cluster, name: str, linger_ms: int = 0) -> None:
        self._cluster = cluster
        self._due: deque[tuple[Delivered, KafkaError | None, int]] = deque()
        self._failure: KafkaError | None = None
        self._fatal = ""
        self._placed: dict[Partition, int] = {}
        self._stalled = Stalled(cluster.seen)
        cluster.known.opened(self._placed)
        self._producer = cluster.producer(name, {**_SETTINGS, "linger.ms": linger_ms})
        with contextlib.suppress(KafkaException):  # records wait for a broker that is away
            connect(self._producer, cluster.seen, CONNECT_S)

    def append(
        self,
        partition: Partition,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers | None = None,
        timestamp_ms: int | None = None,
        done: Delivered | None = None,
    ) -> None:
        """Queues a record, as `Appender.append`. Raises InvalidRecord above 16 MiB, and Retriable once the producer has
        ended.
        """
        answered = self._answered if done is None else functools.partial(self._answered, done=done)
        while True:
            try:
                self._producer.produce(
                    partition.topic, value, key, partition.index, answered, None, timestamp_ms or 0, listed(headers)
                )
                return
            except BufferError:
                self._wait(self._producer.poll, _FULL_WAIT_S)  # answers make room; `done` is called at the next poll
            except KafkaException as exception:
                raise self._refused(partition, value, exception) from exception

    def poll(self) -> None:
        self._stalled.polled(self._producer, self._wait(self._producer.poll, 0) > 0)
        self._call_done()

    def flush(self, timeout_s: float) -> None:
        missing = self._wait(self._producer.flush, timeout_s)
        self._call_done()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise self._error(failure)
        if missing:
            error = self._cluster.unanswered(f"append {plural(missing, 'record')}", f"no answer in {timeout_s:g} s")
            raise error if isinstance(error, LoginRefused) else Unacknowledged(str(error))

    def close(self) -> None:
        """Waits a few seconds for answers; a record without an answer then fails, and may have been appended or not."""
        if self._left():
            self._producer.purge()
            self._left()
        self._cluster.known.closed(self._placed)
        self._call_done()

    def _left(self) -> int:
        """Number of records without an answer after a wait. Errors of the wait are raised by `flush` or answer a
        record.
        """
        try:
            return self._noted(self._producer.flush, CLOSE_S)
        except _OF_CALLBACKS:
            return len(self._producer)

    def _wait(self, call: Callable[[float], int], timeout_s: float) -> int:
        """The client's answer to a wait. Raises Retriable if the producer has ended."""
        try:
            return self._noted(call, timeout_s)
        except _OF_CALLBACKS as raised:
            raise self._cluster.unanswered("append", self._fatal) from raised

    def _noted(self, call: Callable[[float], int], timeout_s: float) -> int:
        """The client's answer to a wait, with errors of the client. Keeps the cause of a producer's end, which only one
        wait raises.
        """
        try:
            return call(timeout_s)
        except _OF_CALLBACKS as raised:
            cause = raised.__cause__ or raised
            self._fatal = error_of(cause).str() if isinstance(cause, KafkaException) else f"{UNNAMED} ({cause})"
            raise

    def _cause(self, error: KafkaError) -> str:
        """Text of an error. A producer that has ended answers every call with the same text without a cause, so the
        kept cause is used.
        """
        if error.code() != KafkaError._FATAL:
            return error.str()
        with contextlib.suppress(*_OF_CALLBACKS):
            self._noted(self._producer.poll, 0)
        return self._fatal or error.str()

    def _answered(self, error: KafkaError | None, message: KafkaMessage, done: Delivered | None = None) -> None:
        offset = message.offset()
        where = cast(Partition, (message.topic(), message.partition()))  # equal to one, and made faster
        if offset is not None and offset >= 0:
            self._placed[where] = offset
        elif error is None and where not in self._placed:
            error = KafkaError(KafkaError._FAIL, UNPLACED)
        if error is not None and self._failure is None:
            self._failure = error
        if done is not None:
            self._due.append((done, error, -1 if offset is None else offset))

    def _call_done(self) -> None:
        while self._due:
            done, error, offset = self._due.popleft()
            done(None if error is None else self._error(error), offset)

    def _error(self, error: KafkaError) -> Exception:
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            return InvalidRecord("a record is larger than its topic takes: raise the topic's max.message.bytes")
        return self._cluster.unanswered("append", self._cause(error))

    def _refused(self, partition: Partition, value: bytes | None, exception: KafkaException) -> Exception:
        error = error_of(exception)
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            return InvalidRecord(f"a record of {plural(len(value or b''), 'byte')} for {partition} is above 16 MiB")
        return Retriable(f"cannot append to {partition}: {self._cause(error)}. Open a new appender")
