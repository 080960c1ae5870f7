"""An error that nobody foresaw stops one copy: the unit is tried again, and the results are those of one piece."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest

from holdfast.schemas.events import Event, decode
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.dataflow.unit import Unit
from holdfast.services.recovery.core.unit.facts.crashes import MOST_FAULTS
from holdfast.services.recovery.core.unit.rules import blame
from holdfast.services.worker.core import rebuilds
from holdfast.services.worker.isolated.code import IsolatedCode
from holdfast.services.worker.unit.facts import beside
from tests.scenario.test_failures import Run

ERROR = "'module' object does not support item assignment"


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """tests/unit/recovery/test_faults.py holds how long they are."""
    monkeypatch.setattr(blame, "PAUSE_US", 20_000)


@contextmanager
def raising(owner: Any, name: str, times: int) -> Iterator[list[object]]:
    """The first calls raise what a library raised that was loaded by two threads at once."""
    true, raised = getattr(owner, name), list[object]()

    def call(*args: Any, **kwargs: Any) -> Any:
        if len(raised) < times:
            raised.append(args[0] if args else None)
            raise TypeError(ERROR)
        return true(*args, **kwargs)

    with mock.patch.object(owner, name, call):
        yield raised


def events(run: Run, kind: str) -> list[Event]:
    found = (decode(m.value() or b"") for m in run.cluster.log.scan(Partition(run.cluster.cluster.events, 0)))
    return [event for event in found if event.kind == kind]


@pytest.mark.parametrize("scheme", ["none", "passive", "hybrid"])
def test_a_batch_with_an_unexpected_error_is_tried_again(scheme: str) -> None:
    run = Run(scheme)
    with raising(Unit, "process", 1) as raised:
        run.until(lambda: bool(raised), "a copy has met the error")
        run.until(lambda: bool(events(run, "copy-faulted")), "and says so")
        run.end()
    (event,) = events(run, "copy-faulted")
    assert event.detail.startswith(f"TypeError: {ERROR}, at scenario/test_unexpected_errors.py:")
    assert " batches/batch_processor.py:" in event.detail, "where it was called"
    assert not events(run, "copy-failed")


@pytest.mark.parametrize("name", ["code_of", "rebuild"], ids=["loading", "restoring"])
def test_a_copy_that_could_not_be_loaded_or_restored_is_tried_again(name: str) -> None:
    run = Run("passive")
    owner: Any = IsolatedCode if name == "code_of" else beside
    with raising(owner, "start" if name == "code_of" else name, 2) as raised:
        run.cluster.kill("w1")
        run.until(lambda: len(raised) == 2, "copies have met the error")
        run.end()
    assert len(events(run, "copy-faulted")) == 2


def test_a_warm_up_that_fails_keeps_no_copy_from_running() -> None:
    run = Run("passive")
    with raising(beside, "warm_up", 1) as raised:
        run.cluster.kill("w1")
        run.until(lambda: bool(raised), "a warm-up has failed")
        run.end()
    (event,) = events(run, "warm-up-failed")
    assert event.detail.startswith(f"TypeError: {ERROR}")
    assert not events(run, "copy-faulted")


def test_users_code_that_has_changed_since_its_worker_started_is_said() -> None:
    run = Run("passive")
    with mock.patch.object(beside, "changed", return_value=["scoring"]):
        run.cluster.kill("w1")
        run.until(lambda: bool(events(run, "code-changed")), "it is said")
        run.end()
    assert events(run, "code-changed")[0].detail.startswith("the files of scoring are others than those")


def test_an_error_at_every_try_ends_the_unit_with_its_cause() -> None:
    run = Run("passive")
    unit = run.cluster.units[-1]
    true = Unit.process

    def process(self: Unit, *args: Any, **kwargs: Any) -> Any:
        if self.layout.unit.name == unit:
            raise TypeError(ERROR)
        return true(self, *args, **kwargs)

    with mock.patch.object(Unit, "process", process):
        run.until(lambda: run.cluster.change(unit).deadly is not None, "the unit is in quarantine")
    # The first one may be further than the checkpoint, from which each later copy begins.
    assert len(events(run, "copy-faulted")) in (MOST_FAULTS, MOST_FAULTS + 1)
    deadly = run.cluster.change(unit).deadly
    assert str(deadly).startswith(f"{MOST_FAULTS} unexpected errors in a row in batch ")
    assert f"TypeError: {ERROR}, at scenario/test_unexpected_errors.py:" in str(deadly)


def test_rebuilds_that_come_to_nothing_are_tried_elsewhere() -> None:
    run = Run("passive")
    with mock.patch.object(rebuilds, "MAX_REBUILDS", 2), mock.patch.object(Unit, "process", _corrupted(4)):
        run.until(lambda: bool(events(run, "copy-faulted")), "a copy has given up")
        run.end()
    assert events(run, "copy-faulted")[0].detail.startswith("gave up after 2 rebuilds without a batch")


def _corrupted(times: int) -> Any:
    from holdfast.services.kernel.errors import StateCorrupted

    true, raised = Unit.process, list[object]()

    def process(self: Unit, *args: Any, **kwargs: Any) -> Any:
        if self.layout.unit.name.startswith("orders-0") and len(raised) < times:
            raised.append(self)
            raise StateCorrupted("a gap")
        return true(self, *args, **kwargs)

    return process
