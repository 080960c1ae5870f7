"""What a transactor makes of a library that tells of the same failure in more than one way."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from services.kernel.errors import Fenced, Indefinite
from services.log import kafka_transactor
from services.log.kafka_client import Cluster
from services.log.kafka_transactor import TRANSACTION_S, KafkaTransactor
from services.log.protocol import Rows

FENCED = KafkaException(KafkaError(KafkaError._FENCED, "fenced by a newer instance", fatal=True))
TIMED_OUT = KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer yet", retriable=True))


class Library:
    """A producer. ends: what each further end of a transaction raises; polled: what poll raises."""

    def __init__(self, *ends: KafkaException | None, polled: KafkaException | None = None) -> None:
        self._ends, self._polled = list(ends), polled

    def poll(self, timeout: float) -> int:
        if self._polled is not None:
            raise self._polled
        return 0

    def begin_transaction(self) -> None:
        if self._polled is not None:
            raise self._polled

    def produce(self, *record: Any, **more: Any) -> None:
        pass

    def commit_transaction(self, timeout: float) -> None:
        if self._ends and (error := self._ends.pop(0)) is not None:
            raise error


def holding(library: Any) -> KafkaTransactor:
    transactor = KafkaTransactor(Cluster("127.0.0.1:1"), "t")
    transactor._producer = library
    return transactor


def test_a_fence_that_is_told_while_callbacks_run_is_a_fence() -> None:
    with pytest.raises(Fenced):
        holding(Library(polled=FENCED)).commit([])


def test_a_fence_that_is_told_between_two_looks_at_a_commit_is_a_fence() -> None:
    library = Library(TIMED_OUT, FENCED)
    library.poll = lambda timeout: 0 if len(library._ends) == 2 else _raise(FENCED)  # type: ignore[method-assign]
    with pytest.raises(Fenced):
        holding(library).commit([])


class Silent(Library):
    """A producer whose broker never answers, and never ends the connection: time passes, and nothing else happens."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def commit_transaction(self, timeout: float) -> None:
        self.now_s += timeout
        raise TIMED_OUT


@pytest.mark.parametrize("rows", [[], [Rows("t", [b"x"])]], ids=["the position alone", "rows"])
def test_a_commit_that_is_never_answered_is_in_doubt_once_the_broker_has_ended_it_by_itself(
    monkeypatch: pytest.MonkeyPatch, rows: Sequence[Rows]
) -> None:
    """Not before, since the answer may come; and not later, since nothing is delivered meanwhile."""
    library = Silent()
    monkeypatch.setattr(kafka_transactor, "time", SimpleNamespace(monotonic=lambda: library.now_s))
    transactor = holding(library)
    with pytest.raises(Indefinite):
        transactor.commit(rows)
    assert TRANSACTION_S < library.now_s <= TRANSACTION_S + 2.0
    asked_s = library.now_s
    with pytest.raises(Indefinite):
        transactor.commit(rows)
    assert library.now_s == asked_s, "the producer is not used again"


def _raise(error: Exception) -> int:
    raise error


class Ended(Library):
    """A producer whose commit fails, and the abort after it; no variable of it holds an error."""

    def __init__(self, code: int, abort: bool) -> None:
        super().__init__()
        self._code, self._abort = code, abort

    def commit_transaction(self, timeout: float) -> None:
        raise KafkaException(KafkaError(self._code, "no more", txn_requires_abort=self._abort))

    def abort_transaction(self, timeout: float) -> None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer"))


@pytest.mark.parametrize("abort", [False, True], ids=["commit", "abort"])
@pytest.mark.parametrize("code", [KafkaError._FAIL, KafkaError._FENCED, KafkaError._TRANSPORT])
def test_a_producer_that_is_not_used_again_is_gone_without_a_collection(code: int, abort: bool) -> None:
    """A worker lost a broker again and again: its threads were 92, then 196, of producers that waited for one."""
    library = Ended(code, abort)
    producer, transactor = weakref.ref(library), holding(library)
    del library
    gc.disable()
    try:
        with suppress(Fenced, Indefinite):
            transactor.commit([])
        assert producer() is None
    finally:
        gc.enable()
