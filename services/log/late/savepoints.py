"""A savepoint in transfer through Kafka: pieces of state in one topic, followed by the manifest.

Source: PROTOCOL 1, JOBS "holdfast savepoint". The manifest is appended once all pieces are acknowledged, so a topic
    that ends with it is complete. Changes since a first manifest, and a second manifest, may follow the first one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Any

import msgspec

from holdfast.schemas import savepoints
from holdfast.schemas.savepoints import Piece, Savepoint, Start
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.kernel.errors import StateCorrupted
from holdfast.services.log.protocol import Log

FLUSH_S = 60.0
AT_ONCE = 64
"""Largest number of pieces that are not acknowledged; each is about half a megabyte."""


class Upload:
    """A savepoint in transfer to a topic of its own. Each method raises Retriable."""

    def __init__(self, log: Log, topics: ClusterTopics, id: str) -> None:
        spec = topics.savepoint(id)
        self.topic = spec.name
        self._log = log
        self._partition = Partition(spec.name, 0)
        log.create([spec])
        self._appender = log.appender("savepoint")

    def bring(self, pieces: Iterable[Piece]) -> None:
        """Appends the pieces; returns once Kafka has acknowledged all of them."""
        for number, piece in enumerate(pieces, start=1):
            self._appender.append(self._partition, savepoints.encode_piece(piece))
            if number % AT_ONCE == 0:
                self._appender.flush(FLUSH_S)
        self._appender.flush(FLUSH_S)

    def finish(self, manifest: Savepoint) -> int:
        """Appends the manifest; returns the offset behind it."""
        offsets = list[int]()
        found = savepoints.encode(manifest)
        self._appender.append(self._partition, found, done=lambda error, offset: offsets.append(offset))
        self._appender.flush(FLUSH_S)
        return offsets[0] + 1

    def close(self) -> None:
        self._appender.close()

    def abandon(self) -> None:
        """Deletes the topic of the upload."""
        self._log.delete([self.topic])


def upload(log: Log, topics: ClusterTopics, id: str, pieces: Iterable[Piece], manifest: Savepoint) -> str:
    """Uploads a savepoint; returns its topic. Raises Retriable, after the topic is deleted."""
    way = Upload(log, topics, id)
    try:
        way.bring(pieces)
        way.finish(manifest)
    except BaseException:
        way.abandon()
        raise
    finally:
        way.close()
    return way.topic


def manifest_of(log: Log, start: Start) -> Savepoint | None:
    """The manifest of the savepoint in a topic; None if the topic does not end with it. Raises Retriable."""
    partition = Partition(start.topic, 0)
    message = log.last(partition) if start.topic in log.topics([start.topic]) else None
    try:
        found = None if message is None else savepoints.decode(message.value() or b"")
    except msgspec.DecodeError:
        return None
    return found if found is not None and found.id == start.id else None


def pieces_of(log: Log, topic: str, start: int = 0) -> Iterator[Piece]:
    """All pieces of a topic from offset `start`. Raises StateCorrupted for a record that is neither a piece nor a
    manifest.
    """
    return (one for one in _records(log, topic, start) if isinstance(one, Piece))


def base_of(log: Log, topic: str) -> Iterator[Piece]:
    """The pieces before the first manifest. Raises StateCorrupted for a record that is neither
    a piece nor a manifest.
    """
    return takewhile(lambda one: isinstance(one, Piece), _records(log, topic, 0))


def _records(log: Log, topic: str, start: int) -> Iterator[Any]:
    for message in log.scan(Partition(topic, 0), start):
        value = message.value() or b""
        try:
            yield savepoints.decode(value) if value[:1] == b"{" else savepoints.decode_piece(value)
        except msgspec.DecodeError as error:
            raise StateCorrupted(f"{topic} holds no savepoint: {error}") from None
