"""SealedLog: a Log that admits only records with the cluster's seal to the cluster's topics.

It wraps any other Log. Records without a valid seal are counted and dropped before a caller gets them; positions
continue behind them, as behind a transaction's marker. Other topics pass unchanged. tests/contract/test_sealed.py holds
it to the contract of every Log.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from holdfast.schemas.events import Event
from holdfast.schemas.topics import ClusterTopics, Partition, TopicSpec
from holdfast.services.decisions.refusals import Refusals
from holdfast.services.kernel.errors import Torn
from holdfast.services.log.protocol import (
    Appender,
    At,
    Chunk,
    Delivered,
    Described,
    Headers,
    Log,
    Message,
    Reader,
    Rows,
    Transactor,
)
from holdfast.services.log.seal.seal import HEADER, Fault, Keyring, Place

FIRST_STRETCH = 64
_MOST_PLACES = 20_000
_REPLACED = (
    "{partition}: none of its records carries the seal of the cluster, yet records are missing between offsets 0 and "
    "{end}: another writer's records came later, and Kafka has compacted these away. Compare the last rows of the "
    "job's sinks, keep others from writing to this topic (Kafka's ACLs), and submit the job again"
)


Publish = Callable[[Event], None]


class Gate:
    """The check of seals: decides which partitions are sealed, and which of their records count."""

    def __init__(self, topics: ClusterTopics, keyring: Keyring, refusals: Refusals) -> None:
        self._topics = topics
        self._keyring = keyring
        self._refusals = refusals
        self._places: dict[Partition, Place | None] = {}
        self._lock = threading.Lock()

    def place(self, partition: Partition) -> Place | None:
        """Returns the sealed partition; None if its records carry no seals."""
        try:
            return self._places[partition]
        except KeyError:
            if len(self._places) >= _MOST_PLACES:
                self._places = {}
            found = self._keyring.place(partition) if self._topics.sealed(partition) else None
            self._places[partition] = found
            return found

    def admits(self, place: Place, partition: Partition, message: Message) -> bool:
        """True if the record's seal is valid; a refused record is counted."""
        fault = place.fault(message.headers(), message.key(), message.value())
        if fault is None:
            return True
        self._refuse(partition, message.offset(), fault)
        return False

    def takes(
        self, partition: Partition, offset: int, headers: Headers | None, key: bytes | None, value: bytes | None
    ) -> bool:
        """True if a record of any topic, given in parts, counts: its topic is not sealed, or its seal is valid."""
        place = self.place(partition)
        fault = None if place is None else place.fault(headers, key, value)
        if fault is not None:
            self._refuse(partition, offset, fault)
        return fault is None

    def headers(
        self, partition: Partition, key: bytes | None, value: bytes | None, headers: Headers | None
    ) -> Headers | None:
        """Returns the headers with the record's seal behind them; the headers alone if the topic is not sealed."""
        if partition.index < 0 and self.place(Partition(partition.topic, 0)) is not None:
            raise ValueError(f"a record of {partition.topic} is sealed for one partition: name it")
        place = self.place(partition)
        return headers if place is None else [*(headers or ()), (HEADER, place.seal(headers, key, value))]

    def _refuse(self, partition: Partition, offset: int, fault: Fault) -> None:
        with self._lock:
            self._refusals.refuse(partition, offset, fault)


class SealedLog:
    """Implements Log.

    topics: topics of the cluster, whose records carry a seal.
    publish: publishes refusals; called from any thread.
    """

    def __init__(self, log: Log, topics: ClusterTopics, keyring: Keyring, publish: Publish = lambda _: None) -> None:
        self._log = self.raw = log
        self.refusals = Refusals(publish, _clock_ms, _time_ms)
        self.gate = Gate(topics, keyring, self.refusals)

    def create(self, topics: Iterable[TopicSpec]) -> None:
        self._log.create(topics)

    def delete(self, names: Iterable[str]) -> None:
        self._log.delete(names)

    def topics(self, needed: Iterable[str] = ()) -> dict[str, int]:
        return self._log.topics(needed)

    def describe(self, topics: Iterable[str]) -> dict[str, Described]:
        return self._log.describe(topics)

    def config(self, topic: str) -> dict[str, str]:
        return self._log.config(topic)

    def configure(self, topics: Iterable[TopicSpec]) -> None:
        self._log.configure(topics)

    def offsets(self, partitions: Iterable[Partition], at: At) -> dict[Partition, int]:
        return self._log.offsets(partitions, at)

    def trim(self, upto: Mapping[Partition, int]) -> None:
        self._log.trim(upto)

    def scan(self, partition: Partition, start: int | None = None) -> Iterator[Message]:
        found, place = self._log.scan(partition, start), self.gate.place(partition)
        return found if place is None else (m for m in found if self.gate.admits(place, partition, m))

    def last(self, partition: Partition, settled: bool = False) -> Message | None:
        """The last record that counts, as `Log.last`. Raises Torn also when strangers' records made Kafka compact away
        those of the cluster.
        """
        found, place = self._log.last(partition, settled), self.gate.place(partition)
        if found is None or place is None or self.gate.admits(place, partition, found):
            return found
        return self._last_below(partition, place, found.offset())

    def tail(self, partition: Partition, settled: bool = False) -> Sequence[Message]:
        found, place = self._log.tail(partition, settled), self.gate.place(partition)
        if place is None or all([self.gate.admits(place, partition, message) for message in found]):
            return found
        counting = list(self.scan(partition))
        if not counting:
            self.last(partition, settled)  # raises Torn if records are missing
        return counting

    def reader(
        self, name: str, *, on_demand: bool = False, patient: bool = False, waits_long: bool = False
    ) -> SealedReader:
        reader = self._log.reader(name, on_demand=on_demand, patient=patient, waits_long=waits_long)
        return SealedReader(reader, self.gate)

    def appender(self, name: str) -> SealedAppender:
        return SealedAppender(self._log.appender(name), self.gate)

    def transactor(self, transactional_id: str, batch_bytes: int | None = None) -> SealedTransactor:
        return SealedTransactor(self._log.transactor(transactional_id, batch_bytes), self.gate)

    def close(self) -> None:
        self._log.close()

    def _last_below(self, partition: Partition, place: Place, end: int) -> Message | None:
        """The last record that counts below a refused record at offset `end`; None if there is none."""
        start, behind, seen = self._log.offsets([partition], "start")[partition], end + 1, 1
        stretch = FIRST_STRETCH
        while end > start:
            begin = max(start, end - stretch)
            below = list(_below(self._log.scan(partition, begin), end))
            found = next((m for m in reversed(below) if self.gate.admits(place, partition, m)), None)
            if found is not None:
                return found
            seen, end, stretch = seen + len(below), begin, stretch * 2
        if seen < behind and self._log.config(partition.topic).get("cleanup.policy") == "compact":
            raise Torn(_REPLACED.format(partition=partition, end=behind))
        return None


def _below(messages: Iterator[Message], end: int) -> Iterator[Message]:
    return itertools.takewhile(lambda message: message.offset() < end, messages)


class SealedReader:
    """Implements Reader."""

    def __init__(self, reader: Reader, gate: Gate) -> None:
        self._reader = reader
        self._gate = gate

    def assign(self, positions: Mapping[Partition, int]) -> None:
        self._reader.assign(positions)

    def unassign(self, partitions: Iterable[Partition]) -> None:
        self._reader.unassign(partitions)

    def pause(self, partitions: Iterable[Partition]) -> None:
        self._reader.pause(partitions)

    def resume(self, partitions: Iterable[Partition]) -> None:
        self._reader.resume(partitions)

    def poll(self, timeout_s: float, max_messages: int = 10_000) -> list[Chunk]:
        """Polls as `Reader.poll`; a chunk without a record that counts is dropped, unless it reports the partition's
        end.
        """
        chunks = self._reader.poll(timeout_s, max_messages)
        kept = [self._admitted(chunk) for chunk in chunks]
        return [chunk for chunk in kept if chunk.messages or chunk.end is not None]

    def current(self, chunk: Chunk) -> bool:
        return self._reader.current(chunk)

    def close(self) -> None:
        self._reader.close()

    def _admitted(self, chunk: Chunk) -> Chunk:
        partition, gate = chunk.partition, self._gate
        place = gate.place(partition)
        if place is None:
            return chunk
        kept = [m for m in chunk.messages if gate.admits(place, partition, m)]
        return chunk if len(kept) == len(chunk.messages) else replace(chunk, messages=kept)


class SealedAppender:
    """Implements Appender."""

    def __init__(self, appender: Appender, gate: Gate) -> None:
        self._appender = appender
        self._gate = gate

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
        headers = self._gate.headers(partition, key, value, headers)
        self._appender.append(partition, value, key=key, headers=headers, timestamp_ms=timestamp_ms, done=done)

    def poll(self) -> None:
        self._appender.poll()

    def flush(self, timeout_s: float) -> None:
        self._appender.flush(timeout_s)

    def close(self) -> None:
        self._appender.close()


class SealedTransactor:
    """Implements Transactor."""

    def __init__(self, transactor: Transactor, gate: Gate) -> None:
        self._transactor = transactor
        self._gate = gate

    def connect(self) -> None:
        self._transactor.connect()

    def start(self) -> None:
        self._transactor.start()

    def commit(self, rows: Sequence[Rows]) -> None:
        self._transactor.commit([one for each in rows for one in self._sealed(each)])

    def close(self) -> None:
        self._transactor.close()

    def _sealed(self, rows: Rows) -> Iterator[Rows]:
        """Splits rows of a sealed topic into single records with their seals; rows of
        users' topics stay as they are.
        """
        if self._gate.place(Partition(rows.topic, 0)) is None:
            yield rows
            return
        count = len(rows.values)
        keys, indices = rows.keys or [None] * count, rows.partitions or [-1] * count
        for value, key, index in zip(rows.values, keys, indices, strict=True):
            headers = self._gate.headers(Partition(rows.topic, index), key, value, rows.headers)
            yield Rows(rows.topic, [value], [key], [index], headers=headers)


def _clock_ms() -> float:
    return time.monotonic() * 1000


def _time_ms() -> int:
    return int(time.time() * 1000)
