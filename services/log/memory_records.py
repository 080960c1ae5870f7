"""The records of a log in memory: messages, gaps, and those of one partition."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.services.log.protocol import Headers

_CREATE_TIME = 1


class MemoryMessage:
    """A stored record with the methods of confluent_kafka.Message."""

    __slots__ = ("_headers", "_key", "_offset", "_time_ms", "_value")

    def __init__(
        self,
        offset: int,
        time_ms: int,
        value: bytes | None = None,
        key: bytes | None = None,
        headers: Headers | None = None,
    ) -> None:
        self._offset = offset
        self._time_ms = time_ms
        self._value = value
        self._key = key
        self._headers = headers

    def value(self) -> bytes | None:
        return self._value

    def key(self) -> bytes | None:
        return self._key

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return _CREATE_TIME, self._time_ms

    def headers(self) -> list[tuple[str, bytes]] | None:
        return list(self._headers) if self._headers else None


class Gap(MemoryMessage):
    """An offset without a record: on Kafka, a transaction's marker or an aborted record."""

    __slots__ = ()


@dataclass(slots=True)
class Stored:
    """A partition: messages[i] has offset start + i."""

    start: int = 0
    messages: list[MemoryMessage] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.start + len(self.messages)

    def append(self, time_ms: int, value: bytes | None, key: bytes | None, headers: Headers | None) -> int:
        offset = self.start + len(self.messages)
        self.messages.append(MemoryMessage(offset, time_ms, value, key, headers=headers))
        return offset

    def read(self, begin: int, count: int) -> list[MemoryMessage]:
        """The records of `count` offsets from `begin` on."""
        found = self.messages[begin - self.start : begin - self.start + count]
        return [message for message in found if not isinstance(message, Gap)]

    def trim(self, upto: int) -> None:
        if upto > self.start:
            del self.messages[: upto - self.start]
            self.start = upto
