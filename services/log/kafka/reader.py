"""Reader: fetches assigned partitions, read_committed, and returns them as chunks with hardly any work per record.

Source: PROTOCOL 3 (a seek or a pause must never let records of the former position through) and 5.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterable, Mapping
from typing import cast

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as KafkaMessage

from holdfast.schemas.topics import Partition
from holdfast.services.kernel.errors import HoldfastError, PositionGone
from holdfast.services.log.kafka.client import ANSWER_S, Cluster
from holdfast.services.log.protocol import Chunk, Message

_SETTINGS: Mapping[str, str | int] = {
    "isolation.level": "read_committed",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "auto.offset.reset": "error",
    "enable.partition.eof": "true",
    "fetch.queue.backoff.ms": 2,
    # A leader that has just been elected refuses at first: the default waits half a second then.
    "fetch.error.backoff.ms": 10,
    "queued.max.messages.kbytes": 65536,
    "check.crcs": "false",
}

_GONE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._LOG_TRUNCATION)
_ABSENT = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
_UNSET = -1
_GENERATIONS = itertools.count(1)
"""Numbers for all readers of the process: when a partition moves to another reader, records of the first reader are
outdated.
"""
WAIT_MS, LONG_WAIT_MS = 100, 1_000
"""Times for which the broker holds a request without new records. The second one is below a client's socket.timeout.ms,
and for readers to which nothing is assigned later: the request that looks up the leader of a new topic waits behind the
held one, and the loop with it (docs/decisions/0252).
"""
LOOK_UP_S = 1.0


class KafkaReader:
    """Implements Reader over one consumer without a group; partitions that do not exist (yet) give nothing.

    wait_ms: longest time in milliseconds that the broker may hold a request without new records. One request at a time
        is under way to each broker, so a partition that is added or moved, and the report of an end, may wait for this
        time.
    least_bytes: bytes of records with which the broker answers sooner.
    on_demand: see Log.reader.
    """

    def __init__(
        self, cluster: Cluster, name: str, wait_ms: int = WAIT_MS, least_bytes: int = 1, *, on_demand: bool = False
    ) -> None:
        self._cluster = cluster
        waits = {"fetch.wait.max.ms": wait_ms, "fetch.min.bytes": least_bytes}
        eager = {"queued.min.messages": 1} if on_demand else {}
        own = {**_SETTINGS, "group.id": f"holdfast-{name}", **waits, **eager}
        self._consumer = cluster.consumer(name, own)
        self._generations: dict[Partition, int] = {}
        self._positions: dict[Partition, int] = {}
        self._paused: set[Partition] = set()
        self._errors: dict[Partition, HoldfastError] = {}
        self._known: dict[str, int] = {}
        self._doubtful: dict[Partition, tuple[float, int]] = {}

    def assign(self, positions: Mapping[Partition, int]) -> None:
        """Unassigns and assigns again, so that the library drops records that it has
        fetched for the former position.
        """
        if not positions:
            return
        self.unassign(p for p in positions if p in self._generations)
        for partition, offset in positions.items():
            self._generations[partition] = next(_GENERATIONS)
            self._positions[partition] = offset
        self._consumer.incremental_assign([TopicPartition(p.topic, p.index, o) for p, o in positions.items()])
        self._look_up(positions)

    def unassign(self, partitions: Iterable[Partition]) -> None:
        gone = [p for p in partitions if p in self._generations]
        if not gone:
            return
        self.resume(gone)  # the library remembers a pause across assignments
        for partition in gone:
            del self._generations[partition], self._positions[partition]
            self._errors.pop(partition, None)
            self._doubtful.pop(partition, None)
        self._consumer.incremental_unassign(_listed(gone))

    def pause(self, partitions: Iterable[Partition]) -> None:
        """Pauses partitions; fetched messages that were not returned yet are dropped, and
        fetched again after resume.
        """
        held = [p for p in partitions if p in self._generations and p not in self._paused]
        if held:
            self._paused.update(held)
            self._consumer.pause(_listed(held))

    def resume(self, partitions: Iterable[Partition]) -> None:
        freed = [p for p in partitions if p in self._paused]
        if freed:
            self._paused.difference_update(freed)
            self._consumer.resume(_listed(freed))

    def poll(self, timeout_s: float, max_messages: int = 10_000) -> list[Chunk]:
        """Polls as `Reader.poll`. Returns records of other partitions before it raises an
        error, which would lose them.
        """
        self._raise_first()
        first = self._consumer.poll(timeout_s)
        if first is None:
            return self._believed()
        fetched = [first]
        if max_messages > 1:
            fetched += self._consumer.consume(max_messages - 1, 0)
        chunks = self._chunks(fetched) + self._believed()
        for chunk in chunks:
            position = self._positions[chunk.partition]
            self._cluster.known.read(chunk.partition, position if chunk.end is None else chunk.end)
        if not chunks:
            self._raise_first()
        return chunks

    def current(self, chunk: Chunk) -> bool:
        return self._generations.get(chunk.partition) == chunk.generation

    def close(self) -> None:
        self._generations.clear()
        self._consumer.close()

    def _look_up(self, partitions: Iterable[Partition]) -> None:
        """Asks for the leaders of partitions that are new to the consumer; the library alone asks once a second.

        The consumer's metadata of a topic may be minutes old and lack partitions that have been added since.
        """
        highest: dict[str, int] = {}
        for partition in partitions:
            highest[partition.topic] = max(highest.get(partition.topic, 0), partition.index)
        new = {topic for topic, index in highest.items() if index > self._known.get(topic, -1)}
        if new:
            self._known |= {topic: highest[topic] for topic in new}
            with contextlib.suppress(KafkaException):  # the library asks again later
                self._consumer.list_topics(new.pop() if len(new) == 1 else None, timeout=LOOK_UP_S)

    def _raise_first(self) -> None:
        """Raises each error once; its partition gives nothing more until it is assigned again."""
        if self._errors:
            raise self._errors.pop(next(iter(self._errors)))

    def _chunks(self, fetched: list[KafkaMessage]) -> list[Chunk]:
        chunks: dict[Partition, Chunk] = {}
        if not any(map(KafkaMessage.error, fetched)):
            self._gather(fetched, chunks)
            return list(chunks.values())
        begin = 0
        for place, error in enumerate(map(KafkaMessage.error, fetched)):
            if error is not None:
                self._gather(fetched[begin:place], chunks)
                self._event(fetched[place], error, chunks)
                begin = place + 1
        self._gather(fetched[begin:], chunks)
        return list(chunks.values())

    def _gather(self, records: list[KafkaMessage], chunks: dict[Partition, Chunk]) -> None:
        """Adds records, which come in runs of one partition, to the chunks of their partitions."""
        if not records:
            return
        topics, indices = set(map(KafkaMessage.topic, records)), set(map(KafkaMessage.partition, records))
        if len(topics) == len(indices) == 1:
            self._add(Partition(cast(str, topics.pop()), cast(int, indices.pop())), records, chunks)
            return
        begin = 0
        names = zip(map(KafkaMessage.topic, records), map(KafkaMessage.partition, records), strict=True)
        for (topic, index), run in itertools.groupby(names):
            end = begin + sum(1 for _ in run)
            self._add(Partition(cast(str, topic), cast(int, index)), records[begin:end], chunks)
            begin = end

    def _add(self, partition: Partition, run: list[KafkaMessage], chunks: dict[Partition, Chunk]) -> None:
        chunk = self._chunk(partition, chunks)
        if chunk is not None:
            cast(list[Message], chunk.messages).extend(cast(list[Message], run))
            chunk.end = None
            self._positions[partition] = cast(int, run[-1].offset()) + 1

    def _event(self, event: KafkaMessage, error: KafkaError, chunks: dict[Partition, Chunk]) -> None:
        """Adds an end of a partition to its chunk, or an error to the errors to be raised."""
        code = error.code()
        partition = Partition(event.topic() or "", _UNSET if (index := event.partition()) is None else index)
        if code == KafkaError._PARTITION_EOF:
            self._end(partition, event.offset(), chunks)
        elif code in _GONE:
            if partition in self._generations:
                self._errors[partition] = PositionGone(partition, self._positions[partition], error.str())
        elif code not in _ABSENT:
            self._errors[partition] = self._cluster.unanswered(f"read {partition}", error.str())

    def _end(self, partition: Partition, end: int | None, chunks: dict[Partition, Chunk]) -> None:
        """Adds an end to the partition's chunk, unless the end is impossible or this process has seen a later one.

        A leader that has just been elected may report an end before it knows which records are committed.
        """
        if partition not in self._generations or end is None or end < self._positions[partition]:
            return
        if end < self._cluster.known.stable(partition):
            self._doubtful[partition] = time.monotonic() + ANSWER_S, end
        elif (chunk := self._chunk(partition, chunks)) is not None:
            chunk.end = end

    def _believed(self) -> list[Chunk]:
        """Chunks with doubted ends behind which no record came for ANSWER_S, so that they count now."""
        if not self._doubtful:
            return []
        chunks: dict[Partition, Chunk] = {}
        for partition, (until_s, end) in list(self._doubtful.items()):
            if self._positions[partition] > end:
                del self._doubtful[partition]
            elif time.monotonic() > until_s:
                del self._doubtful[partition]
                self._cluster.known.forget({partition.topic})
                self._end(partition, end, chunks)
        return list(chunks.values())

    def _chunk(self, partition: Partition, chunks: dict[Partition, Chunk]) -> Chunk | None:
        """The chunk of a partition; None if the partition is no longer assigned."""
        if (chunk := chunks.get(partition)) is None and (generation := self._generations.get(partition)) is not None:
            chunk = chunks[partition] = Chunk(partition, [], None, generation)
        return chunk


def _listed(partitions: Iterable[Partition]) -> list[TopicPartition]:
    return [TopicPartition(p.topic, p.index) for p in partitions]
