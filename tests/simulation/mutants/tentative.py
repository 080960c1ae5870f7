"""Deliberate bugs of tentative batches and rows: decisions 0169 and 0170."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from holdfast.schemas.dead_letters import DeadLetter, encode
from holdfast.schemas.delivered import Delivered
from holdfast.schemas.frames import FLAG_TENTATIVE
from holdfast.services.kernel.dataflow import merging
from holdfast.services.kernel.dataflow.merging import InputPartition
from holdfast.services.kernel.dataflow.open_rows import NEVER, OpenRows
from holdfast.services.kernel.state.forked import ForkedTable
from holdfast.services.log.protocol import Rows
from holdfast.services.planning import tentative as planning_of_tentative
from holdfast.services.worker.sinks import tentative_rows
from holdfast.services.worker.sinks.tentative_rows import TentativeRows
from holdfast.services.worker.unit.outbox import Outbox
from holdfast.services.worker.unit.tentative import TentativeLine
from tests.simulation.mutants.bug import method


def tentative_frame_taken_as_stable() -> AbstractContextManager[object]:
    """A reader does not look at the flag."""
    true = vars(merging)["unpack"]

    def unflagged(frame: bytes) -> Any:
        header = true(frame)
        return header._replace(flags=header.flags & ~FLAG_TENTATIVE)

    return mock.patch.object(merging, "unpack", unflagged)


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
