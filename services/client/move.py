"""Requests that a unit run on another worker, and waits until it does or recovery refuses."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from holdfast.schemas import commands
from holdfast.schemas.assignments import Change, unit_key
from holdfast.schemas.commands import Command
from holdfast.schemas.events import Event
from holdfast.services.client.submission import append
from holdfast.services.kernel.errors import USAGE, CommandFailed, Retriable
from holdfast.services.view.door import Door
from holdfast.services.view.lines import JobLine
from holdfast.services.view.reader import Watch, read_all, running_unit

LOOK_S = 2.0
"""Seconds between two reads of `assignments`: events show the move sooner, unless the deciding replica died first."""
ACTIVE_S = 2.0
"""Seconds within which the new copy reports the duration of the takeover."""
ANSWERS = ("move-done", "move-abandoned", "move-refused")


@dataclass(frozen=True, slots=True)
class Moved:
    """Outcome of a move.

    took_ms: milliseconds from the first record to the last.
    silence_ms: milliseconds to the first output of the new copy; None: not known.
    """

    took_ms: float
    silence_ms: float | None = None


def placed(door: Door, job: str, unit: str, worker: str) -> tuple[JobLine, str]:
    """The job, and the worker that runs its unit now.

    Raises:
        CommandFailed: the job has ended, or there is no such unit or worker.
    """
    view = read_all(door)
    line = running_unit(view, job, unit)
    plan = view.plan(line.generation)
    found = None if plan is None else next((one for one in view.units(plan) if one.unit == unit), None)
    states = {one.worker: one.state for one in view.workers(int(time.time() * 1000))}
    if worker not in states:
        raise CommandFailed(f"there is no worker '{worker}': one of {', '.join(states) or 'none'}", code=USAGE)
    if states[worker] != "live":
        raise CommandFailed(f"{worker} is {states[worker]}", "`holdfast workers` shows which are live")
    copies = () if found is None else found.copies
    return line, next((copy.worker for copy in copies if copy.role == "primary"), "nowhere")


def move_unit(door: Door, job: JobLine, unit: str, worker: str, timeout_s: float) -> Moved:
    """Moves a unit; returns once it runs on the worker.

    Raises:
        CommandFailed: the move is refused or abandoned, or not done in time (it may be later).
    """
    key, began = unit_key(job.job, job.generation, unit), time.monotonic()
    with Watch(door.log, door.topics) as watch:
        offset = append(door, commands.encode(Command("move", job.job, unit, worker=worker)))
        while (left := timeout_s - (time.monotonic() - began)) > 0:
            answer = next(_answers(watch, job.job, unit, min(LOOK_S, left)), None)
            change = _change(door, key)
            if answer is not None and answer.kind == "command-refused":
                raise CommandFailed(f"refused: {answer.detail}")
            if change is None or change.moved < offset or change.arriving is not None:
                continue
            if change.committer is None or change.committer.worker != worker:
                raise CommandFailed(f"{unit} does not run on {worker}: {change.reason}", "`holdfast events` shows more")
            took_ms = answer.phases_ms.get("move") if answer is not None else None
            took_ms = (time.monotonic() - began) * 1000 if took_ms is None else took_ms
            return Moved(took_ms, _silence_ms(watch, job.job, unit, change.epoch))
    raise CommandFailed(
        f"{unit} does not run on {worker} after {timeout_s:g} s",
        "it continues once the unit is steady: `holdfast units`",
    )


def _answers(watch: Watch, job: str, unit: str, timeout_s: float) -> Iterator[Event]:
    for record in watch.records(timeout_s):
        if not isinstance(record, Event) or record.job != job:
            continue
        if record.kind == "command-refused" or (record.kind in ANSWERS and record.unit == unit):
            yield record


def _change(door: Door, key: str) -> Change | None:
    with suppress(Retriable):  # a broker that is busy is asked again
        return read_all(door).change(key)
    return None


def _silence_ms(watch: Watch, job: str, unit: str, epoch: int) -> float | None:
    for record in watch.records(ACTIVE_S):
        if not isinstance(record, Event) or record.kind != "unit-active" or record.epoch < epoch:
            continue
        if (record.job, record.unit) == (job, unit):
            return record.phases_ms.get("first_output")
    return None
