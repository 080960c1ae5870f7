"""Makes a takeover of a healthy unit, and reports its duration beside the prediction."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field

from holdfast.schemas import commands
from holdfast.schemas.assignments import Change, unit_key
from holdfast.schemas.commands import Command
from holdfast.schemas.events import Event
from holdfast.services.client.submission import append
from holdfast.services.kernel.errors import CommandFailed, Retriable
from holdfast.services.view.door import Door
from holdfast.services.view.lines import JobLine
from holdfast.services.view.reader import Watch, read_all

LOOK_S = 2.0
"""Seconds between two reads of `assignments`: events show the takeover sooner, unless the deciding
replica died first.
"""
JUDGED_S = 10.0
"""Seconds after the record: a copy reports its duration once a batch of its own is out, within 4 s without load."""


@dataclass(frozen=True, slots=True)
class Drilled:
    """Outcome of a drill.

    worker, scheme: the new leader, and its scheme.
    promise_ms: 0: the unit has no promise.
    predicted, actual: milliseconds by phase; empty without a prediction.
    kept: true if the promise, if any, was kept.
    """

    worker: str
    scheme: str
    promise_ms: float = 0.0
    predicted: dict[str, float] = field(default_factory=dict)
    actual: dict[str, float] = field(default_factory=dict)
    kept: bool = True


def drill_unit(door: Door, job: JobLine, unit: str, timeout_s: float) -> Drilled:
    """Drills a unit; returns once the takeover is over, and judged.

    Raises:
        CommandFailed: the drill is refused, or not done in time (it may be later).
    """
    key, began = unit_key(job.job, job.generation, unit), time.monotonic()
    with Watch(door.log, door.topics) as watch:
        offset = append(door, commands.encode(Command("drill", job.job, unit)))
        judged: Event | None = None
        while (left := timeout_s - (time.monotonic() - began)) > 0:
            for record in watch.records(min(LOOK_S, left)):
                if not isinstance(record, Event) or record.job != job.job:
                    continue
                if record.kind == "command-refused" or (record.kind == "drill-refused" and record.unit == unit):
                    raise CommandFailed(f"refused: {record.detail}", "`holdfast units` shows how it stands")
                if record.unit == unit:
                    judged = record if record.predicted_ms else judged
                    break
            change = _change(door, key)
            if change is None or change.moved < offset:
                continue
            if "cannot be made" in change.reason:
                raise CommandFailed(f"no drill of {unit}: {change.reason}", "`holdfast units` shows how it stands")
            leader = "nobody" if change.committer is None else change.committer.worker
            judged = judged or _judged(watch, job.job, unit)
            return _drilled(leader, change.scheme, judged)
    raise CommandFailed(
        f"no drill of {unit} within {timeout_s:g} s", "it comes once the unit is steady: `holdfast units`"
    )


def _change(door: Door, key: str) -> Change | None:
    with suppress(Retriable):  # a broker that is busy is asked again
        return read_all(door).change(key)
    return None


def _judged(watch: Watch, job: str, unit: str) -> Event | None:
    for record in watch.records(JUDGED_S):
        if isinstance(record, Event) and (record.job, record.unit) == (job, unit) and record.predicted_ms:
            return record
    return None


def _drilled(worker: str, scheme: str, judged: Event | None) -> Drilled:
    if judged is None:
        return Drilled(worker, scheme)
    kept = judged.kind != "promise-broken"
    return Drilled(worker, scheme, judged.promise_ms, judged.predicted_ms, actual=judged.phases_ms, kept=kept)
