"""What a transactor makes of a library that tells of the same failure in more than one way, or never."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from holdfast.services.kernel.errors import Fenced, Indefinite, Refused, Retriable
from holdfast.services.log.kafka import transactor as kafka_transactor
from holdfast.services.log.kafka.client import Cluster
from holdfast.services.log.kafka.transactor import COMMIT_S, LIBRARY_S, TRANSACTION_S, KafkaTransactor, _Session
from holdfast.services.log.protocol import Rows
from tests.support.commands import until
from tests.support.deadlines import HANG_S

FENCED = KafkaException(KafkaError(KafkaError._FENCED, "fenced by a newer instance", fatal=True))
LOST = KafkaError(KafkaError._TRANSPORT, "disconnected")
UNDELIVERED = KafkaException(KafkaError(KafkaError._INCONSISTENT, "1 message failed", txn_requires_abort=True))


class Library:
    """A producer. ends: what the commit of a transaction raises; polled: what poll raises. commits, aborts: calls."""

    def __init__(self, ends: KafkaException | None = None, polled: KafkaException | None = None) -> None:
        self._ends, self._polled = ends, polled
        self.commits = self.aborts = 0

    def __len__(self) -> int:
        return 0

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
        self.commits += 1
        if self._ends is not None:
            raise self._ends

    def abort_transaction(self, timeout: float) -> None:
        self.aborts += 1


class Silent(Library):
    """Its broker does not answer before it is told to. looks: how often callbacks were asked for."""

    def __init__(self, ends: KafkaException | None = None) -> None:
        super().__init__(ends)
        self.answers = threading.Event()
        self.looks = 0

    def poll(self, timeout: float) -> int:
        self.looks += 1
        return 0

    def commit_transaction(self, timeout: float) -> None:
        self.answers.wait(HANG_S)
        super().commit_transaction(timeout)


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Silent]:
    monkeypatch.setattr(kafka_transactor, "COMMIT_S", 0.1)
    monkeypatch.setattr(kafka_transactor, "STEP_S", 0.01)
    library = Silent()
    yield library
    library.answers.set()


def holding(library: Any) -> KafkaTransactor:
    transactor = KafkaTransactor(Cluster("127.0.0.1:1"), "t")
    transactor._session = _Session(Cluster("127.0.0.1:1"), "t")
    transactor._session.producer = library
    return transactor


def test_a_fence_that_is_told_while_callbacks_run_is_a_fence() -> None:
    with pytest.raises(Fenced):
        holding(Library(polled=FENCED)).commit([])


def test_a_fence_that_ends_a_commit_is_a_fence() -> None:
    with pytest.raises(Fenced):
        holding(Library(FENCED)).commit([])


def test_a_commit_whose_rows_were_not_delivered_is_aborted_and_the_next_one_needs_a_start() -> None:
    """Rows that ran out of time read so, too: an outage is no refusal."""
    transactor = holding(library := Library(UNDELIVERED))
    for _ in range(2):
        with pytest.raises(Retriable) as raised:
            transactor.commit([])
        assert not isinstance(raised.value, Refused)
    library._ends = None
    assert (library.commits, library.aborts) == (1, 1)


@pytest.mark.parametrize("rows", [[], [Rows("t", [b"x"])]], ids=["the position alone", "rows"])
def test_a_commit_that_is_never_answered_is_in_doubt(silent: Silent, rows: Sequence[Rows]) -> None:
    transactor = holding(silent)
    with pytest.raises(Indefinite, match="no answer"):
        transactor.commit(rows)
    with pytest.raises(Indefinite):
        transactor.commit(rows)
    silent.answers.set()
    assert silent.commits <= 1, "the producer is not used again"


def test_a_commit_is_waited_for_until_the_broker_has_ended_its_transaction_by_itself() -> None:
    """Not less, since the answer may come; and not longer, since nothing is delivered meanwhile. The library waits
    longer than that, so that nobody has to ask it again.
    """
    assert TRANSACTION_S < COMMIT_S <= TRANSACTION_S + 2.0
    assert COMMIT_S < LIBRARY_S


def test_the_library_is_asked_to_commit_once_however_long_that_takes(
    silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked again it would take the answer to one step for that to the next one."""
    monkeypatch.setattr(kafka_transactor, "COMMIT_S", HANG_S)
    looked = silent.poll

    def answers_after_five_looks(timeout: float) -> int:
        if silent.looks >= 5:
            silent.answers.set()
        return looked(timeout)

    monkeypatch.setattr(silent, "poll", answers_after_five_looks)
    holding(silent).commit([])
    assert silent.commits == 1
    assert silent.looks >= 5


def test_a_connection_that_is_lost_is_noticed_while_the_library_still_waits(
    silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_transactor, "COMMIT_S", HANG_S)
    transactor = holding(silent)
    session = transactor._session
    assert session is not None
    looked = silent.poll

    def loses_it(timeout: float) -> int:
        if silent.looks >= 2:
            session.connection.happened(LOST)
        return looked(timeout)

    monkeypatch.setattr(silent, "poll", loses_it)
    with pytest.raises(Indefinite, match="the connection was lost"):
        transactor.commit([])
    assert not silent.answers.is_set()


def test_events_of_a_producer_that_was_given_up_do_not_concern_the_next_one(silent: Silent) -> None:
    transactor = holding(silent)
    former = transactor._session
    assert former is not None
    with pytest.raises(Indefinite):
        transactor.commit([])
    transactor._session = _Session(Cluster("127.0.0.1:1"), "t")
    transactor._session.producer = Library()  # type: ignore[assignment]
    former.connection.happened(LOST)
    transactor.commit([])


class Heard(Library):
    """threads: in which it was asked to commit."""

    def __init__(self) -> None:
        super().__init__()
        self.threads = list[threading.Thread]()

    def commit_transaction(self, timeout: float) -> None:
        self.threads.append(threading.current_thread())


def test_the_same_thread_asks_for_every_commit_until_the_transactor_is_closed() -> None:
    """A thread for each commit took as long to start as a third of a transaction, while the loop was busy."""
    transactor = holding(library := Heard())
    for _ in range(3):
        transactor.commit([])
    assert len(library.threads) == 3
    assert len(set(library.threads)) == 1
    assert threading.current_thread() not in library.threads
    transactor.close()
    until(lambda: not library.threads[0].is_alive(), "the thread has ended")


class Ended(Library):
    """A producer whose commit fails, and the abort after it. destroyed: the thread in which it was."""

    def __init__(self, code: int, abort: bool, destroyed: list[str]) -> None:
        super().__init__()
        self._code, self._abort, self._destroyed = code, abort, destroyed

    def __del__(self) -> None:
        self._destroyed.append(threading.current_thread().name)

    def commit_transaction(self, timeout: float) -> None:
        raise KafkaException(KafkaError(self._code, "no more", txn_requires_abort=self._abort))

    def abort_transaction(self, timeout: float) -> None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer"))


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("abort", [False, True], ids=["commit", "abort"])
@pytest.mark.parametrize("code", [KafkaError._FAIL, KafkaError._FENCED, KafkaError._TRANSPORT])
def test_a_producer_that_is_not_used_again_is_destroyed_beside_the_caller(code: int, abort: bool) -> None:
    """Also while somebody has the error, and without a collection: a worker lost a broker again and again, and its
    threads were 92, then 196. To destroy one may take as long as an address is looked for.
    """
    destroyed = list[str]()
    transactor = holding(Ended(code, abort, destroyed))
    with pytest.raises((Fenced, Indefinite)) as error:
        transactor.commit([])
    until(lambda: destroyed, "the producer is gone")
    assert set(destroyed) <= {"destroy", "commit"}
    assert error.value.__traceback__ is not None


@pytest.mark.usefixtures("uncollected")
def test_a_start_that_is_not_answered_leaves_no_thread_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's client holds what it calls back: where that held the client, all starts of an outage stayed."""
    monkeypatch.setattr(kafka_transactor, "START_S", 0.1)
    before = library_threads()
    transactor = KafkaTransactor(Cluster("127.0.0.1:1"), "t")
    assert library_threads() > before
    with pytest.raises(Retriable) as error:
        transactor.start()
    until(lambda: library_threads() <= before, "the library's threads are gone")
    assert error.value.__traceback__ is not None


@pytest.mark.usefixtures("uncollected")
def test_a_transactor_that_is_closed_leaves_no_thread_of_the_library() -> None:
    before = library_threads()
    transactor = KafkaTransactor(Cluster("127.0.0.1:1"), "t")
    transactor.close()
    until(lambda: library_threads() <= before, "the library's threads are gone")


def library_threads() -> int:
    names = (task / "comm" for task in Path("/proc/self/task").iterdir())
    with suppress(OSError):  # one has just ended
        return sum(name.read_text().startswith("rdk:") for name in names)
    return library_threads()
