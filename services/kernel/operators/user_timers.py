"""The timers of a Python operator: a set of pairs of time and key, removed by the watermark in the order of time.

The timers are a table of the task's state, so checkpoints, restores and savepoints hold them, and an index in memory
that is read from the table at first use. Timers set or cancelled by a call count when the call succeeds.

At the end of the stream every timer is called. A call for a time past the newest event time could set timers for ever,
so its new timers are dropped; the newest event time is part of the state, and does not depend on the division into
batches. Timers by the clock work in the same way with the times at which batches were cut: these are in the cut log, so
a replay calls the same timers in the same batches.
Source: JOBS "Python operators", PROTOCOL 4.
"""

from __future__ import annotations

from datetime import datetime
from heapq import heapify, heappop, heappush
from typing import Any

from holdfast.schemas.cuts import END_WATERMARK, NO_WATERMARK
from holdfast.services.kernel.operators.moments import micros
from holdfast.services.kernel.operators.time_prefix import prefix_of, time_of
from holdfast.services.kernel.operators.user_state import Key, decode_key, encode_key
from holdfast.services.kernel.state.table import Table, Tables

TABLE, BY_CLOCK = "/timers", "/timers-by-clock"
"""The tables of timers by event time, and by the time at which batches are cut. No user's table begins with a slash."""
_WIDTH = 8
PREFIX_BYTES = {TABLE: _WIDTH, BY_CLOCK: _WIDTH}
"""Lengths of the prefixes by which tables of Python operators are scanned; the tables of users have none."""
_NEWEST = b""
"""The key whose value is the newest time so far."""


def entry(key: bytes) -> tuple[int, Any] | None:
    """The time and key of a timer, from a key of the table; None if the entry is not a timer."""
    return (time_of(key[:_WIDTH]), decode_key(key[_WIDTH:])) if key != _NEWEST else None


class Timers:
    """The timers of one task.

    Args:
        tables: the state of the task.
        table: TABLE or BY_CLOCK.
    """

    def __init__(self, tables: Tables, table: str = TABLE) -> None:
        self._tables = tables
        self._name = table
        self._table: Table | None = None
        self._pending: dict[int, set[bytes]] = {}
        self._times: list[int] = []
        self._newest = NO_WATERMARK
        self._written: dict[tuple[int, bytes], bool] = {}
        self._after = NO_WATERMARK
        self._open = True

    def set(self, key: Key, when: int | datetime) -> None:
        """Sets a timer. Raises ValueError in a call for a time that is not before `when`: such calls would never
        end.
        """
        time = micros(when)
        if not -(2**63) < time < END_WATERMARK:
            raise ValueError(f"a timer's time is an int of 64 bits, not {time}")
        if time <= self._after:
            raise ValueError(f"on_timer sets a timer for {time}, which is not after its own time {self._after}")
        if self._open:
            self._written[time, encode_key(key)] = True

    def cancel(self, key: Key, when: int | datetime) -> None:
        """Cancels the timer of a key for this time, if there is one."""
        self._written[micros(when), encode_key(key)] = False

    @property
    def newest(self) -> int:
        """The newest time so far."""
        self._read()
        return self._newest

    def note(self, newest: int) -> None:
        """Notes the largest event time of a batch's rows, or the time of its cut. An older time changes nothing."""
        table = self._read()
        if newest > self._newest:
            self._newest = newest
            table.put_many([_NEWEST], [prefix_of(newest)])

    def due(self, watermark: int) -> int | None:
        """The earliest time with a timer, if the watermark, or the clock, has reached it."""
        self._read()
        while self._times and not self._pending.get(self._times[0]):
            self._pending.pop(heappop(self._times), None)
        return self._times[0] if self._times and self._times[0] <= watermark else None

    def take(self, time: int, watermark: int) -> list[Any]:
        """Begins the call for a time; returns the keys of its timers, in the order of their encoded keys.

        The timers are removed if the call succeeds.
        """
        keys = sorted(self._pending[time])
        self._written.update(((time, key), False) for key in keys)
        self._after = time
        self._open = watermark != END_WATERMARK or time <= self._newest
        return [decode_key(key) for key in keys]

    def ending(self) -> None:
        """Begins a call at the end of the stream, which may set no timers."""
        self._open = False

    def apply(self) -> None:
        """Applies the timers set and cancelled."""
        written = self._written
        if written:
            table = self._read()
            for (time, key), there in written.items():
                self._index(time, key) if there else self._pending.get(time, set()).discard(key)
            put = [prefix_of(time) + key for (time, key), there in written.items() if there]
            gone = [prefix_of(time) + key for (time, key), there in written.items() if not there]
            if put:
                table.put_many(put, [b""] * len(put))
            if gone:
                table.delete_many(gone)
        self.forget()

    def forget(self) -> None:
        """Forgets the timers set and cancelled, and the call."""
        self._written = {}
        self._after = NO_WATERMARK
        self._open = True

    def _index(self, time: int, key: bytes) -> None:
        keys = self._pending.get(time)
        if keys is None:
            keys = self._pending[time] = set()
            heappush(self._times, time)
        keys.add(key)

    def _read(self) -> Table:
        """The table; its first use reads the index."""
        if self._table is None:
            self._table = self._tables.table(self._name, PREFIX_BYTES[self._name])
            for key, value in self._table.scan(b""):
                if key == _NEWEST:
                    self._newest = time_of(value)
                else:
                    self._pending.setdefault(time_of(key[:_WIDTH]), set()).add(key[_WIDTH:])
            self._times = list(self._pending)
            heapify(self._times)
        return self._table
