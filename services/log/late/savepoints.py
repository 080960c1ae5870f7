"""A savepoint on its way through Kafka: pieces of state in one topic, and behind them the manifest.

Source: PROTOCOL 1, JOBS "holdfast savepoint". The manifest is appended once all pieces are acknowledged, so a topic
that ends with it is whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from holdfast.schemas import savepoints
from holdfast.schemas.savepoints import Piece, Savepoint, Start
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.kernel.errors import StateCorrupted
from holdfast.services.log.protocol import Log

FLUSH_S = 60.0
AT_ONCE = 64
"""Pieces on their way: each is about half a megabyte."""


def upload(log: Log, topics: ClusterTopics, id: str, pieces: Iterable[Piece], manifest: Callable[[], Savepoint]) -> str:
    """The topic of its own in which the savepoint lies then. Raises Retriable; then nothing is left of it.

    Args:
        id: of the topic.
        manifest: asked for once all pieces are there.
    """
    spec = topics.savepoint(id)
    log.create([spec])
    appender, partition = log.appender("savepoint"), Partition(spec.name, 0)
    try:
        for number, piece in enumerate(pieces, start=1):
            appender.append(partition, savepoints.encode_piece(piece))
            if number % AT_ONCE == 0:
                appender.flush(FLUSH_S)
        appender.flush(FLUSH_S)
        appender.append(partition, savepoints.encode(manifest()))
        appender.flush(FLUSH_S)
    except BaseException:
        log.delete([spec.name])
        raise
    finally:
        appender.close()
    return spec.name


def manifest_of(log: Log, start: Start) -> Savepoint | None:
    """The manifest of the savepoint that lies in a topic; None: that topic does not end with it. Raises Retriable."""
    partition = Partition(start.topic, 0)
    message = log.last(partition) if start.topic in log.topics([start.topic]) else None
    try:
        found = None if message is None else savepoints.decode(message.value() or b"")
    except msgspec.DecodeError:
        return None
    return found if found is not None and found.id == start.id else None


def pieces_of(log: Log, topic: str) -> Iterator[Piece]:
    """Raises StateCorrupted for a record that is none, before the manifest."""
    before = None
    for message in log.scan(Partition(topic, 0)):
        if before is not None:
            yield _piece(topic, before)
        before = message.value() or b""


def _piece(topic: str, value: bytes) -> Piece:
    try:
        return savepoints.decode_piece(value)
    except msgspec.DecodeError as error:
        raise StateCorrupted(f"{topic} holds no savepoint: {error}") from None
