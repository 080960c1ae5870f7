"""Deliberate bugs of sinks: what is delivered, and what is kept until it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from holdfast.schemas import delivered
from holdfast.schemas.checkpoints import Marker
from holdfast.services.kernel.errors import Indefinite, TopicGone
from holdfast.services.log.memory import MemoryLog
from holdfast.services.worker.sinks.delivery import Delivery
from holdfast.services.worker.sinks.portions import Portion
from holdfast.services.worker.unit.outputs.kept_outputs import KeptOutputs
from holdfast.services.worker.unit.outputs.outputs import Outputs
from tests.simulation.mutants.bug import method


@method(MemoryLog, "holds")
def no_fencing(true: Any, self: MemoryLog, transactional_id: str, holder: Any) -> bool:
    return True


@method(Portion, "failed")
def as_much_once_more(true: Any, self: Portion) -> None:
    """After a transaction that did not get through the next one holds as much."""


@method(Delivery, "open")
def position_read_before_the_fence(true: Any, self: Delivery, opened: Any) -> None:
    """Position first, and only then the id is taken over."""

    def read(outcome: Any) -> None:
        early = outcome
        true(self, lambda _: use(early))

    def use(early: Any) -> None:
        if not isinstance(early, Exception):
            self.delivered = early
        opened(self.delivered)

    def position() -> int:
        last = self._log.last(self._sinks.position)
        return 0 if last is None else delivered.decode(last.value() or b"").batch

    self._run(position, read)


@method(Delivery, "_opened")
def _position_unread(true: Any, self: Delivery, outcome: Any, opened: Any) -> None:
    """A delivery begins as if nothing were delivered."""
    true(self, outcome if isinstance(outcome, Exception) else (outcome[0], None), opened)


@contextmanager
def delivered_position_ignored() -> Iterator[None]:
    """Delivers again what is delivered already, and nobody compares the position with that of a marker."""
    true = Outputs.deliver_by

    def deliver_by(self: Outputs, delivery: Delivery, known: int) -> None:
        true(self, delivery, 0)

    with _position_unread(), mock.patch.object(Outputs, "deliver_by", deliver_by):
        yield


@method(Delivery, "_committed")
def blind_retry(true: Any, self: Delivery, outcome: Any) -> None:
    """After a commit of which nobody knows, the id is taken again and the commit repeated."""

    def again() -> tuple[int, int]:
        assert self._transactor is not None
        self._transactor.start()
        return self._commit()

    if isinstance(outcome, Indefinite) and not self._closed:
        self._run(again, self._committed)
    else:
        true(self, outcome)


@method(Delivery, "_committed")
def rows_for_an_absent_sink_dropped(true: Any, self: Delivery, outcome: Any) -> None:
    """Rows for a topic that is gone count as delivered."""
    true(self, (0, 0) if isinstance(outcome, TopicGone) else outcome)


@method(Outputs, "keep_rows")
def rows_in_doubt_forgotten(true: Any, self: Outputs) -> None:
    """Does not deliver again the rows of a commit without an answer."""
    self.delivery = self._closed


@method(Delivery, "_next")
def position_in_a_transaction_of_its_own(true: Any, self: Delivery) -> None:
    """Rows first, then the position."""
    if self._under_way or not self._queue or self._transactor is None:
        return
    self._under_way = self._queue.take()
    transactor = self._transactor

    def position() -> tuple[int, int]:
        transactor.commit([self._position_rows(self._under_way[-1].number, 0)])
        return 1, 0

    def rows(outcome: Any) -> None:
        if isinstance(outcome, Exception):
            self._committed(outcome)
        else:
            self._run(position, self._committed)

    self._run(lambda: transactor.commit(self._rows.of(self._under_way)[0]), rows)


@method(Outputs, "deliver_by")
def unsent_rows_forgotten(true: Any, self: Outputs, delivery: Delivery, known: int) -> None:
    """A standby that takes over delivers only what comes after."""
    self._kept.rows.clear()
    true(self, delivery, known)


@method(Outputs, "send_kept")
def unsent_frames_forgotten(true: Any, self: Outputs, marker: Marker | None) -> None:
    """A standby that takes over sends only what comes after."""
    self._kept.sent.clear()


@method(KeptOutputs, "forget")
def kept_too_short(true: Any, self: KeptOutputs, batch: int) -> None:
    """Any marker empties what is kept."""
    true(self, 2**62)
