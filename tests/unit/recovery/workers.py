"""Workers of a tiny cluster on a manual clock: they drive copies and report states."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.schemas.assignments import (
    Assignment,
    Flags,
)
from holdfast.schemas.costs import Costs
from holdfast.schemas.heartbeats import FAULTED, CopyState, Heartbeat, Turn
from holdfast.services.decisions.assigned import Assigned

if TYPE_CHECKING:
    from tests.unit.recovery.world import World

STEP_US, BEAT_US, ECHO_US = 10_000, 100_000, 20_000
DEPLOY_US, RESTORE_US, CHECKPOINT_US = 200_000, 100_000, 500_000
COSTS_US = 1_000_000
CATCH_UP = 20
"""Batches that a copy which is behind processes in a step; a leader at the end of a live stream does one."""

OLD, NEW, OTHER = "1", "2", "3"
"""Versions: those of the plan, later ones that give equal bytes, and those that do not."""
SHOWS = 16
"""Batches in a report of what a copy did."""


@dataclass
class Hosted:
    """A copy on a worker. since_us: when its present state was reached."""

    epoch: int
    flags: Flags
    state: str = "deploying"
    batch: int = 0
    since_us: int = 0
    error: str = ""
    """The unexpected error that stopped it, until it is placed once more."""


@dataclass
class Shared:
    """What the logs hold of one unit: the newest batch cut, the newest valid marker, when it was written.

    ended: that marker is the last one; every copy that reads it has ended.
    """

    batch: int = 0
    durable: int = 0
    marked_us: int = 0
    ended: bool = False


@dataclass
class Worker:
    name: str
    zone: str = ""
    slots: int = 8
    standbys: int = -1
    incarnation: str = "1"
    alive: bool = True
    stalled: bool = False
    hears: bool = True
    """False: it is cut off from the broker, but continues."""
    slow: bool = False
    """It answers, but its copies get nothing done."""
    loads: bool = True
    """False: what it is given from now on never has its operators loaded."""
    hosts: str = ""
    leaving: bool = False
    """It was asked to stop, and says so."""
    turn: Turn | None = None
    """Of its loop, which takes long."""
    version: str = OLD
    phase_us: int = 0
    read: int = 0
    assigned: Assigned = field(default_factory=Assigned)
    copies: dict[str, Hosted] = field(default_factory=dict)

    def step(self, world: World) -> None:
        if not self.alive or self.stalled:
            return
        if self.hears:
            while self.read < len(world.log):
                self._read(world.log[self.read], world.now_us)
                self.read += 1
        for unit, copy in self.copies.items():
            self._drive(copy, world.shared[unit], world.now_us)
        if self.hears and world.now_us % BEAT_US == self.phase_us:
            world.publish(self.beat(world))

    def beat(self, world: World) -> Heartbeat:
        reports = tuple(
            CopyState(
                unit, copy.epoch, copy.state, copy.batch, error=copy.error, durable=world.shared[unit].durable,
                shows=self.shows(unit),
            )
            for unit, copy in sorted(self.copies.items())
        )  # fmt: skip
        return Heartbeat(
            self.name, self.incarnation, 0, zone=self.zone, slots=self.slots, decided=self.read - 1, copies=reports,
            hosts=self.hosts, leaving=self.leaving, turn=self.turn, costs=self._costs(world),
            standbys=self.standbys, versions={"polars": self.version},
        )  # fmt: skip

    def shows(self, unit: str) -> tuple[tuple[int, int], ...]:
        """What it did of the newest batches, if anybody wants to know."""
        copy, change = self.copies[unit], self.assigned.of(unit)
        if change is None or not change.unshown or copy.state != "running":
            return ()
        odd = int(self.version == OTHER)
        return tuple((batch, 2 * batch + odd) for batch in range(max(1, copy.batch - SHOWS), copy.batch + 1))

    def _costs(self, world: World) -> tuple[Costs, ...]:
        """The leader knows what would be repeated; a standby spends a millisecond of each second on its image.

        Once a second of world time, where tests say what is measured.
        """
        if world.measured is not None:
            return self._measured(world)
        said = {unit: copy.flags.commit for unit, copy in self.copies.items() if unit in world.expected_ms}
        return tuple(
            Costs(unit, leads=True, recovery_ms=world.expected_ms[unit])
            if leads
            else Costs(unit, apply_ms=world.now_us / 1_000_000)
            for unit, leads in said.items()
        )

    def _measured(self, world: World) -> tuple[Costs, ...]:
        if world.measured is None or world.now_us % COSTS_US >= BEAT_US:
            return ()
        return tuple(
            world.measured(unit, world.now_us, copy.flags.commit)
            for unit, copy in sorted(self.copies.items())
            if copy.state == "running" or not copy.flags.commit
        )

    def _read(self, record: Assignment, now_us: int) -> None:
        for change in self.assigned.read(record):
            mine = [c for c in change.copies if (c.worker, c.incarnation) == (self.name, self.incarnation)]
            if not mine:
                self.copies.pop(change.unit, None)
            elif change.unit in self.copies and not self.copies[change.unit].error:
                copy = self.copies[change.unit]
                copy.epoch, copy.flags = change.epoch, mine[0].flags
            else:
                self.copies[change.unit] = Hosted(change.epoch, mine[0].flags, since_us=now_us)

    def _drive(self, copy: Hosted, shared: Shared, now_us: int) -> None:
        """Up by one state when its time has come, down at once; then the work of one step. An ended copy stays so."""
        if shared.ended and copy.state in ("synced", "running"):
            copy.state = "ended"
        if copy.state in ("ended", FAULTED) or (copy.state == "deploying" and not self.loads):
            return
        waited_us = now_us - copy.since_us
        wanted = {"virgin": "deployed", "synced": "synced", "live": "running"}[copy.flags.state]
        order = ["deploying", "deployed", "synced", "running"]
        if order.index(copy.state) > order.index(wanted):
            copy.state, copy.since_us = wanted, now_us
        elif (
            copy.state != wanted
            and waited_us >= {"deploying": DEPLOY_US, "deployed": RESTORE_US, "synced": 0}[copy.state]
        ):
            copy.state, copy.since_us = order[order.index(copy.state) + 1], now_us
        if copy.state == "synced" and not self.slow:
            copy.batch = max(copy.batch, shared.durable)
        elif copy.state == "deployed":
            copy.batch = 0
        elif copy.state == "running" and not self.slow:
            self._process(copy, shared, now_us)

    @staticmethod
    def _process(copy: Hosted, shared: Shared, now_us: int) -> None:
        copy.batch = max(copy.batch, shared.durable)
        copy.batch = min(copy.batch + CATCH_UP, shared.batch + 1 if copy.flags.commit else shared.batch)
        shared.batch = max(shared.batch, copy.batch)
        if copy.flags.commit and now_us - shared.marked_us >= CHECKPOINT_US:
            shared.durable, shared.marked_us = copy.batch, now_us
