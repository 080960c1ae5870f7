"""Deliberate bugs of tentative batches: decision 0169."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from holdfast.schemas.delivered import Delivered
from holdfast.schemas.frames import FLAG_TENTATIVE
from holdfast.services.kernel.dataflow import merging
from holdfast.services.kernel.state.forked import ForkedTable
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
        return found if true_out(self) else {one: {0} for one in self._of.intake.inputs}

    return mock.patch.multiple(TentativeLine, _out=out, _writers=writers)


@method(TentativeRows, "position")
def tentative_rows_move_the_position(
    true: Callable[..., Delivered], self: TentativeRows, batch: int, epoch: int, too_large: int
) -> Delivered:
    """A transaction with tentative rows says that the final rows of its batch are delivered."""
    return true(self, batch if self.under_way is None else self.under_way.number, epoch, too_large)
