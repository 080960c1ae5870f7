"""The paper's workers: eight units each, four on a bursty stream of packets (type 1), four on a slow even one (type 2).

Source: W7, W8 and W10. Each unit is two aggregates that count by source address in windows of 10 s, one a second.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from bench.model.loads import Load, added, bursty, constant, ramped
from bench.model.units import Together, Unit, Windowed

TYPE_1_PER_S, TYPE_2_PER_S = 2_000.0, 100.0
DEVIATION = 0.35
"""Deviation of the rate of type 1: 0.7K of 2.0K tuples/s."""
FULL = 0.9
"""Load of a worker when type 1 has its full rate."""
OF_EACH = 4
TYPE_1 = Windowed(scale=60.0, power=0.6)
"""Few of many addresses come again and again: about 240 in 10 s."""
TYPE_2 = Windowed(scale=63.0, power=0.3, limit=100.0)
"""100 addresses, drawn evenly."""
_PER_TUPLE = FULL / (OF_EACH * (TYPE_1_PER_S + TYPE_2_PER_S))
"""Share of a CPU for one tuple/s, in both aggregates of a unit."""


def names(count: int) -> list[str]:
    return [f"s{number:02d}" for number in range(count)]


def steady(share: float) -> Callable[[], Load]:
    """Type 1 at a constant rate.

    share: load of a worker.
    """
    return lambda: constant(share / FULL * TYPE_1_PER_S * _PER_TUPLE)


def ramp(until_s: int, seconds: int, chance: random.Random) -> Load:
    """Type 1 from nothing to its full rate at `until_s`, then as bursty as packets are."""
    rising = ramped(lambda ms: TYPE_1_PER_S * _PER_TUPLE * ms / 1000 / until_s, until_s)
    packets = bursty(TYPE_1_PER_S * _PER_TUPLE, DEVIATION, max(seconds - until_s, 1), chance)
    return Load((*rising.shares, *packets.shares))


def drawn(workers: Sequence[str], type_1: Callable[[], Load], chance: random.Random, share: float = FULL) -> list[Unit]:
    """Each backup drawn from all peers: the paper's random static assignment."""
    return [
        _unit(worker, number, chance.choice([peer for peer in workers if peer != worker]), type_1, share)
        for worker in workers
        for number in range(2 * OF_EACH)
    ]


def even(workers: Sequence[str], type_1: Callable[[], Load], share: float = FULL) -> list[Unit]:
    """Units whose backups are spread over the peers, those of type 1 and then those of type 2: each worker holds equal
    numbers.
    """
    found = []
    for place, worker in enumerate(workers):
        peers = [*workers[place + 1 :], *workers[:place]]
        found += [
            _unit(worker, number, peers[number % OF_EACH % len(peers)], type_1, share) for number in range(2 * OF_EACH)
        ]
    return found


def whole(units: Sequence[Unit], workers: Sequence[str]) -> list[Unit]:
    """Each worker's units joined to one, with its backup on the next worker."""
    found = []
    for place, worker in enumerate(workers):
        own = [unit for unit in units if unit.primary == worker]
        costs = Together(tuple(unit.costs for unit in own))
        backup = workers[(place + 1) % len(workers)]
        found.append(Unit(worker, worker, backup, added([unit.load for unit in own]), costs))
    return found


def _unit(worker: str, number: int, backup: str, type_1: Callable[[], Load], share: float) -> Unit:
    name = f"{worker}-u{number}"
    if number < OF_EACH:
        return Unit(name, worker, backup, type_1(), TYPE_1)
    return Unit(name, worker, backup, constant(share / FULL * TYPE_2_PER_S * _PER_TUPLE), TYPE_2)
