"""WaitingLog: a Log whose calls wait, up to a limit, for partitions without a leader, and report the wait to the
person.

Every command of a person reads and writes through it, so that no command fails because a broker has just restarted.
Services do not use it: their loops retry by themselves. It wraps a Log of Kafka, below the seal. Tests:
tests/unit/log/test_waiting.py and tests/unit/cli/test_waiting_commands.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.kernel.errors import Retriable, TopicGone
from holdfast.services.log.answers import Unacknowledged
from holdfast.services.log.kafka.requests import Absent
from holdfast.services.log.patience import FIRST_WORD_S, Patience, Wait
from holdfast.services.log.protocol import (
    Appender,
    At,
    Delivered,
    Described,
    Headers,
    Log,
    Message,
    Reader,
    Rows,
    Transactor,
)

_T = TypeVar("_T")


class WaitingLog:
    """Implements Log around another log."""

    def __init__(self, log: Log, patience: Patience) -> None:
        self._log = log
        self._patience = patience

    def create(self, topics: Iterable[TopicSpec]) -> None:
        specs = list(topics)
        self._ask(f"create {_some(spec.name for spec in specs)}", lambda: self._log.create(specs))

    def delete(self, names: Iterable[str]) -> None:
        gone = list(names)
        self._ask(f"delete {_some(gone)}", lambda: self._log.delete(gone))

    def topics(self, needed: Iterable[str] = ()) -> dict[str, int]:
        names = list(needed)
        return self._ask("list its topics", lambda: self._log.topics(names))

    def describe(self, topics: Iterable[str]) -> dict[str, Described]:
        names = list(topics)
        return self._ask(f"describe {_some(names)}", lambda: self._log.describe(names))

    def config(self, topic: str) -> dict[str, str]:
        return self._ask(f"list the settings of {topic}", lambda: self._log.config(topic))

    def configure(self, topics: Iterable[TopicSpec]) -> None:
        specs = list(topics)
        self._ask(f"configure {_some(spec.name for spec in specs)}", lambda: self._log.configure(specs))

    def offsets(self, partitions: Iterable[Partition], at: At) -> dict[Partition, int]:
        wanted = list(partitions)
        what = f"say where {_some(wanted)} {'begins' if at == 'start' else 'ends' if at == 'end' else 'stood then'}"
        return self._ask(what, lambda: self._known(wanted, lambda: self._log.offsets(wanted, at)))

    def trim(self, upto: Mapping[Partition, int]) -> None:
        self._ask(f"trim {_some(upto)}", lambda: self._log.trim(upto))

    def scan(self, partition: Partition, start: int | None = None) -> Iterator[Message]:
        """Scans as `Log.scan`. After a wait, the scan continues behind its last record, to the end at that time."""
        what = f"send the records of {partition}"
        messages = self._ask(what, lambda: self._known([partition], lambda: self._log.scan(partition, start)))
        return self._rest(partition, messages, start, f"Kafka to {what}")

    def last(self, partition: Partition, settled: bool = False) -> Message | None:
        what = f"send the last record of {partition}"
        return self._ask(what, lambda: self._known([partition], lambda: self._log.last(partition, settled)))

    def tail(self, partition: Partition, settled: bool = False) -> Sequence[Message]:
        what = f"send the last records of {partition}"
        return self._ask(what, lambda: self._known([partition], lambda: self._log.tail(partition, settled)))

    def reader(self, name: str, *, on_demand: bool = False, patient: bool = False, waits_long: bool = False) -> Reader:
        """A reader that gives nothing while a leader is absent: see services/log/late/expected_records.py."""
        return self._log.reader(name, on_demand=on_demand, patient=patient, waits_long=waits_long)

    def appender(self, name: str) -> WaitingAppender:
        return WaitingAppender(self._log.appender(name), self._patience)

    def transactor(self, transactional_id: str, batch_bytes: int | None = None) -> WaitingTransactor:
        return WaitingTransactor(self._log.transactor(transactional_id, batch_bytes), transactional_id, self._patience)

    def close(self) -> None:
        self._log.close()

    def _ask(self, what: str, call: Callable[[], _T]) -> _T:
        return self._patience.ask(f"Kafka to {what}", call)

    def _known(self, partitions: Iterable[Partition], call: Callable[[], _T]) -> _T:
        """Makes the call. Raises TopicGone at once if Kafka's controller does not know the topic either: a wait would
        not help.
        """
        try:
            return call()
        except Absent as absent:
            present = self._log.topics([partition.topic for partition in partitions])
            gone = [partition for partition in partitions if partition.index >= present.get(partition.topic, 0)]
            if gone:
                raise TopicGone(f"{_some(gone)} does not exist (any more)") from absent
            raise

    def _rest(
        self, partition: Partition, messages: Iterator[Message], position: int | None, what: str
    ) -> Iterator[Message]:
        with Wait(self._patience, what) as wait:
            while True:
                wait.begin()
                while True:
                    try:
                        message = next(messages, None)
                        break
                    except Retriable as error:
                        wait.again(error)
                        messages = self._patience.ask(what, partial(self._log.scan, partition, position))
                wait.rest()
                if message is None:
                    return
                position = message.offset() + 1
                yield message


def _some(names: Iterable[object]) -> str:
    first, *others = [str(name) for name in names] or ["nothing"]
    return f"{first} and {len(others)} more" if others else first


class WaitingAppender:
    """Implements Appender."""

    def __init__(self, appender: Appender, patience: Patience) -> None:
        self._appender = appender
        self._patience = patience

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
        self._appender.append(partition, value, key=key, headers=headers, timestamp_ms=timestamp_ms, done=done)

    def poll(self) -> None:
        self._appender.poll()

    def flush(self, timeout_s: float) -> None:
        """Waits up to the limit of the patience, whatever timeout_s is; meanwhile the records stay on their way."""
        self._patience.ask(
            "Kafka to take what was written", lambda: self._appender.flush(min(timeout_s, FIRST_WORD_S)), Unacknowledged
        )

    def close(self) -> None:
        self._appender.close()


class WaitingTransactor:
    """Implements Transactor. A commit with an Indefinite outcome is not retried."""

    def __init__(self, transactor: Transactor, transactional_id: str, patience: Patience) -> None:
        self._transactor = transactor
        self._id = transactional_id
        self._patience = patience

    def connect(self) -> None:
        self._transactor.connect()

    def start(self) -> None:
        self._patience.ask(f"Kafka to let transactions of {self._id} begin", self._transactor.start)

    def commit(self, rows: Sequence[Rows]) -> None:
        self._patience.ask(
            f"Kafka to commit to {_some(dict.fromkeys(one.topic for one in rows))}",
            lambda: self._transactor.commit(rows),
        )

    def close(self) -> None:
        self._transactor.close()
