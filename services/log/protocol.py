"""`Log`: all that the product asks of Kafka, so that memory and simulation can stand in for it.

Every method may raise `Retriable` when the broker does not answer. Appenders, readers and transactors are each used by
one thread at a time.

What a client says is checked before it counts (services/log/answers.py); tests/contract/test_leaders.py and
tests/unit/log/test_hostile_answers.py hold what follows. A partition's leader may be

- away: what is asked of the partition is Retriable, within 5 s, never a value. Appends wait. Readers get neither
  records nor an end. Metadata name the topic and all its partitions. Other partitions are served.
- moved: the same call finds the new leader, or is Retriable. A leader that does not know yet what was committed is
  asked again: no end lies below one that this process has read, learned, or had acknowledged.
- fenced, or cut off: an answer that is behind is asked again, with fresh metadata.
- without what it had: an end that stays below a known one, a trim above the end, and a read from behind the end are a
  truncated log: StateCorrupted, once for each time it is found.
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
    """A record as read. The methods are those of confluent_kafka.Message, so that none needs to be wrapped."""

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

    end: the offset at which the reader met the end of the partition behind these records, None if it did not. Never
        below the position, nor below an end that is known, as long as more may come.
    generation: the partition's seek generation; `Reader.current` says whether a seek has outdated the chunk.
    """

    partition: Partition
    messages: Sequence[Message]
    end: int | None = None
    generation: int = 0


class Reader(Protocol):
    """Reads assigned partitions, read_committed. A position below the log start raises `PositionGone` at poll."""

    def assign(self, positions: Mapping[Partition, int]) -> None:
        """Adds partitions (or moves ones that it has) to be read from the given offsets; not paused."""
        ...

    def unassign(self, partitions: Iterable[Partition]) -> None: ...
    def pause(self, partitions: Iterable[Partition]) -> None: ...
    def resume(self, partitions: Iterable[Partition]) -> None: ...
    def poll(self, timeout_s: float, max_messages: int = 10_000) -> list[Chunk]:
        """Waits up to timeout_s for a first record or end, then returns what is there, up to max_messages."""
        ...

    def current(self, chunk: Chunk) -> bool:
        """False if the partition was moved or unassigned after the chunk was read."""
        ...

    def close(self) -> None: ...


class Appender(Protocol):
    """Appends in order a partition, idempotently, acknowledged by all replicas."""

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
        """Queues a record; partition.index -1 lets the key choose (murmur2). Blocks only while the queue is full."""
        ...

    def poll(self) -> None:
        """Runs the `done` calls that are due."""
        ...

    def flush(self, timeout_s: float) -> None:
        """Waits for all answers; raises Retriable if some are missing after timeout_s, or the first delivery error."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Rows:
    """Records for one topic, by column. partitions None: each key chooses (murmur2).

    headers: of every record; own_headers: behind these, of each.
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
        """Does in advance what of `start` harms nobody; not a must, and never an error."""
        ...

    def start(self) -> None:
        """Fences every earlier holder of the id and aborts its open transaction."""
        ...

    def commit(self, rows: Sequence[Rows]) -> None:
        """Commits one transaction with all rows.

        Raises:
            Fenced: another holder has started; nothing was committed.
            Indefinite: it may or may not be committed; only a new Transactor's start() and a read of the position say.
            InvalidRecord: a topic does not take batches as large as one of these; nothing was committed.
            Refused: Kafka does not take it for another reason; nothing was committed.
            Retriable: it was aborted.

        After each of them the next commit needs a start() first.
        """
        ...

    def close(self) -> None: ...


At = Literal["start", "end"] | int
"""An end of the log (for "end": the last stable offset), or the first offset at or after a time in milliseconds."""


@dataclass(frozen=True, slots=True)
class Described:
    """A topic as a broker knows it. id: of this topic and no other, also of one that had the same name before.

    A broker that lags behind the others may still list fewer partitions, or the former topic of that name.

    in_sync: replicas that have every record, of the partition with the fewest; None: not known.
    """

    id: str
    partitions: int
    in_sync: int | None = None


class Log(Protocol):
    """A Kafka cluster, or what stands in for one."""

    def create(self, topics: Iterable[TopicSpec]) -> None:
        """Creates what is missing; existing topics stay as they are. Returns once they can be used."""
        ...

    def delete(self, names: Iterable[str]) -> None:
        """Deletes those that exist."""
        ...

    def topics(self, needed: Iterable[str] = ()) -> dict[str, int]:
        """Partition counts by topic name, internal topics left out; never 0.

        Args:
            needed: names whose absence is to be certain. Kafka's controller is asked for those that no broker listed.
                Raises Retriable if it still exists.
        """
        ...

    def describe(self, topics: Iterable[str]) -> dict[str, Described]:
        """Descriptions of those of the topics that exist; one is left out only if its absence is certain, see
        `topics`.
        """
        ...

    def config(self, topic: str) -> dict[str, str]:
        """Settings of a topic; empty if who was asked knows of none of that name, which may be old news."""
        ...

    def configure(self, topics: Iterable[TopicSpec]) -> None:
        """Changes those settings of topics that are named and not as they say; the others stay."""
        ...

    def offsets(self, partitions: Iterable[Partition], at: At) -> dict[Partition, int]:
        """Offsets of the partitions, never negative. A time after the last record gives the end."""
        ...

    def trim(self, upto: Mapping[Partition, int]) -> None:
        """Deletes records below the given offsets (DeleteRecords)."""
        ...

    def scan(self, partition: Partition, start: int | None = None) -> Iterator[Message]:
        """Every committed record from `start` (default: log start) to the end as it is at the call.

        Raises PositionGone for a start below the log's, or behind its end.
        """
        ...

    def last(self, partition: Partition, settled: bool = False) -> Message | None:
        """The last committed record, found by reading ever larger stretches from the end.

        None only if it is known that there is none: all that lies between start and end are ends of transactions.

        Args:
            settled: a transactor that nobody else's id shares the partition with has just started, so no transaction
                may be open there. Raises Torn when one is.
        """
        ...

    def tail(self, partition: Partition, settled: bool = False) -> Sequence[Message]:
        """The last record, found in the same way, behind those of its stretch. In a sealed log, where a stranger has
        written within that stretch: behind all that count.
        """
        ...

    def reader(self, name: str, *, on_demand: bool = False, patient: bool = False) -> Reader:
        """on_demand: it fetches again only once all that it has was taken: one that is seldom polled asks seldom.

        patient: what comes may come a tenth of a second late, with what has come meanwhile.
        """
        ...

    def appender(self, name: str) -> Appender: ...
    def transactor(self, transactional_id: str, batch_bytes: int | None = None) -> Transactor:
        """batch_bytes: of the largest batch of records that it makes of several; None: as large as usual."""
        ...

    def close(self) -> None: ...
