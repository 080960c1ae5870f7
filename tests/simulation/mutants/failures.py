"""Deliberate bugs of how failures are judged and made good: liveness, crashes, moves, copies."""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest import mock

from msgspec import structs

from holdfast.schemas.heartbeats import At, Exit
from holdfast.services.decisions.admitted import Admitted
from holdfast.services.hosting.copies import Copies
from holdfast.services.kernel.liveness.detector import Detector
from holdfast.services.recovery.core.placement.balancing import _Load
from holdfast.services.recovery.core.unit.facts.crashes import Crashes
from holdfast.services.recovery.core.unit.rules import blame, moving
from holdfast.services.recovery.core.unit.situation import Situation
from holdfast.services.recovery.core.unit.table.moves import MOVES, Move
from holdfast.services.worker.core import checkpoint_run, lifecycle
from holdfast.services.worker.unit.inputs import intake
from holdfast.services.worker.unit.inputs.intake import Intake
from tests.simulation.mutants.bug import method
from tests.simulation.observers.facts import mistaken


@method(Detector, "read")
def exit_hits_the_next_incarnation(true: Any, self: Detector, record: Any) -> None:
    """An exit notice counts for every incarnation of the worker, also later ones."""
    if isinstance(record, Exit) and record.worker in self._pulses:
        record = Exit(record.worker, "9", record.time_ms, record.status)
    true(self, record)


@method(Detector, "_hear")
def age_of_the_turn_ignored(true: Any, self: Detector, pulse: Any, beat: Any) -> None:
    """A heartbeat is a sign of life, whatever it says of the loop."""
    true(self, pulse, structs.replace(beat, turn=None))


@method(Detector, "gone")
def nobody_is_ever_gone(true: Any, self: Detector, worker: str, incarnation: str, fail_stop_us: int) -> bool:
    return False


def never_in_quarantine() -> AbstractContextManager[object]:
    """A unit that ends its workers gets another one each time."""
    return mistaken(blame, "deadly", lambda situation: False)


@method(Situation, "faulted")
def unexpected_error_is_the_end(true: Any, self: Situation, copy: Any) -> bool:
    """A copy that met an unexpected error is left where it is."""
    return False


@method(Crashes, "_fault")
def every_heartbeat_is_an_error(true: Any, self: Crashes, copy: Any, record: Any, now_us: int) -> Any:
    """An error counts as often as a heartbeat says so."""
    self._faults.clear()
    return true(self, copy, record, now_us)


def suspects_do_not_wait() -> AbstractContextManager[object]:
    """A unit that ended a worker by itself is given to the next one at once, whatever else the first one had."""
    return mistaken(blame, "suspect", lambda situation: False)


@method(Crashes, "read")
def innocent_unit_blamed(true: Any, self: Crashes, record: Any, now_us: int) -> Any:
    """Takes the end of a worker for another unit's work: that of the one it reported first."""
    if isinstance(record, Exit):
        others = {at: [unit for unit in self.__dict__.get("hosted", ()) if unit != at.unit] for at in record.at}
        record = structs.replace(record, at=tuple(At(named[0], at.batch) for at, named in others.items() if named))
    else:
        self.__dict__["hosted"] = sorted({*self.__dict__.get("hosted", ()), *(copy.unit for copy in record.copies)})
    return true(self, record, now_us)


@method(Crashes, "_next")
def crashes_counted_wherever_they_were(true: Any, self: Crashes, at: At, record: Any, now_us: int) -> Any:
    """Three crashes at a unit's work are enough, whether they were in a row and at one batch or not."""
    counts = self.__dict__.setdefault("counts", Counter[str]())
    counts[at.unit] += 1
    return replace(true(self, at, record, now_us), count=counts[at.unit])


def handed_over_at_once() -> AbstractContextManager[object]:
    """A unit that moves is handed to its new copy without waiting for that to catch up: nobody processes it."""
    return mistaken(moving, "arrived", lambda situation: True)


def standby_let_go_first() -> AbstractContextManager[object]:
    """A unit that moves to a third worker is left unprotected until the new copy has caught up."""

    def begin(situation: Situation, rooms: Any) -> Any:
        copies = moving.begin(situation, rooms)
        return None if copies is None else (copies[0], copies[-1])

    return mock.patch.dict(MOVES, {Move.BEGIN: begin})


@method(_Load, "imbalance")
def balanced_to_and_fro(true: Any, self: _Load, left: str, taken: str) -> Any:
    """A unit moves, too, where that makes nothing better."""
    return true(self, left, taken) - 0.01


@method(Copies, "reconcile")
def copies_never_closed(true: Any, self: Copies[Any]) -> None:
    """Continues a copy that an assignment no longer names."""
    for key, named in self._decisions.named().items():
        self._place(key, named)


@method(Admitted, "named")
def name_in_use_admitted(true: Any, self: Admitted, job: str) -> None:
    """A second job of a name is taken while the first runs."""


@method(Intake, "_hold_one")
def slow_writer_paused(true: Any, self: Intake, partition: Any, full: bool, drained: bool) -> None:
    """A partition that holds much is paused although the unit waits for a frame that is behind it."""
    kept = dict(self.inputs.kept_bytes()).get(partition)
    if kept is not None:
        full, drained = kept > intake.MAX_INPUT_BYTES, kept < intake.MAX_INPUT_BYTES // 2
    true(self, partition, full, drained)


def fenced_copy_starts_again_unread() -> AbstractContextManager[object]:
    """A fenced copy takes its id again at once."""
    row = (lifecycle.State.RUNNING, lifecycle.OutputFenced, None)
    again = (lifecycle.State.RESTORING, lifecycle._REBUILD)
    return mock.patch.dict(lifecycle.TRANSITIONS, {row: again})


def refused_run_settled() -> AbstractContextManager[object]:
    """A run that is refused is settled anyway."""
    return mock.patch.dict(checkpoint_run._READ_BACK, {False: checkpoint_run._READ_BACK[True]})
