"""Costs of a unit's secondary under each scheme, as shares of the primary's. Pure.

Source: MECHANISMS A4 and A5. Usage is normalised by the primary's measurements, and weighed as the job says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.services.recovery.core.unit.facts.schemes import Rung

LOADED_BYTES = 1024 * 1024
"""Memory of a copy whose operators are loaded, without its state."""


@dataclass(frozen=True, slots=True)
class Work:
    """Costs of the primary, and of its checkpoints at the copies that follow them.

    cpu: share of a CPU.
    applied: share of a CPU for applying its runs; None: not known.
    in_per_s, out_per_s, run_per_s: bytes per second of its inputs, of its frames, and appended to the checkpoint log.
    state_bytes: size of its state.
    held_bytes: size of the inputs since the newest marker.
    """

    cpu: float = 0.0
    applied: float | None = None
    in_per_s: float = 0.0
    out_per_s: float = 0.0
    run_per_s: float = 0.0
    state_bytes: float = 0.0
    held_bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class Usage:
    """Costs of the secondary; 1.0 is the primary's."""

    cpu: float = 0.0
    memory: float = 0.0
    network: float = 0.0
    workers: float = 0.0


def usage(rung: Rung, work: Work) -> Usage:
    """Returns the usage of a secondary on this rung.

    Every scheme writes the runs of checkpoints, so only a copy that reads them uses the network for them.
    """
    if rung is Rung.ABSENT:
        return Usage()
    loaded = LOADED_BYTES + work.state_bytes
    if rung is Rung.EMPTY:
        return Usage(memory=LOADED_BYTES / loaded, workers=1.0)
    whole = work.in_per_s + work.out_per_s + work.run_per_s
    active = rung in (Rung.ACTIVE, Rung.STANDBY)
    read = {
        Rung.ACTIVE: work.in_per_s + work.out_per_s,
        Rung.STANDBY: work.in_per_s,
        Rung.HOT: work.in_per_s + work.run_per_s,
        Rung.COLD: work.run_per_s,
    }[rung]
    held = work.held_bytes if rung is Rung.HOT else 0.0
    applied = 1.0 if work.applied is None or not work.cpu else min(1.0, work.applied / work.cpu)
    return Usage(
        cpu=1.0 if active else applied,
        memory=(loaded + held) / loaded,
        network=read / whole if whole else float(active),
        workers=1.0,
    )


def cost(used: Usage, weights: Mapping[str, float]) -> float:
    """The sum of each kind of usage times its weight; a weight that is not named is 1."""
    kinds = {"cpu": used.cpu, "memory": used.memory, "network": used.network, "workers": used.workers}
    return sum(weights.get(kind, 1.0) * share for kind, share in kinds.items())
