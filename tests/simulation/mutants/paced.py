"""Deliberate bugs of the reader that asks for a paced job's records when a batch is due: docs/decisions/0113, 0185."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from unittest import mock

from holdfast.schemas.assignments import Flags
from holdfast.schemas.topics import Partition
from holdfast.services.worker.process.subscriptions import SharedReader
from holdfast.services.worker.sources.cutter import Cutter


def missing_records_not_looked_for() -> AbstractContextManager[object]:
    """Only a leader that has the records of all cuts looks: a copy that takes over, or comes back, has none of them."""
    true = Cutter.wanted_ms

    def wanted_ms(self: Cutter, flags: Flags, looked_ms: float) -> float:
        missing = any(feed.missing(feed.batch + 1) for feed in self._users.values())
        return true(self, flags, looked_ms) if flags.commit and not missing else math.inf

    return mock.patch.object(Cutter, "wanted_ms", wanted_ms)


def records_passed_over_when_paced() -> AbstractContextManager[object]:
    """A topic that is read on demand from now on is read behind the next record, which was fetched and not taken."""
    true = SharedReader.reassign

    def reassign(self: SharedReader, concerns: Callable[[Partition], bool]) -> None:
        true(self, concerns)
        self._reader.assign({partition: at + 1 for partition, at in self._next.items() if concerns(partition)})

    return mock.patch.object(SharedReader, "reassign", reassign)
