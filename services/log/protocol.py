"""`Log`: the whole interface to Kafka, so that memory and simulation can replace Kafka.

Every method may raise `Retriable` when the broker does not answer. Appenders, readers and transactors are each used by
one thread at a time.

A client's answers are checked before they count (services/log/answers.py). tests/contract/three_brokers/test_leaders.py
and tests/unit/log/test_hostile_answers.py hold the rules below. A partition's leader may be

- away: a request about the partition raises Retriable within 5 s and never returns a value. Appends wait. Readers get
  neither records nor an end. Metadata name the topic and all its partitions. Other partitions are served.
- moved: the same call finds the new leader, or raises Retriable. A leader that does not know yet which records are
  committed is asked again: no end is below an end that this process has read, learned, or had acknowledged.
- fenced, or cut off: an outdated answer is asked for again, with fresh metadata.
- without its former records: an end that stays below a known end, a trim above the end, and a read from behind the end
  mean a truncated log: StateCorrupted, once for each time that this is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Literal, Protocol

from holdfast.schemas.topics import Partition, TopicSpec

Headers = Sequence[tuple[str, bytes]]
Delivered = Callable[[Exception | None, int], None]
"""Called with (error, offset) from `Appender.poll`, `flush` or `close` once the broker has answered."""


class Message(Protocol):
    """A record as it is read, with the methods of confluent_kafka.Message, so that no record needs a wrapper."""

    def value(self) -> bytes | None: ...
    def key(self) -> bytes | None: ...
    def offset(self) -> int: ...
    def timestamp(self) -> tuple[int, int]:
        """(kind, milliseconds since 1970)."""
        ...

    def headers(self) -> list[tuple[str, bytes]] | None: ...


@dataclass(slots=True)
class Chunk:
    """Consecutive records of one partition, in offset order (offsets may have gaps).

    end: the offset of the partition's end if the reader reached the end behind these records, else None. The end is
        never below the position, nor below a known end while more records may come.
    generation: the partition's seek generation; `Reader.current` returns false once a seek has outdated the chunk.
    """

    partition: Partition
    messages: Sequence[Message]
    end: int | None = None
    generation: int = 0


class Reader(Protocol):
    """Reads assigned partitions, read_committed. A position below the log start raises `PositionGone` at poll."""

    def assign(self, positions: Mapping[Partition, int]) -> None:
        """Adds partitions, or moves assigned ones, to be read from the given offsets; they are not paused."""
        ...

    def unassign(self, partitions: Iterable[Partition]) -> None: ...
    def pause(self, partitions: Iterable[Partition]) -> None: ...
    def resume(self, partitions: Iterable[Partition]) -> None: ...
    def poll(self, timeout_s: float, max_messages: int = 10_000) -> list[Chunk]:
        """Waits up to timeout_s for a first record or end, then returns the available records, up to max_messages."""
        ...

    def current(self, chunk: Chunk) -> bool:
        """False if the partition was moved or unassigned after the chunk was read."""
        ...

    def close(self) -> None: ...


class Appender(Protocol):
    """Appends records idempotently, in order within a partition, acknowledged by all replicas."""

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
        """Queues a record; with partition.index -1 its key decides (murmur2). Blocks only while the queue is full."""
        ...

    def poll(self) -> None:
        """Runs the `done` calls that are due."""
        ...

    def flush(self, timeout_s: float) -> None:
        """Waits for all answers. Raises Retriable if some are missing after timeout_s, or the first delivery error."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Rows:
    """Records for one topic, by column.

    partitions: index of each record's partition; None: each key decides (murmur2).
    headers: headers of every record.
    own_headers: further headers of each record, behind `headers`.
    """

    topic: str
    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] | None = None
    partitions: Sequence[int] | None = None
    headers: Headers | None = None
    own_headers: Sequence[Headers] | None = None

    def each_headers(self) -> Iterator[Headers | None]:
        """Headers of each record."""
        if self.own_headers is None:
            return repeat(self.headers, len(self.values))
        return ([*(self.headers or ()), *own] for own in self.own_headers)


class Transactor(Protocol):
    """Exactly-once writes under one transactional id. All calls block."""

    def connect(self) -> None:
        """Does the harmless part of `start` in advance; optional, and never an error."""
        ...

    def start(self) -> None:
        """Fences every earlier holder of the id and aborts its open transaction."""
        ...

    def commit(self, rows: Sequence[Rows]) -> None:
        """Commits one transaction with all rows.

        Raises:
            Fenced: another holder has started; nothing was committed.
            Indefinite: the outcome is unknown; only a new Transactor's start() and a read of the position decide it.
            InvalidRecord: a topic refuses a batch of this size; nothing was committed.
            Refused: Kafka refuses the transaction for another reason; nothing was committed.
            Retriable: the transaction was aborted.

        After each of these errors the next commit needs a start() first.
        """
        ...

    def close(self) -> None: ...


At = Literal["start", "end"] | int
"""An end of the log (for "end": the last stable offset), or the first offset at or after a time in milliseconds."""


@dataclass(frozen=True, slots=True)
class Described:
    """A topic as a broker describes it; a broker that lags may list fewer partitions, or a former topic of that name.

    id: identity of this topic; a former topic of the same name has another id.
    partitions: number of partitions.
    in_sync: replicas that have every record, of the partition with the fewest; None: not known.
    """

    id: str
    partitions: int
    in_sync: int | None = None


class Log(Protocol):
    """A Kafka cluster, or its replacement in memory or in a simulation."""

    def create(self, topics: Iterable[TopicSpec]) -> None:
        """Creates the missing topics; existing topics stay as they are. Returns once the topics can be used."""
        ...

    def delete(self, names: Iterable[str]) -> None:
        """Deletes the topics that exist."""
        ...

    def topics(self, needed: Iterable[str] = ()) -> dict[str, int]:
        """Partition counts by topic name, without internal topics; never 0.

        Args:
            needed: names whose absence must be certain. Kafka's controller is asked for the names that no broker
                listed. Raises Retriable if such a topic exists.
        """
        ...

    def describe(self, topics: Iterable[str]) -> dict[str, Described]:
        """Descriptions of the existing topics among these; a topic is left out only if its absence is certain, see
        `topics`.
        """
        ...

    def config(self, topic: str) -> dict[str, str]:
        """Settings of a topic; empty if the asked broker knows no topic of that name, which may be outdated."""
        ...

    def configure(self, topics: Iterable[TopicSpec]) -> None:
        """Changes the named settings of topics where they differ; other settings stay."""
        ...

    def offsets(self, partitions: Iterable[Partition], at: At) -> dict[Partition, int]:
        """Offsets of the partitions, never negative. For a time after the last record: the end."""
        ...

    def trim(self, upto: Mapping[Partition, int]) -> None:
        """Deletes records below the given offsets (DeleteRecords)."""
        ...

    def scan(self, partition: Partition, start: int | None = None) -> Iterator[Message]:
        """Every committed record from `start` (default: log start) to the end at the time of the call.

        Raises PositionGone for a start below the log's start or behind its end.
        """
        ...

    def last(self, partition: Partition, settled: bool = False) -> Message | None:
        """The last committed record, found by reading ever larger stretches from the end.

        None only if it is certain that no record exists: all offsets between start and end are ends of transactions.

        Args:
            settled: true if no transaction may be open in the partition, because its only transactor has just started.
                Raises Torn if one is open.
        """
        ...

    def tail(self, partition: Partition, settled: bool = False) -> Sequence[Message]:
        """The records of the last stretch, the last record at the end, found as by `last`.

        In a sealed log with a stranger's records in that stretch: all records that count.
        """
        ...

    def reader(self, name: str, *, on_demand: bool = False, patient: bool = False, waits_long: bool = False) -> Reader:
        """Opens a reader.

        on_demand: the reader fetches again only once all fetched records are taken: a reader that polls rarely asks
            rarely.
        patient: records may arrive a tenth of a second late, together with later ones.
        waits_long: partitions that are assigned later, and reports of ends, may come a second late; records come at
            once. For a reader that follows the same partitions for life.
        """
        ...

    def appender(self, name: str) -> Appender: ...
    def transactor(self, transactional_id: str, batch_bytes: int | None = None) -> Transactor:
        """Opens a transactor.

        batch_bytes: largest batch of several records in bytes; None: the library's usual size.
        """
        ...

    def close(self) -> None: ...
