"""Deliberate bugs of tentative batches and rows: decisions 0169 and 0170."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Any
from unittest import mock

from holdfast.schemas.checkpoints import Marker
from holdfast.schemas.cuts import NO_WATERMARK
from holdfast.schemas.dead_letters import DeadLetter, encode
from holdfast.schemas.delivered import Delivered
from holdfast.schemas.frames import FLAG_TENTATIVE
from holdfast.services.kernel.dataflow import input_partition
from holdfast.services.kernel.dataflow.input_partition import InputPartition
from holdfast.services.kernel.dataflow.open_rows import NEVER, OpenRows
from holdfast.services.kernel.dataflow.unit import Sent
from holdfast.services.kernel.state.forked import ForkedTable
from holdfast.services.log.protocol import Rows
from holdfast.services.planning import tentative as planning_of_tentative
from holdfast.services.worker.core.tentative import State
from holdfast.services.worker.sinks import tentative_rows
from holdfast.services.worker.sinks.tentative_rows import Ahead, TentativeRows
from holdfast.services.worker.unit.facts.copy_view import CopyView
from holdfast.services.worker.unit.outputs.outbox import Outbox
from holdfast.services.worker.unit.outputs.outputs import Outputs
from holdfast.services.worker.unit.tentative.tentative_line import TentativeLine
from holdfast.services.worker.unit.turns.running_copy import RunningCopy
from tests.simulation.mutants.bug import method


def tentative_frame_taken_as_stable() -> AbstractContextManager[object]:
    """A reader does not look at the flag."""
    true = vars(input_partition)["unpack"]

    def unflagged(frame: bytes) -> Any:
        header = true(frame)
        return header._replace(flags=header.flags & ~FLAG_TENTATIVE)

    return mock.patch.object(input_partition, "unpack", unflagged)


@method(ForkedTable, "put_many")
def fork_writes_through(
    true: Callable[..., None], self: ForkedTable, keys: Sequence[bytes], values: Sequence[Any]
) -> None:
    """The line works on the state itself."""
    if self._base is not None:
        self._base.put_many(keys, values)
    true(self, keys, values)


def tentative_frames_not_flagged() -> AbstractContextManager[object]:
    """They are sent as if they were stable."""

    def send(self: Outbox, batch: int, sent: Any) -> None:
        for partition, frame in self._frames.encode(batch, sent, self.epoch, self._format()):
            self._appender.append(partition, frame)

    return mock.patch.object(Outbox, "send_tentative", send)


def line_works_though_nothing_is_out() -> AbstractContextManager[object]:
    """It leaves out whatever is late."""
    true_out, true_writers = TentativeLine._out, TentativeLine._writers

    def out(self: TentativeLine) -> str:
        return true_out(self) or ("late" if self._able else "")

    def writers(self: TentativeLine) -> Any:
        found = true_writers(self)
        return found if true_out(self) else {one: {0} for one in self._intake.inputs}

    return mock.patch.multiple(TentativeLine, _out=out, _writers=writers)


def totals_are_taken_back() -> AbstractContextManager[object]:
    """A record without a value closes a running total once the watermark has passed its batch."""
    return mock.patch.object(tentative_rows, "_until", lambda sink, watermark: watermark)


@method(TentativeRows, "position")
def tentative_rows_move_the_position(
    true: Callable[..., Delivered], self: TentativeRows, batch: int, epoch: int, too_large: int
) -> Delivered:
    """A transaction with tentative rows says that the final rows of its batch are delivered."""
    return true(self, batch if self.under_way is None else self.under_way.number, epoch, too_large)


@method(ForkedTable, "keep")
def fork_reads_later_values(true: Callable[..., None], self: ForkedTable, keys: Any, values: Any) -> None:
    """What the state is about to change is not kept aside."""


@method(TentativeRows, "closing")
def rows_closed_without_a_record(
    true: Callable[..., list[Any]], self: TentativeRows, batches: Any, rows: Any
) -> list[Any]:
    """Rows that the final result does not have are forgotten."""
    true(self, batches, rows)
    return []


@method(OpenRows, "confirm")
def final_row_does_not_close(true: Callable[..., None], self: OpenRows, ids: Any) -> None:
    """A record without a value comes for each tentative row, also where the final one is there."""


@method(OpenRows, "due")
def rows_closed_by_batch(true: Callable[..., list[bytes]], self: OpenRows, watermark: int) -> list[bytes]:
    """The next stable batch closes all that is open, though windows end later there."""
    return true(self, NEVER)


@method(OpenRows, "due")
def rows_closed_only_by_the_end(true: Callable[..., list[bytes]], self: OpenRows, watermark: int) -> list[bytes]:
    """No watermark closes them."""
    return []


def tentative_rows_under_results_final() -> AbstractContextManager[object]:
    """All queries count as if they had asked."""
    return mock.patch.object(planning_of_tentative, "_asked", lambda checked: list(checked.spec.queries))


@method(InputPartition, "rewind")
def lent_frames_are_not_read_again(true: Callable[..., int | None], self: InputPartition) -> int | None:
    """What the line has had of stable frames is gone for the stable cursor."""
    return None if self._line is not None else true(self)


@method(TentativeRows, "commit")
def dead_letters_of_the_line(true: Callable[..., None], self: TentativeRows, transactor: Any, position: Any) -> None:
    """Rows at which code raises on incomplete input are dead-lettered, too."""
    topic = self._rows.topics.dead_letters
    letter = DeadLetter("line", "not final", self.last + 1)
    transactor.commit([*self._made(), Rows(topic, [encode(letter)], partitions=[0]), position()])


@method(TentativeRows, "_restore")
def open_rows_forgotten_at_a_takeover(
    true: Callable[..., None], self: TentativeRows, open: Any, sink: Any, ours: Any, message: Any
) -> None:
    """A copy that takes over reads nothing back."""


def positions_ordered_by_batch_alone() -> AbstractContextManager[object]:
    """Those of transactions with tentative rows have the batch of the one before: the first of them counts."""
    return mock.patch.object(Delivered, "order", property(lambda self: (self.batch,)))


def standby_works_tentatively() -> AbstractContextManager[object]:
    """Every copy that processes has a line and sends its frames, also one that does not lead and holds its outputs."""

    def leads(self: TentativeLine, seen: CopyView) -> bool:
        return seen.flags.process and not seen.undecided and not self._processing.ended

    def send(self: Outputs, ahead: Ahead, sent: Sequence[Sent]) -> None:
        self.outbox.send_tentative(ahead.number, sent)

    both = ExitStack()
    both.enter_context(mock.patch.object(TentativeLine, "_leads", leads))
    both.enter_context(mock.patch.object(Outputs, "takes_tentative", True))
    both.enter_context(mock.patch.object(Outputs, "send_tentative", send))
    return both


@method(Outbox, "send_tentative")
def marker_waits_for_tentative_frames(true: Callable[..., None], self: Outbox, batch: int, sent: Any) -> None:
    """They are counted like stable ones, of batches that come later."""
    for partition, frame in self._frames.encode(batch, sent, self.epoch, self._format(), FLAG_TENTATIVE):
        self.append(batch, partition, frame)


@method(RunningCopy, "_process")
def stable_batches_wait_for_the_line(true: Callable[..., None], self: RunningCopy, seen: CopyView) -> None:
    """While a copy works tentatively, no stable batch is processed."""
    if self._line._state.state is not State.FORKED:
        true(self, seen)


@method(InputPartition, "peek")
def watermark_held_by_who_is_out(true: Callable[..., Any], self: InputPartition, batch: int, absent: Any) -> Any:
    """A writer that is left out has no watermark, and the lowest one counts."""
    found = true(self, batch, absent)
    if found is not None and found.writers < len(self._writers):
        found = replace(found, watermark=NO_WATERMARK)
    return found


def fork_survives_a_jump() -> AbstractContextManager[object]:
    """The fork continues over a state that another copy's checkpoint has replaced.

    Nothing can come of this: a copy jumps only while it does not lead, and a line ends with the lead. test_tentative.py
    of the worker holds both ends, with the lead and with a void fork.
    """
    both = ExitStack()
    both.enter_context(mock.patch.object(RunningCopy, "jumped", _jumped))
    both.enter_context(
        mock.patch.object(ForkedTable, "void", property(lambda self: False, lambda self, void: None), create=True)
    )
    return both


def _jumped(self: RunningCopy, marker: Marker) -> None:
    self._processing.jump(marker)
    self._skipping.reached(marker)
    self.marked(marker)
