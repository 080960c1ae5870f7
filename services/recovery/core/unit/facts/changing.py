"""Ways from any scheme to any other while the job runs: the next flags of the secondary, and the conditions before.

Source: MECHANISMS A1. A worker drives one copy through the safe order by itself; a step that depends on two copies is a
record of its own, proposed when its gate is open. To change an order, change EDGES; STEPS follows from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from holdfast.schemas.assignments import Change
from holdfast.schemas.heartbeats import CopyState
from holdfast.services.recovery.core.unit.facts.schemes import SCHEMES, Rung


class Gate(Enum):
    """A condition across two copies that must hold before a step."""

    CAUGHT_UP = "the copy that is to serve is as far as the leader"
    DURABLE = "a checkpoint since the last step is durable"


_R, _G = Rung, Gate

EDGES: Mapping[tuple[Rung, Rung], Gate | None] = {
    (_R.ABSENT, _R.EMPTY): None,
    (_R.EMPTY, _R.COLD): None,
    (_R.COLD, _R.HOT): None,
    (_R.HOT, _R.CATCHING): None,
    (_R.CATCHING, _R.COVERED): _G.CAUGHT_UP,
    (_R.CATCHING, _R.STANDBY): _G.CAUGHT_UP,
    (_R.STANDBY, _R.ACTIVE): _G.CAUGHT_UP,
    (_R.COVERED, _R.ACTIVE): None,
    # Down: covered by checkpoints first, and by a durable one before it stops sending or is suspended.
    (_R.ACTIVE, _R.COVERED): None,
    (_R.STANDBY, _R.CATCHING): None,
    (_R.COVERED, _R.CATCHING): _G.DURABLE,
    (_R.COVERED, _R.HOT): _G.DURABLE,
    (_R.CATCHING, _R.HOT): _G.DURABLE,
    (_R.HOT, _R.COLD): None,
    (_R.COLD, _R.EMPTY): None,
    (_R.EMPTY, _R.ABSENT): None,
}


@dataclass(frozen=True, slots=True)
class Step:
    """The next record on the way.

    gate: the condition to wait for; None: none.
    rung: the flags of the secondary after the record.
    """

    gate: Gate | None
    rung: Rung


def _way(start: Rung, target: Rung) -> list[Rung]:
    """Returns the shortest way along EDGES, without its start."""
    ways = [[start]]
    while ways[0][-1] is not target:
        way = ways.pop(0)
        ways += [[*way, after] for before, after in EDGES if before is way[-1] and after not in way]
    return ways[0][1:]


def _steps() -> Iterator[tuple[tuple[Rung, Rung], Step]]:
    """Each step: the first gate on the way, and the last rung before a further gate."""
    for start in Rung:
        for target in {scheme.secondary for scheme in SCHEMES.values()} - {start}:
            way = _way(start, target)
            gates = [EDGES[pair] for pair in zip([start, *way], way, strict=False)]
            further = next((n for n, gate in enumerate(gates) if n > 0 and gate is not None), len(way))
            yield (start, target), Step(gates[0], way[further - 1])


STEPS: Mapping[tuple[Rung, Rung], Step] = dict(_steps())
"""The next step by (rung, target)."""


def next_step(rung: Rung | None, target: Rung) -> Step | None:
    """Returns the next step; None at the target. From unknown flags the step leads straight to the target."""
    return None if rung is target else Step(None, target) if rung is None else STEPS[rung, target]


NEAR = 2
"""Number of batches by which a copy may be behind and still count as caught up: PROTOCOL 8."""


def caught_up(copy: CopyState | None, leader: CopyState | None, epoch: int) -> bool:
    """True if the copy has read the record of this epoch, processes, and is at most NEAR batches behind the leader."""
    return (
        copy is not None
        and leader is not None
        and copy.epoch >= epoch
        and copy.state == "running"
        and copy.batch >= leader.batch - NEAR
    )


@dataclass(slots=True)
class Covering:
    """The batch of the leader when it first reported a record; once that batch is durable, checkpoints cover the
    record.
    """

    _goals: dict[str, tuple[int, int]] = field(default_factory=dict)

    def see(self, change: Change, leader: CopyState) -> None:
        """Takes a report of the leader."""
        epoch, _ = self._goals.get(change.unit, (0, 0))
        if epoch < change.epoch <= leader.epoch:
            self._goals[change.unit] = change.epoch, leader.batch

    def durable(self, change: Change, leader: CopyState | None) -> bool:
        epoch, goal = self._goals.get(change.unit, (0, 0))
        return epoch == change.epoch and leader is not None and leader.durable >= goal

    def forget(self, unit: str) -> None:
        self._goals.pop(unit, None)
