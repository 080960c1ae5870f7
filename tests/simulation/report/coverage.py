"""Rows of the transition tables that a history has taken, and faults that met each state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from holdfast.services.controller.core import life
from holdfast.services.recovery.core.job import incident, incidents
from holdfast.services.recovery.core.unit.facts import changing
from holdfast.services.recovery.core.unit.facts.schemes import Rung
from holdfast.services.recovery.core.unit.situation import Situation
from holdfast.services.recovery.core.unit.table import recording, switching
from holdfast.services.recovery.core.unit.table.moves import Move
from holdfast.services.recovery.core.unit.table.signs import Sign
from holdfast.services.worker.core import checkpoint_run, lifecycle


def rows() -> dict[str, list[str]]:
    """Every row of every table, by table."""
    return {
        "copy": [_copy_row(*key) for key in lifecycle.TRANSITIONS],
        "checkpoint": [
            *(_checkpoint_row(phase, event) for phase, event in checkpoint_run.TRANSITIONS),
            *(f"deciding, MarkerRead {valid}" for valid in (True, False)),
        ],
        "switching": [_switching_row(*key) for key in switching.TRANSITIONS],
        "scheme step": [_step_row(*key) for key in changing.STEPS],
        "job": [_job_row(*key) for key in life.TRANSITIONS],
        "incident": [f"{phase.value}, {sign.value}" for phase, sign in incident.TRANSITIONS],
    }


def beyond(table: str, row: str) -> str:
    """Why no history can take a row; empty if one may."""
    if table == "copy" and (row.endswith("Broke") or row.startswith("failed")):
        return "nothing in these jobs fails, and a copy that does makes the history wrong"
    if row == "deploying, InputBroken":
        return "the operators of these jobs always load"
    return ""


BRIEF = (lifecycle.State.NEW, lifecycle.State.FAILED, lifecycle.State.CLOSED)
"""States that no fault can meet: a copy is deployed at once, forgotten once it is closed, and none may fail."""


def _copy_row(state: Any, event: type, goal: Any) -> str:
    return f"{state.value}, {event.__name__}" + (f" ({goal.name.lower()})" if goal is not None else "")


def _checkpoint_row(phase: Any, event: type) -> str:
    return f"{phase.value}, {event.__name__}"


def _switching_row(stance: Any, sign: Any) -> str:
    return f"{stance.value}, {sign.value}"


def _step_row(rung: Rung, target: Rung) -> str:
    return f"{rung.name} towards {target.name}"


def _job_row(phase: Any, step: Any) -> str:
    return f"{phase.value}, {step.name.lower()}"


@contextmanager
def observed() -> Iterator[Counter[str]]:
    """Counts `table: row` while it is open."""
    taken: Counter[str] = Counter()
    copy, checkpoint = lifecycle.Lifecycle.handle, checkpoint_run.CheckpointRun.handle
    job, record, due_record = life.Life.handle, recording.record, incident.next_record

    def on_copy(self: lifecycle.Lifecycle, event: Any) -> Any:
        goal = lifecycle.Goal.of(event.flags if isinstance(event, lifecycle.Placed) else self.flags)
        for key in ((self.state, type(event), goal), (self.state, type(event), None)):
            if key in lifecycle.TRANSITIONS:
                taken[f"copy: {_copy_row(*key)}"] += 1
                break
        return copy(self, event)

    def on_checkpoint(self: checkpoint_run.CheckpointRun, event: Any) -> Any:
        before = self.phase
        actions = checkpoint(self, event)
        if isinstance(event, checkpoint_run.MarkerRead) and before is checkpoint_run.Phase.DECIDING:
            taken[f"checkpoint: deciding, MarkerRead {event.valid}"] += 1
        elif actions or self.phase is not before:
            taken[f"checkpoint: {_checkpoint_row(before, type(event))}"] += 1
        return actions

    def on_job(self: life.Life, step: Any) -> Any:
        if (self.phase, step) in life.TRANSITIONS:
            taken[f"job: {_job_row(self.phase, step)}"] += 1
        return job(self, step)

    def on_record(situation: Situation, sign: Any, move: Any, *rest: Any) -> Any:
        taken[f"switching: {_switching_row(situation.stance, sign)}"] += 1
        rung = Rung.ABSENT if move is Move.ADD else None
        if move is Move.STEP or sign is Sign.SECONDARY_UNWANTED:
            rung = Rung.of(situation.secondary.flags)
        if rung is not None:
            taken[f"scheme step: {_step_row(rung, situation.target)}"] += 1
        return record(situation, sign, move, *rest)

    def on_incident(scene: incident.Scene) -> Any:
        due = due_record(scene)
        if due is not None:
            _, _, sign, _ = due[1].split(": ")
            taken[f"incident: {scene.phase.value}, {sign}"] += 1
        return due

    with ExitStack() as stack:
        for target, name, instead in (
            (lifecycle.Lifecycle, "handle", on_copy),
            (checkpoint_run.CheckpointRun, "handle", on_checkpoint),
            (life.Life, "handle", on_job),
            (recording, "record", on_record),
            (incidents, "next_record", on_incident),
        ):
            stack.enter_context(mock.patch.object(target, name, instead))
        yield taken
