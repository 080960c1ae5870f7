"""The expected recovery time of units, backup groups and workers.

Source: MECHANISMS C5. Times are milliseconds of CPU time. docs/mechanisms.md defines each cost for our workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Protected:
    """A unit and its image elsewhere, at one time t.

    primary: the worker that runs the unit.
    backup: the worker that holds its image; empty: the unit has no image.
    load: l_u, the share of the primary's CPU.
    replay_ms: the load integrated over [b_u, t]; b_u is the start of the newest delivered capture.
    gain_ms: the load integrated over [a_u, t]; a_u is the start of the newest capture.
    capture_ms: c_u, the cost of a capture.
    paste_ms: c'_u, the cost of applying it.
    waiting: the number of captures that the backup has not applied yet.
    """

    primary: str
    backup: str
    load: float
    replay_ms: float
    gain_ms: float
    capture_ms: float
    paste_ms: float
    waiting: int = 0


def of_unit(unit: Protected, after_ms: float = 0.0) -> float:
    """R_u if its worker fails after `after_ms`, without any capture or paste until then."""
    return unit.replay_ms + unit.load * after_ms + unit.waiting * unit.paste_ms


def of_groups(units: Iterable[Protected], after_ms: float = 0.0) -> dict[tuple[str, str], float]:
    """R_Qij by primary and backup: a backup recovers the units of its group one by one."""
    found: dict[tuple[str, str], float] = {}
    for unit in units:
        group = unit.primary, unit.backup
        found[group] = found.get(group, 0.0) + of_unit(unit, after_ms)
    return found


def of_workers(groups: Mapping[tuple[str, str], float]) -> dict[str, float]:
    """R_Qi, by primary, given R_Qij: the backups recover their groups in parallel."""
    found: dict[str, float] = {}
    for (primary, _), group_ms in groups.items():
        found[primary] = max(found.get(primary, 0.0), group_ms)
    return found


def reduced_by_capture(unit: Protected) -> float:
    """dR_u, the reduction of R_u by a delivered capture; negative if applying it costs more than it saves."""
    return unit.gain_ms - unit.paste_ms
