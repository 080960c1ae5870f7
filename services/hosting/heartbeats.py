"""Sends heartbeats from a thread and producer of their own, so that a busy loop does not look like a dead worker.

A heartbeat also holds the present work of the loop, which reveals a loop that hangs. Source: PROTOCOL 5.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from holdfast.schemas import formats
from holdfast.schemas.assignments import split_unit_key
from holdfast.schemas.costs import Costs
from holdfast.schemas.events import Event
from holdfast.schemas.events import encode as encode_event
from holdfast.schemas.heartbeats import CopyState, Exit, Heartbeat, Turn, encode
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.refusals import Refusals
from holdfast.services.hosting.identity import Identity
from holdfast.services.hosting.ticks import until_tick
from holdfast.services.kernel.errors import Retriable
from holdfast.services.log.protocol import Appender
from holdfast.services.process.metrics import summed
from holdfast.services.process.usage import cpu_seconds, resident_bytes

FAREWELL_S = 0.5
COSTS_MS = 1_000.0
MOST_COSTS = 4
"""Most copies whose costs one heartbeat carries; each copy reports its costs at most once in COSTS_MS. With 100 copies
a heartbeat is a few kilobytes larger, and each copy has its turn every 2.5 s."""


CostsOf = Callable[[Collection[str]], tuple[Costs, ...]]
"""A function, safe in any thread, that returns the costs of the copies here of these units."""


class Reporting(Protocol):
    """The host that heartbeats report on.

    Attributes:
        leaving: True if the host was asked to stop.
    """

    leaving: bool

    @property
    def decided(self) -> int:
        """The offset of the last assignment that the host has read."""
        ...

    @property
    def refusals(self) -> Refusals: ...
    @property
    def identity(self) -> Identity: ...
    def copies(self) -> tuple[CopyState, ...]: ...


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a process.

    Attributes:
        host: name of its supervisor.
        address: machine and directory, unchanged by a restart.
    """

    host: str = ""
    address: str = ""


class Rotation:
    """Selects the copies whose costs the next heartbeat carries: those with the oldest report."""

    def __init__(self) -> None:
        self._sent_ms: dict[str, float] = {}

    def due(self, units: Iterable[str], now_ms: float) -> list[str]:
        """The units that are due now. `units` holds all present units; other units are forgotten."""
        self._sent_ms = {unit: self._sent_ms.get(unit, -math.inf) for unit in units}
        waiting = sorted((at, unit) for unit, at in self._sent_ms.items() if now_ms - at >= COSTS_MS)
        due = [unit for _, unit in waiting[:MOST_COSTS]]
        self._sent_ms.update(dict.fromkeys(due, now_ms))
        return due


class HeartbeatThread:
    """Sends a heartbeat at every tick of the interval until stopped."""

    def __init__(
        self,
        host: Reporting,
        appender: Appender,
        partition: Partition,
        interval_ms: int,
        versions: Mapping[str, str],
        time_ms: Callable[[], int],
        place: Place = Place(),
        unsealed: Callable[[], Mapping[str, int]] = dict,
        costs: CostsOf | None = None,
        turn: Callable[[], Turn | None] = lambda: None,
        events: Partition | None = None,
    ) -> None:
        """Sets the sources of a heartbeat's content.

        Args:
            unsealed: counts of records that the log refuses because they lack the cluster's seal.
            costs: costs of the copies; None if nothing is measured.
            turn: the present turn of the loop, if it takes long.
            events: partition for an event when the loop hangs; None to publish none.
        """
        self._turn = turn
        self._events = events
        self._stuck = False
        self._place = place
        self._unsealed = unsealed
        self._costs = costs
        self._host = host
        self._appender = appender
        self._partition = partition
        self._interval_s = interval_ms / 1000
        self._versions = dict(versions)
        self._time_ms = time_ms
        self._rotation = Rotation()
        self._stop = threading.Event()
        self._now = threading.Event()
        self._thread = threading.Thread(target=self._work, name="heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def send_now(self) -> None:
        """Sends the next heartbeat at once. A signal handler may call it."""
        self._now.set()

    def stop(self) -> None:
        self._stop.set()
        self._now.set()
        self._thread.join(timeout=2)

    def say_farewell(self) -> None:
        """Publishes an exit notice, after `stop`. For a process whose parent publishes none. The notice may be lost."""
        identity = self._host.identity
        notice = Exit(identity.worker, identity.incarnation, self._time_ms())
        self._appender.append(self._partition, encode(notice))
        with suppress(Retriable):
            self._appender.flush(FAREWELL_S)

    def say_last(self, cause: str) -> None:
        """Publishes the cause of the end of the process; replaces `stop` if the process ends at once. The event may be
        lost."""
        self._stop.set()
        self._now.set()
        self._thread.join(timeout=FAREWELL_S)
        if self._thread.is_alive() or self._events is None:
            return
        event = Event(self._time_ms(), "worker-stops", worker=self._host.identity.worker, detail=cause)
        self._appender.append(self._events, encode_event(event))
        with suppress(Retriable):
            self._appender.flush(FAREWELL_S)

    def _work(self) -> None:
        while not self._stop.is_set():
            beat = self._beat(self._host.identity)
            self._appender.append(self._partition, encode(beat))
            self._publish_stuck(beat)
            self._appender.poll()
            self._now.wait(until_tick(self._interval_s, self._time_ms() / 1000))
            self._now.clear()

    def _publish_stuck(self, beat: Heartbeat) -> None:
        """Publishes an event once for each turn that hangs. The loop publishes all other events and cannot publish this
        one."""
        if beat.stuck and not self._stuck and self._events is not None and beat.turn is not None:
            job, _, unit = split_unit_key(beat.turn.unit) if beat.turn.unit else ("", "", "")
            detail = f"the loop of {beat.worker} is {beat.turn}"
            event = Event(beat.time_ms, "loop-stuck", job, unit, worker=beat.worker, detail=detail)
            self._appender.append(self._events, encode_event(event))
        self._stuck = beat.stuck

    def _beat(self, identity: Identity) -> Heartbeat:
        copies = self._host.copies()
        due = self._rotation.due([copy.unit for copy in copies], time.monotonic() * 1000)
        return Heartbeat(
            worker=identity.worker,
            incarnation=identity.incarnation,
            time_ms=self._time_ms(),
            pid=os.getpid(),
            zone=identity.zone,
            slots=identity.slots,
            standbys=identity.standbys,
            decided=self._host.decided,
            cpu=cpu_seconds(),
            rss_bytes=resident_bytes(),
            versions=self._versions,
            copies=copies,
            hosts=identity.hosts,
            host=self._place.host,
            address=self._place.address,
            leaving=self._host.leaving,
            refused=self._refused(),
            costs=self._costs(due) if self._costs is not None else (),
            turn=self._turn(),
            reads=formats.NEWEST,
        )

    def _refused(self) -> dict[str, int]:
        return summed(self._host.refusals.most(), self._unsealed())
