"""Requests to a Kafka cluster: repeated with fresh metadata while leaders move, with a reaction to each error."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException

from holdfast.services.kernel.errors import Forbidden, Retriable, StateCorrupted
from holdfast.services.log.answers import Moved, WentBack
from holdfast.services.log.kafka.client import ANSWER_S, Cluster, error_of
from holdfast.services.log.kafka.login import LoginRefused

FIRST_PATIENCE_S, PATIENCE_GROWTH = 0.25, 1.5
SLOW, TRIES = 2, 2
"""A first try waits SLOW times as long as recent answers took, and the deadline leaves time for TRIES such tries."""
LOOK_AGAIN_S, LOOK_SELDOM_S = 0.01, 0.2
_LEAST_S = 0.1

MOVED = (
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.INVALID_REPLICATION_FACTOR,
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._NOENT,
)
"""Errors of a topic just made, or a broker just gone or back: leaders are not elected yet, or differ from the client's
metadata.

A leader that has just been elected, and does not know yet which records are committed, answers OFFSET_NOT_AVAILABLE; a
cluster with too few brokers INVALID_REPLICATION_FACTOR. The client reports _TIMED_OUT when its request waits for a dead
broker.
"""
NO_TOPIC = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
FORBIDDEN = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
_T = TypeVar("_T")


class NotAllowed(Forbidden):
    """Kafka refuses the request because this process's user lacks the right, which a person may give meanwhile."""


class Absent(Retriable):
    """The broker that was asked does not know the topic or partition."""


class Requests:
    """Requests of one process, from any thread.

    Args:
        name: name of the process, part of its clients' names.
    """

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self.admin = cluster.admin(f"{name}-admin")
        self._pace_s = 0.0
        """Recent time of an answer, in seconds."""

    def follow(self, ask: Callable[[float], _T]) -> _T:
        """Repeats a request with fresh metadata while leaders move: after a restart the client's metadata is outdated.

        ask: gets the seconds to wait for an answer, more with each try. A request to a broker that has died waits until
            this broker returns, though another one leads by then.

        An end that stays below a known end means that the log has lost its tail: StateCorrupted is raised once, and the
        present records count from then on. Where brokers are slow, the first try waits longer: on a loaded machine a
        request takes seconds, and a request that is given up sooner each time never gets its answer.
        """
        patience_s = max(FIRST_PATIENCE_S, min(SLOW * self._pace_s, ANSWER_S))
        deadline, pause_s = time.monotonic() + max(ANSWER_S, TRIES * patience_s), LOOK_AGAIN_S
        while True:
            began_s = time.monotonic()
            try:
                found = ask(min(patience_s, max(_LEAST_S, deadline - began_s)))
            except Moved as moved:
                if time.monotonic() > deadline:
                    self._fail_if_lost(moved)
                    raise
            else:
                self._pace_s = max(time.monotonic() - began_s, self._pace_s / 2)
                return found
            began_s = time.monotonic()
            with suppress(Retriable):
                self.metadata(max(_LEAST_S, min(patience_s, deadline - began_s)))
            # Any broker can answer this request: a slow answer means that all brokers, or this machine, are slow.
            self._pace_s = max(time.monotonic() - began_s, self._pace_s)
            time.sleep(pause_s)
            pause_s, patience_s = min(2 * pause_s, LOOK_SELDOM_S), min(PATIENCE_GROWTH * patience_s, ANSWER_S)

    def _fail_if_lost(self, moved: Moved) -> None:
        if isinstance(moved, WentBack):
            self._cluster.known.forget({moved.partition.topic})
            raise StateCorrupted(
                f"{moved} for {ANSWER_S:g} s: the log has lost its tail, or the topic was deleted and created again. "
                "What was acknowledged may be gone: check the brokers' disks, and unclean.leader.election.enable"
            ) from moved

    def answer(self, what: str, future: Future[Any], *harmless: int) -> Any:
        """The answer, or None for a harmless error. Raises Retriable otherwise."""
        try:
            return future.result(ANSWER_S + 0.5)
        except KafkaException as exception:
            error = error_of(exception)
            if error.code() in harmless:
                return None
            raise self._unanswered(what, error) from exception
        except TimeoutError as error:
            raise self._cluster.unanswered(what, "no answer") from error

    def _unanswered(self, what: str, error: KafkaError) -> Retriable:
        """The error by the reaction that it requires. A refused login takes precedence, because every try meets it."""
        self.admin.poll(0)  # the library reports errors of its connections by callback here
        failure, code = self._cluster.unanswered(what, error.str()), error.code()
        if isinstance(failure, LoginRefused):
            return failure
        if code in FORBIDDEN:
            who = self._cluster.settings.get("sasl.username", "")
            return NotAllowed(f"Kafka does not let {f'user {who!r}' if who else 'this process'} {what}: {error.str()}")
        kind = Moved if code in MOVED else Absent if code in NO_TOPIC else Retriable
        return kind(str(failure))

    def metadata(self, timeout_s: float = ANSWER_S) -> dict[str, Any]:
        """A broker's metadata of all topics; metadata without any broker raises Moved."""
        try:
            found = self.admin.list_topics(timeout=timeout_s)
        except KafkaException as exception:
            raise self._unanswered("list topics", error_of(exception)) from exception
        if not found.brokers:
            raise Moved(f"list topics: Kafka at {self._cluster.bootstrap_servers} names no broker")
        self._cluster.seen.listed(found)
        return dict(found.topics)
