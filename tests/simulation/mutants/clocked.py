"""Deliberate bugs of the time of day that code asks for: docs/decisions/0219."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from unittest import mock

from holdfast.services.kernel.dataflow.cut_records import Brought
from holdfast.services.worker.sources.feed import Feed


@contextmanager
def own_clock_read() -> Iterator[None]:
    """Each copy of a source gives its batches the time by its own clock, and no two clocks agree."""
    true, ahead_us, clocks = Feed.take, dict[Feed, int](), count(0, 7_000)

    def take(self: Feed, batch: int) -> Brought:
        brought = true(self, batch)
        ahead = ahead_us.setdefault(self, next(clocks))
        return brought._replace(fed=replace(brought.fed, clock_us=brought.fed.clock_us + ahead))

    with mock.patch.object(Feed, "take", take):
        yield
