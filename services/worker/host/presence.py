"""Presence of units, and progress and costs of their copies, from heartbeats. Heartbeats are read only while needed.

Source: PROTOCOL 3, 5 and 10, MECHANISMS C3 and C5. A slow unit still reports, because heartbeats have a thread of their
own. The parent of a process reports its end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from holdfast.schemas.assignments import Copy
from holdfast.schemas.costs import Costs
from holdfast.schemas.heartbeats import FAULTED, Exit, Heartbeat, decode
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.hosting.blocking_calls import Blocking
from holdfast.services.log.protocol import Chunk, Log
from holdfast.services.worker.host.subscriptions import Handler, Subscriptions

SILENT_MS = 2_000.0
FORGOTTEN_MS = 10_000.0
"""Time without a question after which heartbeats are no longer read."""
BEFORE_MS = 5_000
"""Age of the oldest heartbeats that are read, since an exit notice precedes the first question about its process."""


@dataclass(slots=True)
class Heard:
    """The last report of a copy elsewhere.

    Attributes:
        at_ms: time of the last report.
        batch: last batch processed or applied.
        load: share of a CPU that its batches take; None if unknown.
        paste_ms: mean time of the runs that it applied; None if unknown.
    """

    at_ms: float = -math.inf
    batch: int = -1
    load: float | None = None
    paste_ms: float | None = None
    _process_ms: float = 0.0
    _time_ms: int = 0

    def costs(self, time_ms: int, costs: Costs) -> None:
        """Applies reported costs. `time_ms` is the heartbeat's time by the clock of its worker."""
        if self._time_ms and time_ms > self._time_ms:
            self.load = max(0.0, costs.process_ms - self._process_ms) / (time_ms - self._time_ms)
        if costs.applies:
            self.paste_ms = costs.apply_ms / costs.applies
        self._process_ms = costs.process_ms
        self._time_ms = time_ms


NOTHING_HEARD = Heard()


class Presence:
    """The presence of the units of one worker's jobs. Implements Subscriber.

    Args:
        partition: partition of heartbeats.
        assigned: names the leader of each unit.
        time_ms: time of day.
    """

    def __init__(
        self,
        log: Log,
        asks: Blocking,
        control: Subscriptions,
        partition: Partition,
        assigned: Assigned,
        time_ms: Callable[[], int],
    ) -> None:
        self._log = log
        self._asks = asks
        self._control = control
        self._partition = partition
        self._assigned = assigned
        self._time_ms = time_ms
        self._exits: dict[tuple[str, str], float] = {}
        self._leaders: dict[str, tuple[Copy, float]] = {}
        """The known leader of each requested unit, and the time at which it was first seen as leader."""
        self._asked_ms = -math.inf
        self._since_ms = math.inf
        self._opening = False
        self._now_ms = 0.0
        self._heard: dict[tuple[str, str, str], Heard] = {}
        self._pruned_ms = 0.0

    def runs(self, unit: str, now_ms: float) -> bool:
        """True if the unit's leader is present and has not failed, or if that is unknown yet.

        A leader has failed at once after its exit notice, otherwise after SILENT_MS without a heartbeat.
        """
        self._listen(now_ms)
        change = self._assigned.of(unit)
        leader = None if change is None else change.committer
        if leader is None:
            return False
        known = self._leaders.get(unit)
        if known is None or known[0].incarnation != leader.incarnation:
            known = self._leaders[unit] = (leader, now_ms)
        if (leader.worker, leader.incarnation) in self._exits:
            return False
        return now_ms - max(self._since_ms, known[1], self._of(unit, leader).at_ms) < SILENT_MS

    def heard(self, unit: str, copy: Copy, now_ms: float) -> Heard:
        """The last report of this copy of the unit; an empty one without a report."""
        self._listen(now_ms)
        return self._of(unit, copy)

    def _of(self, unit: str, copy: Copy) -> Heard:
        return self._heard.get((copy.worker, copy.incarnation, unit), NOTHING_HEARD)

    def _listen(self, now_ms: float) -> None:
        self._asked_ms = now_ms
        if self._since_ms == math.inf:
            self._open()

    def turn(self, now_ms: float) -> None:
        """Drops old reports, and stops reading heartbeats when no question came for FORGOTTEN_MS."""
        self._now_ms = now_ms
        if now_ms - self._pruned_ms > FORGOTTEN_MS:
            self._pruned_ms = now_ms
            self._heard = {key: one for key, one in self._heard.items() if now_ms - one.at_ms <= FORGOTTEN_MS}
            self._exits = {key: at_ms for key, at_ms in self._exits.items() if now_ms - at_ms <= FORGOTTEN_MS}
        if self._since_ms < math.inf and now_ms - self._asked_ms > FORGOTTEN_MS:
            self._control.remove(self, [self._partition])
            self._since_ms = math.inf
            self._heard.clear()
            self._exits.clear()
            self._leaders.clear()

    def handler(self, partition: Partition) -> Handler:
        return self._read

    def _read(self, chunk: Chunk) -> None:
        for message in chunk.messages:
            try:
                beat = decode(message.value() or b"")
            except msgspec.DecodeError:
                continue  # recovery refuses it, and says so
            if isinstance(beat, Heartbeat):
                self._take(beat)
            elif isinstance(beat, Exit):
                self._exits[beat.worker, beat.incarnation] = self._now_ms

    def _take(self, beat: Heartbeat) -> None:
        for copy in beat.copies:
            if copy.state not in ("failed", FAULTED):
                heard = self._heard.setdefault((beat.worker, beat.incarnation, copy.unit), Heard())
                heard.at_ms, heard.batch = self._now_ms, copy.batch
        for costs in beat.costs:
            known = self._heard.get((beat.worker, beat.incarnation, costs.unit))
            if known is not None:
                known.costs(beat.time_ms, costs)

    def broken(self, cause: str, partition: Partition | None = None) -> None:
        """Starts reading again at the next question."""
        self._since_ms = math.inf

    def _open(self) -> None:
        if not self._opening:
            self._opening = True
            from_ms = max(0, self._time_ms() - BEFORE_MS)
            self._asks.run(lambda: self._log.offsets([self._partition], from_ms), self._opened)

    def _opened(self, offsets: Mapping[Partition, int] | Exception) -> None:
        self._opening = False
        if not isinstance(offsets, Exception):
            self._control.add(self, dict(offsets))
            self._since_ms = self._now_ms
