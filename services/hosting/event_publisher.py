"""Publishes events of one host: logs them and appends them to the cluster's topic `events`."""

from __future__ import annotations

import msgspec

from holdfast.schemas.events import Event, encode
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.diagnostics.logger import get_logger
from holdfast.services.hosting.identity import Identity
from holdfast.services.log.protocol import Appender

_log = get_logger()


class EventPublisher:
    """Publishes and logs events under the host's name. Only the host's loop may use it."""

    def __init__(self, identity: Identity, appender: Appender, topics: ClusterTopics) -> None:
        self._worker = identity.worker
        self._appender = appender
        self._partition = Partition(topics.events, 0)

    def __call__(self, event: Event) -> None:
        event = msgspec.structs.replace(event, worker=self._worker)
        numbers = {"epoch": event.epoch, "batch": event.batch}
        known = {name: number for name, number in numbers.items() if number >= 0}
        _log.info(event.kind, job=event.job, unit=event.unit, **known, detail=event.detail, **event.phases_ms)
        self._appender.append(self._partition, encode(event))
