"""Rolling back: asks for units to begin again at the newest global checkpoint, and waits until that is decided."""

from __future__ import annotations

import time
from contextlib import suppress

import msgspec

from holdfast.schemas import commands
from holdfast.schemas.assignments import unit_key
from holdfast.schemas.commands import Command
from holdfast.services.client.submission import LOOK_AGAIN_S, append
from holdfast.services.kernel.errors import CommandFailed, Retriable
from holdfast.services.view.cluster import ClusterView
from holdfast.services.view.door import Door
from holdfast.services.view.lines import JobLine
from holdfast.services.view.reader import read_all


class RolledBack(msgspec.Struct, frozen=True):
    """A unit that begins again behind this batch, on this line."""

    unit: str
    batch: int
    line: int


def roll_back(door: Door, job: JobLine, unit: str, timeout_s: float) -> list[RolledBack]:
    """Returns once it is decided for the unit, or for every one that has not ended; copies may be on their way.

    Raises:
        CommandFailed: it is refused, or nothing has decided it in time (it may be later).
    """
    offset = append(door, commands.encode(Command("rollback", job.job, unit)))
    deadline, left = time.monotonic() + timeout_s, [unit or "every unit"]
    while time.monotonic() < deadline:
        with suppress(Retriable):  # a broker that is busy is asked again
            view = read_all(door)
            plan = view.plan(job.generation)
            names = [one.name for one in plan.units if unit in ("", one.name)] if plan is not None else []
            found = {name: _answer(view, job, name, offset) for name in names}
            left = [name for name, answer in found.items() if answer is None]
            if found and not left:
                return [answer for answer in found.values() if isinstance(answer, RolledBack)]
        time.sleep(LOOK_AGAIN_S)
    raise CommandFailed(
        f"{', '.join(left)}: not rolled back after {timeout_s:g} s", "it is once the unit is steady: `holdfast units`"
    )


def _answer(view: ClusterView, job: JobLine, unit: str, offset: int) -> RolledBack | str | None:
    """The answer to the request; None: there is none yet; a text: the unit has ended. Raises CommandFailed if it is
    refused.
    """
    key = unit_key(job.job, job.generation, unit)
    change = view.change(key)
    if change is None or change.rolled < offset:
        return "ended" if view.ended(key) else None
    if change.line == 0 or not change.reason.startswith("a rollback was asked for: "):
        raise CommandFailed(f"refused for {unit}: {change.reason}")
    return RolledBack(unit, change.back, change.line)
