"""The fault-tolerance schemes: the state of a unit's secondary while all is well, and the reaction to a silent primary.

Source: MECHANISMS section 4, PROTOCOL 8. To change a scheme or add one, change one row of SCHEMES.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from holdfast.schemas.assignments import PRIMARY, Flags

ADAPTIVE = "adaptive"
"""Name used in place of a scheme: recovery chooses the scheme, and changes it (core/adaptive)."""
FIRST = "active-replication"
"""Scheme with which an adaptive unit begins: MECHANISMS A4."""
OF_DRIVERS = "passive-hot"
"""Scheme of an adaptive unit on a Spark driver: the work of Spark in a micro-batch is not measured (MECHANISMS A3).
"""


def _secondary(state: str, *, receive: bool = False, process: bool = False, send: bool = False, target: bool) -> Flags:
    return Flags(
        state=state, receive=receive, process=process, send=send, commit=False, checkpoint_target=target
    )  # fmt: skip


class Rung(Enum):
    """Activity of a copy that does not commit, from nothing to everything; the value is its flags."""

    ABSENT = None
    EMPTY = _secondary("virgin", target=False)
    """Operators loaded and warm, no state."""
    COLD = _secondary("synced", target=True)
    """Its image follows the checkpoints; its inputs are connected, but paused."""
    HOT = _secondary("synced", receive=True, target=True)
    """Its image follows the checkpoints, and the copy holds its inputs since the image."""
    CATCHING = _secondary("live", receive=True, process=True, target=True)
    """The copy processes, and may still be behind."""
    STANDBY = _secondary("live", receive=True, process=True, target=False)
    """The copy processes as far as the primary."""
    COVERED = _secondary("live", receive=True, process=True, send=True, target=True)
    """The copy sends, and checkpoints cover it."""
    ACTIVE = _secondary("live", receive=True, process=True, send=True, target=False)
    """The copy does everything that the primary does, except to commit."""

    @property
    def flags(self) -> Flags:
        flags: Flags | None = self.value
        assert flags is not None, "an absent copy has no flags"
        return flags

    @staticmethod
    def of(flags: Flags | None) -> Rung | None:
        """Returns the rung with these flags; None for flags that no scheme gives."""
        return _RUNGS.get(flags)


_RUNGS: dict[Flags | None, Rung] = {rung.value: rung for rung in Rung}


@dataclass(frozen=True, slots=True)
class Scheme:
    """A row of the table of schemes.

    secondary: rung of the secondary while all is well; the primary always has the flags PRIMARY.
    misses: number of missed heartbeats in a row after which another copy takes over; None: only when the primary is
        gone for good.
    switches_back: true if the old primary leads again when it answers; otherwise the two have changed places.
    """

    name: str
    secondary: Rung
    misses: int | None
    switches_back: bool = False
    primary: Flags = PRIMARY


SCHEMES: Mapping[str, Scheme] = {
    scheme.name: scheme
    for scheme in (
        Scheme("none", Rung.ABSENT, None),
        Scheme("passive", Rung.ABSENT, 3),
        Scheme("deployed", Rung.EMPTY, 3),
        Scheme("passive-cold", Rung.COLD, 3),
        Scheme("passive-hot", Rung.HOT, 3),
        Scheme("hybrid", Rung.HOT, 1, switches_back=True),
        Scheme("active-standby", Rung.STANDBY, 1),
        Scheme("active-replication", Rung.ACTIVE, 1),
    )
}
