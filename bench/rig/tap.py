"""Keeps the records of some partitions, with the times at which they were read."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, cast

from confluent_kafka import TopicPartition

from bench.rig.cluster import now_ms
from holdfast.schemas.topics import Partition
from holdfast.services.log.kafka.client import Cluster
from holdfast.services.log.protocol import Chunk, Message

SELDOM = {"fetch.min.bytes": 256 * 1024, "fetch.wait.max.ms": 200}
POLL_S = 0.1


@dataclass(slots=True)
class Kept:
    """A record and the time at which it was read."""

    message: Message
    seen_ms: float


class Source(Protocol):
    """The part of a Reader that a tap needs."""

    def poll(self, timeout_s: float) -> list[Chunk]: ...
    def close(self) -> None: ...


class SeldomReader:
    """Fetches large pieces, or five times a second: what is measured must not pay for being watched.

    Args:
        partitions: from their beginning, or from the positions that are given.
    """

    settings: ClassVar[Mapping[str, str | int]] = SELDOM

    def __init__(self, bootstrap_servers: str, partitions: Sequence[Partition] | Mapping[Partition, int]) -> None:
        own: dict[str, str | int] = {"group.id": "bench-tap", "enable.auto.commit": "false", **self.settings}
        own |= {"auto.offset.reset": "earliest"}  # the log was trimmed before this read
        starts = partitions if isinstance(partitions, Mapping) else dict.fromkeys(partitions, 0)
        self._consumer = Cluster(bootstrap_servers).consumer("bench-tap", own)
        self._consumer.assign([TopicPartition(one.topic, one.index, at) for one, at in starts.items()])

    def poll(self, timeout_s: float) -> list[Chunk]:
        found: dict[Partition, list[Message]] = {}
        for message in self._consumer.consume(10_000, timeout_s):
            if message.error() is None:
                partition = Partition(cast(str, message.topic()), cast(int, message.partition()))
                found.setdefault(partition, []).append(cast(Message, message))
        return [Chunk(partition, messages) for partition, messages in found.items()]

    def close(self) -> None:
        self._consumer.close()


class PromptReader(SeldomReader):
    """A reader that fetches at once, because the records to be counted may be trimmed half a second later."""

    settings = {"fetch.wait.max.ms": 10}  # noqa: RUF012


class Tap:
    """Reads in a thread of its own, from entering to leaving; then `kept` may be looked at."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tap", daemon=True)
        self.kept: dict[Partition, list[Kept]] = {}

    def __enter__(self) -> Tap:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.is_set():
            chunks, seen_ms = self._source.poll(POLL_S), now_ms()
            for chunk in chunks:
                self.kept.setdefault(chunk.partition, []).extend(Kept(message, seen_ms) for message in chunk.messages)
        self._source.close()
