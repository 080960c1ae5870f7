"""A job that reads results of another one says when rows of a later run of that one come."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from holdfast.schemas.events import Event
from holdfast.schemas.topics import Partition
from holdfast.services.log.memory_records import MemoryMessage
from holdfast.services.log.protocol import Chunk
from holdfast.services.worker.host.surroundings import HostServices
from holdfast.services.worker.sources.upstream import Upstream


class Reader:
    def __init__(self) -> None:
        self.events, self.leads = list[Event](), True
        around = cast(HostServices, SimpleNamespace(time_ms=lambda: 7, happened=self.events.append))
        self._upstream = Upstream("totals", "orders-0", around, lambda: self.leads)

    def read(self, writer: str | None, index: int = 0) -> list[str]:
        """Kinds of the events that follow."""
        headers: Any = None if writer is None else [("batch", "3"), ("job", writer)]
        where, before = Partition("late", index), len(self.events)
        self._upstream.look(Chunk(where, [MemoryMessage(9, 0, b"{}", None, headers=headers)], 10))
        return [f"{one.kind} {one.offset}" for one in self.events[before:]]


def test_a_later_run_is_said_once_and_rows_of_the_former_one_on_other_partitions_are_not() -> None:
    reader = Reader()
    assert not reader.read("first@4-aaaaaa")
    assert not reader.read("first@4-aaaaaa", index=1)
    assert reader.read("first@12-bbbbbb") == ["upstream-changed 9"]
    assert "first@12-bbbbbb behind those of first@4-aaaaaa" in reader.events[0].detail
    assert not reader.read("first@4-aaaaaa", index=1)
    assert not reader.read("first@12-bbbbbb", index=1)
    assert reader.read("first@30-cccccc", index=1) == ["upstream-changed 9"]


def test_other_jobs_records_of_others_and_standbys_say_nothing() -> None:
    reader = Reader()
    for writer in ("first@4-aaaaaa", "second@9-aaaaaa", None, "first", "first@what", "second@9-aaaaaa"):
        assert not reader.read(writer)
    reader.leads = False
    assert not reader.read("first@12-bbbbbb")
    reader.leads = True
    assert not reader.read("first@12-bbbbbb"), "it was read before this copy led"
