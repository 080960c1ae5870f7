"""A Kafka in memory: what `holdfast try`, simulations and most tests run on.

One suite holds it and services/log/kafka.py to the same contract: tests/contract/test_log.py.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from schemas.topics import Partition, TopicSpec
from services.kernel.errors import Fenced, Retriable, StateCorrupted
from services.log.protocol import At, Chunk, Delivered, Headers, Message, Rows


class MemoryMessage:
    """A stored record; its methods are those of confluent_kafka.Message."""

    __slots__ = ("_headers", "_key", "_offset", "_time", "_value")

    def __init__(self, offset: int, time_ms: int, value: bytes | None, key: bytes | None, headers: Headers | None) -> None:
        self._offset, self._time, self._value, self._key, self._headers = offset, time_ms, value, key, headers

    def value(self) -> bytes | None:
        return self._value

    def key(self) -> bytes | None:
        return self._key

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, self._time

    def headers(self) -> list[tuple[str, bytes]] | None:
        return None if self._headers is None else list(self._headers)


@dataclass(slots=True)
class _Stored:
    start: int = 0
    next: int = 0
    messages: list[MemoryMessage] = field(default_factory=list)

    def append(self, time_ms: int, value: bytes | None, key: bytes | None, headers: Headers | None) -> int:
        self.messages.append(MemoryMessage(self.next, time_ms, value, key, headers))
        self.next += 1
        return self.next - 1

    def between(self, start: int, count: int) -> list[MemoryMessage]:
        first = start - (self.messages[0].offset() if self.messages else start)
        return self.messages[max(0, first) : max(0, first) + count]

    def trim(self, upto: int) -> None:
        if upto > self.start:
            del self.messages[: upto - self.start]
            self.start = upto


class MemoryLog:
    def __init__(self, time_ms: Callable[[], int]) -> None:
        self.time_ms = time_ms
        self.stored: dict[str, list[_Stored]] = {}
        self.configs: dict[str, dict[str, str]] = {}
        self.epochs: dict[str, int] = {}

    def create(self, topics: Iterable[TopicSpec]) -> None:
        for t in topics:
            self.stored.setdefault(t.name, [_Stored() for _ in range(t.partitions)])
            self.configs.setdefault(t.name, dict(t.config))

    def delete(self, names: Iterable[str]) -> None:
        for n in names:
            self.stored.pop(n, None)

    def topics(self) -> dict[str, int]:
        return {n: len(p) for n, p in self.stored.items()}

    def config(self, topic: str) -> dict[str, str]:
        return dict(self.configs.get(topic, {}))

    def at(self, p: Partition) -> _Stored:
        try:
            return self.stored[p.topic][p.index]
        except (KeyError, IndexError):
            raise Retriable(f"{p} does not exist") from None

    def offsets(self, partitions: Iterable[Partition], at: At) -> dict[Partition, int]:
        out = {}
        for p in partitions:
            s = self.at(p)
            if at == "start":
                out[p] = s.start
            elif at == "end":
                out[p] = s.next
            else:
                i = next((m.offset() for m in s.messages if m.timestamp()[1] >= at), s.next)
                out[p] = i
        return out

    def trim(self, upto: Mapping[Partition, int]) -> None:
        for p, o in upto.items():
            self.at(p).trim(o)

    def scan(self, partition: Partition, start: int | None = None) -> Iterator[Message]:
        s = self.at(partition)
        return iter(s.between(s.start if start is None else start, len(s.messages)))

    def last(self, partition: Partition) -> Message | None:
        s = self.at(partition)
        return s.messages[-1] if s.messages else None

    def reader(self, name: str) -> "MemoryReader":
        return MemoryReader(self)

    def appender(self, name: str) -> "MemoryAppender":
        return MemoryAppender(self)

    def transactor(self, transactional_id: str) -> "MemoryTransactor":
        return MemoryTransactor(self, transactional_id)

    def close(self) -> None:
        pass

    def put(self, p: Partition, value: bytes | None, key: bytes | None, headers: Headers | None, ts: int | None = None) -> int:
        index = p.index
        if index < 0:
            import zlib
            index = zlib.crc32(key or b"") % len(self.stored[p.topic])
        return self.at(Partition(p.topic, index)).append(self.time_ms() if ts is None else ts, value, key, headers)


class MemoryReader:
    def __init__(self, log: MemoryLog) -> None:
        self.log = log
        self.pos: dict[Partition, int] = {}
        self.gen: dict[Partition, int] = {}
        self.ended: dict[Partition, int] = {}
        self.paused: set[Partition] = set()

    def assign(self, positions: Mapping[Partition, int]) -> None:
        for p, o in positions.items():
            self.pos[p] = o
            self.gen[p] = self.gen.get(p, 0) + 1
            self.ended.pop(p, None)
            self.paused.discard(p)

    def unassign(self, partitions: Iterable[Partition]) -> None:
        for p in partitions:
            self.pos.pop(p, None)
            self.gen[p] = self.gen.get(p, 0) + 1

    def pause(self, partitions: Iterable[Partition]) -> None:
        self.paused |= set(partitions)

    def resume(self, partitions: Iterable[Partition]) -> None:
        self.paused -= set(partitions)

    def poll(self, timeout_s: float, max_messages: int = 10_000) -> list[Chunk]:
        out = []
        for p in list(self.pos):
            if p in self.paused or p.topic not in self.log.stored:
                continue
            s = self.log.at(p)
            if self.pos[p] < s.start:
                raise StateCorrupted(f"{p}: position {self.pos[p]} is below the log start {s.start}")
            ms = s.between(self.pos[p], max_messages) if s.next > self.pos[p] else []
            if ms:
                self.pos[p] = ms[-1].offset() + 1
            end = s.next if self.pos[p] == s.next and self.ended.get(p) != s.next else None
            if end is not None:
                self.ended[p] = end
            if ms or end is not None:
                out.append(Chunk(p, ms, end, self.gen[p]))
        return out

    def current(self, chunk: Chunk) -> bool:
        return self.gen.get(chunk.partition) == chunk.generation and chunk.partition in self.pos

    def close(self) -> None:
        self.pos.clear()


class MemoryAppender:
    def __init__(self, log: MemoryLog) -> None:
        self.log = log
        self.due: list[tuple[Delivered, int]] = []

    def append(self, partition: Partition, value: bytes | None, *, key: bytes | None = None, headers: Headers | None = None, timestamp_ms: int | None = None, done: Delivered | None = None) -> None:
        o = self.log.put(partition, value, key, headers, timestamp_ms)
        if done is not None:
            self.due.append((done, o))

    def poll(self) -> None:
        due, self.due = self.due, []
        for done, o in due:
            done(None, o)

    def flush(self, timeout_s: float) -> None:
        self.poll()

    def close(self) -> None:
        self.poll()


class MemoryTransactor:
    def __init__(self, log: MemoryLog, tid: str) -> None:
        self.log, self.tid, self.epoch = log, tid, -1

    def start(self) -> None:
        self.epoch = self.log.epochs[self.tid] = self.log.epochs.get(self.tid, 0) + 1

    def commit(self, rows: Sequence[Rows]) -> None:
        if self.log.epochs.get(self.tid) != self.epoch:
            raise Fenced(f"{self.tid} was taken over")
        for r in rows:
            for i, v in enumerate(r.values):
                idx = -1 if r.partitions is None else r.partitions[i]
                self.log.put(Partition(r.topic, idx), v, None if r.keys is None else r.keys[i], r.headers)

    def close(self) -> None:
        pass
