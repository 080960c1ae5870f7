"""Transactor: one transaction at a time, with an outcome that is known or reported as unknown.

Source: PROTOCOL 9. librdkafka repeats a commit request after a disconnect, and the first request, if it arrives late,
    could commit the next transaction half-way: after a disconnect the producer is not used again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import repeat
from queue import Empty, SimpleQueue
from typing import NoReturn

from confluent_kafka import KafkaError, KafkaException, Producer

from holdfast.services.diagnostics.logger import get_logger
from holdfast.services.kernel.errors import Fenced, HoldfastError, Indefinite, InvalidRecord, Refused, Retriable
from holdfast.services.log.kafka.client import Cluster, connect, error_of, listed
from holdfast.services.log.kafka.cluster_seen import ClusterSeen
from holdfast.services.log.kafka.stalled import Stalled
from holdfast.services.log.protocol import Rows

CONNECT_S = 1.0
START_S = 10.0
TRANSACTION_S = 5.0
COMMIT_S = TRANSACTION_S + 1.0
"""Seconds after which the broker has ended the transaction by itself: a longer wait for an answer only delays the
start() that finds the outcome. The project's broker settings let the broker check once a second.
"""
ABORT_S = 5.0
FIRST_PATIENCE_S, LAST_PATIENCE_S = 0.005, 0.08
AGAIN_S = 0.5
"""Shortest time in seconds between two starts, also when the first is refused at once, such as for lack of a right."""
STEP_S = 0.1
"""Seconds after which a waiting commit checks for a lost connection, or an answer."""
LIBRARY_S = COMMIT_S + 1.0
"""Seconds that the library tries to commit: longer than any caller waits."""

_SETTINGS: Mapping[str, str | int] = {
    "transaction.timeout.ms": round(1000 * TRANSACTION_S),
    # An undeliverable record must fail before the broker aborts by itself, which would look like a fence.
    "message.timeout.ms": 4000,
    "topic.metadata.propagation.max.ms": 1000,
    # At the default of 100 back-to-back transactions take 92 ms each instead of 3.4.
    "retry.backoff.ms": 2,
    "retry.backoff.max.ms": 50,
    # A higher limit keeps a thread busy while a large transaction waits (docs/decisions/0159).
    "max.in.flight.requests.per.connection": 1,
}

_FENCING = (
    KafkaError._FENCED,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
)
_LOCAL_REFUSALS = (KafkaError._UNKNOWN_PARTITION, KafkaError._INVALID_ARG)
"""Errors of the library that the same rows would meet again."""
_LOST = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT)

_log = get_logger()


class _Connection:
    """Callbacks of the library.

    lost: true once the connection was lost.

    It must not refer to the producer, which refers to it: both would stay, with the producer's threads, until Python's
    garbage collection. The library reports a second loss with the same text within 30 s only once, so no loss may be
    forgiven.
    """

    def __init__(self) -> None:
        self.lost = False

    def happened(self, error: KafkaError) -> None:
        if error.code() in _LOST:
            self.lost = True


class _Session:
    """A producer, from its start to its first failure with an unknown outcome; then call `end`.

    Nothing else keeps the producer: an error's traceback keeps every variable, so no variable here is the producer.
    """

    def __init__(self, cluster: Cluster, transactional_id: str, batch_bytes: int | None = None) -> None:
        own = {**_SETTINGS, "transactional.id": transactional_id}
        if batch_bytes is not None:
            own["batch.size"] = batch_bytes
        self.connection = _Connection()
        self.producer = cluster.producer(transactional_id, own, error_cb=self.connection.happened)
        self._committer: _Committer | None = None
        self._stalled = Stalled(cluster.seen)

    @property
    def lost(self) -> bool:
        return self.connection.lost

    def poll(self) -> None:
        """Runs the callbacks that are due. A fatal error, such as a fence, is not raised:
        the next call raises it too.
        """
        with suppress(KafkaException):
            self.producer.poll(0)

    def end(self) -> None:
        """Destroys the producer in a thread of its own: its destruction waits for the library's threads, one of which
        may resolve the address of an absent broker.
        """
        if self._committer is not None:
            self._committer.end()
        last = [self.producer]
        del self.producer
        threading.Thread(target=last.clear, name="destroy", daemon=True).start()

    def commit(self) -> KafkaError | None:
        """The library's answer to a commit; None: committed.

        The library is asked once a transaction, beside the caller, which waits in steps. When a call has run out of
        time and is repeated, the library takes the answer to one step of the commit for that to the next one: it then
        reports a success too early, or ends the process by an assertion when the broker answers. Source:
        docs/decisions/0118.

        Raises:
            TimeoutError: the connection was lost, or no answer came in time. The session is of no further use.
        """
        self._committer = self._committer or _Committer()
        self._committer.ask(self.producer)
        deadline = time.monotonic() + COMMIT_S
        while True:
            with suppress(Empty):
                return self._committer.answers.get(timeout=STEP_S)
            self.poll()
            self._stalled.polled(self.producer)
            if self.lost:
                raise TimeoutError("the connection was lost")
            if time.monotonic() > deadline:
                raise TimeoutError(f"there was no answer for {COMMIT_S:g} s")


class _Committer:
    """Makes the commits of a session in one thread, and keeps no producer between two commits.

    A new thread for each commit takes up to 1.6 ms to start while the loop is busy (docs/decisions/0118).

    answers: one for each commit, in order; None: committed.
    """

    def __init__(self) -> None:
        self._asked = SimpleQueue[Producer | None]()
        self.answers = SimpleQueue[KafkaError | None]()
        threading.Thread(target=_commit_each, args=(self._asked, self.answers), name="commit", daemon=True).start()

    def ask(self, producer: Producer) -> None:
        self._asked.put(producer)

    def end(self) -> None:
        """Ends the thread after the answer to a commit that is under way."""
        self._asked.put(None)


def _commit_each(asked: SimpleQueue[Producer | None], answers: SimpleQueue[KafkaError | None]) -> None:
    while (producer := asked.get()) is not None:
        answer = _failure(partial(producer.commit_transaction, LIBRARY_S))
        del producer
        answers.put(answer)


class KafkaTransactor:
    """Implements Transactor.

    batch_bytes: largest batch of records of a partition in bytes: a topic refuses a batch above its max.message.bytes
        with all its records, and the library does not split it.
    """

    def __init__(self, cluster: Cluster, transactional_id: str, batch_bytes: int | None = None) -> None:
        self._cluster = cluster
        self._id = transactional_id
        self._batch_bytes = batch_bytes
        self._connected = False
        self._fresh: _Session | None = _Session(cluster, transactional_id, batch_bytes)
        self._session: _Session | None = None
        self._over: HoldfastError = Fenced(f"{transactional_id} is not held: start first")

    def connect(self) -> None:
        """Makes the connections in advance, which saves the first start() two waits for answers."""
        if self._fresh is not None:
            with suppress(KafkaException):
                connect(self._fresh.producer, self._cluster.seen, CONNECT_S)
                self._connected = True

    def start(self) -> None:
        """Starts as `Transactor.start`. Raises Retriable without an answer in 10 s."""
        former, self._session = self._session, None
        if former is not None:
            former.end()
        session, self._fresh = self._fresh or _Session(self._cluster, self._id, self._batch_bytes), None
        session.poll()
        connected, self._connected = self._connected and not session.lost, False
        begun = time.monotonic()
        error = _failure(lambda: _initialise(session.producer, None if connected else self._cluster.seen))
        if error is not None:
            session.end()
            time.sleep(max(0.0, begun + AGAIN_S - time.monotonic()))
            raise self._cluster.unanswered(f"start transactions of {self._id}", error.str())
        session.poll()
        session.connection.lost = False  # an error before the start does no harm
        self._session = session

    def commit(self, rows: Sequence[Rows]) -> None:
        """Commits as `Transactor.commit`; returns when the commit is decided. Readers get the rows a little later.

        After an error only start() helps; until then every commit raises an error of the same type. A producer is not
        used again after an abort: after a refused batch of records, librdkafka 2.16 sends a sequence number that the
        broker does not expect, and the next transaction fails whatever its rows.

        Raises InvalidRecord too, for a row above 16 MiB or a batch of rows that its topic refuses.
        """
        session = self._session
        if session is None:
            raise self._over
        session.poll()
        if session.lost:
            raise self._give_up(Indefinite(f"{self._id}: the connection was lost since the last commit"))
        error = _failure(lambda: self._produce(session.producer, rows))
        if error is not None:
            self._abort(session, error)
        self._commit(session)

    def close(self) -> None:
        """Ends without a wait for an answer: the next start() or the broker aborts an open transaction."""
        fresh, self._fresh = self._fresh, None
        if fresh is not None:
            fresh.end()
        self._give_up(Fenced(f"{self._id} is closed"))

    def _produce(self, producer: Producer, rows: Sequence[Rows]) -> None:
        producer.begin_transaction()
        produce = producer.produce
        for one in rows:
            headers = map(listed, one.each_headers()) if one.own_headers is not None else repeat(listed(one.headers))
            count = len(one.values)
            keys = repeat(None, count) if one.keys is None else one.keys
            partitions = repeat(-1, count) if one.partitions is None else one.partitions
            for value, key, partition, some in zip(one.values, keys, partitions, headers, strict=False):
                try:
                    produce(one.topic, value, key, partition, headers=some)
                except BufferError:
                    _wait_for_room(producer)
                    produce(one.topic, value, key, partition, headers=some)

    def _commit(self, session: _Session) -> None:
        try:
            error = session.commit()
        except TimeoutError as late:
            raise self._give_up(self._in_doubt(str(late))) from None
        if error is None:
            return
        session.poll()
        if error.code() in _FENCING:
            raise self._give_up(self._taken_over(error))
        if error.txn_requires_abort() and not session.lost:
            self._abort(session, error)
        raise self._give_up(self._in_doubt(error.str()))

    def _in_doubt(self, why: str) -> Indefinite:
        return Indefinite(f"{self._id}: the last transaction may be committed or not: {why}")

    def _taken_over(self, error: KafkaError) -> Fenced:
        return Fenced(f"{self._id} was taken over: {error.str()}")

    def _abort(self, session: _Session, error: KafkaError) -> NoReturn:
        if error.code() in _FENCING:
            raise self._give_up(self._taken_over(error))
        worse = _failure(lambda: session.producer.abort_transaction(ABORT_S))
        if worse is not None and worse.code() in _FENCING:
            raise self._give_up(self._taken_over(worse))
        if worse is not None:
            raise self._give_up(Indefinite(f"{self._id}: abort not answered: {worse.str()}"))
        raise self._give_up(self._refused(error))

    def _refused(self, error: KafkaError) -> HoldfastError:
        what = f"{self._id}: the transaction was aborted: {error.str()}"
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            return InvalidRecord(f"{what} (MSG_SIZE_TOO_LARGE: the topic's max.message.bytes, or above 16 MiB)")
        answered = error.code() > 0 and not error.retriable()  # by a broker; the library's own codes are negative
        return Refused(what) if answered or error.code() in _LOCAL_REFUSALS else Retriable(what)

    def _give_up(self, error: HoldfastError) -> HoldfastError:
        """Ends the session; every further commit until start() raises a copy of `error`, which is returned."""
        if isinstance(error, Indefinite):
            _log.info("rows in doubt", cause=str(error))
        session, self._session = self._session, None
        if session is not None:
            session.end()
        self._over = type(error)(*error.args)
        return error


def _failure(call: Callable[[], object]) -> KafkaError | None:
    """The library's error, without the traceback; None if the call succeeds."""
    try:
        call()
    except KafkaException as exception:
        return error_of(exception)
    return None


def _initialise(producer: Producer, unconnected: ClusterSeen | None) -> None:
    """Asks for the producer's epoch, repeatedly while the broker ends a transaction that was left open.

    The library alone asks again after 500 ms; another call makes it ask at once, unless a request is under way.
    Measured with a transaction left open: 8 ms instead of 506.
    """
    deadline = time.monotonic() + START_S
    if unconnected is not None:
        connect(producer, unconnected, START_S)
    patience_s = FIRST_PATIENCE_S
    while True:
        try:
            producer.init_transactions(patience_s)
            return
        except KafkaException as exception:
            if not error_of(exception).retriable() or time.monotonic() > deadline:
                raise
        patience_s = min(2 * patience_s, LAST_PATIENCE_S)


def _wait_for_room(producer: Producer) -> None:
    """Waits for room in the full queue. Raises KafkaException if no record leaves it for COMMIT_S."""
    deadline = time.monotonic() + COMMIT_S
    full = len(producer)
    while len(producer) >= full:
        if time.monotonic() > deadline:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "the queue stayed full"))
        producer.poll(0.01)
