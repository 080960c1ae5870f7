"""Stages the files of a unit's sinks before a transaction, and publishes them after it.

The transaction in Kafka decides: its position record names the staged files, so files and position are committed
together. A copy that takes over reads the position and publishes the files in it. Source: PROTOCOL 9,
docs/decisions/0241.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import polars as pl
from msgspec import structs

from holdfast.schemas.delivered import Delivered
from holdfast.schemas.topics import JobTopics
from holdfast.services.kernel.errors import HoldfastError, Refused, Retriable
from holdfast.services.kernel.plans.layout import TaskLayout, UnitLayout
from holdfast.services.worker.sinks import folders
from holdfast.services.worker.sinks.folder_names import split_unnamed
from holdfast.services.worker.sinks.meter import Meter
from holdfast.services.worker.sinks.parquet_folder import ParquetFolder
from holdfast.services.worker.sinks.portions import Batch

PAUSE_S = 1.0
"""Pause before the outputs are opened again after an error of the folder."""


class StagedFiles:
    """The files of one delivery. Blocks.

    Attributes:
        staged: token of the files staged for the transaction under way, by sink task.

    Args:
        tasks: sink tasks with a folder.
        owner: job and generation.
        pause: waits for a number of seconds.
    """

    def __init__(
        self, tasks: Sequence[TaskLayout] = (), owner: str = "", pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._tasks = {task.name: task.operator for task in tasks}
        self._owner = owner
        self._pause = pause
        self._folders: dict[str, ParquetFolder] = {}
        self.staged: dict[str, str] = {}

    @staticmethod
    def of(layout: UnitLayout, topics: JobTopics) -> StagedFiles:
        return StagedFiles([one for one in layout.tasks if one.operator.folder], f"{topics.job}.{topics.generation}")

    def open(self, staged: Mapping[str, str]) -> None:
        """Publishes the files in the last position, and removes staged files that are not committed.

        Raises:
            NoFolder: this process may not write there, or the folder is not the one used before.
            Retriable: the folder cannot be used now.
        """
        for name, sink in self._tasks.items():
            self._folders[name] = self._folder(name)
            try:
                self._folders[name].finish(staged.get(name, ""))
            except OSError as error:
                self._pause(PAUSE_S)
                raise Retriable(f"folder {sink.folder}: {error}") from error

    def stage(self, batches: Sequence[Batch], meter: Meter) -> int:
        """Stages the rows of the batches and returns their number. Raises Refused if the folder cannot be used."""
        self.staged = {}
        if not self._tasks:
            return 0
        found = dict[str, list[pl.DataFrame]]()
        for batch in batches:
            for sink in batch.sinks:
                if sink.task.name in self._tasks and (rows := split_unnamed(sink, batch.number)[0].rows).height:
                    found.setdefault(sink.task.name, []).append(rows)
        first, last = batches[0].number, batches[-1].number
        token = f"{last}-{secrets.token_hex(8)}"
        for name, frames in found.items():
            with self._refusing(name):
                size = self._folders[name].stage(token, first, last, frames)
            meter.wrote_bytes(self._tasks[name].name, size)
            self.staged[name] = token
        return sum(one.height for frames in found.values() for one in frames)

    def publish(self) -> None:
        """Publishes the staged files after the commit. Raises Refused; the next opening publishes the rest."""
        for name, token in self.staged.items():
            with self._refusing(name):
                self._folders[name].publish(token)
        self.staged = {}

    def named_in(self, position: Delivered) -> Delivered:
        """The position with the files staged for its transaction."""
        return structs.replace(position, staged=self.staged)

    def leave(self, last: Callable[[], Delivered | None]) -> None:
        """Publishes the files in the last position, because a cancelled job has no later copy that would. All other
        staged files stay: another copy may be staging them.

        Args:
            last: reads the last position of the unit.
        """
        with suppress(HoldfastError, OSError):  # the topics of the job may be gone; the next opening moves the files
            position = last()
            for name, token in ({} if position is None else position.staged).items():
                if name in self._tasks:
                    self._folder(name).publish(token)

    def _folder(self, name: str) -> ParquetFolder:
        """The folder of a sink task. Raises NoFolder."""
        sink = self._tasks[name]
        by = () if sink.sink.parquet is None else sink.sink.parquet.partition_by
        return ParquetFolder(folders.checked(sink.folder), f"{self._owner}.{name}", sink.fields, by)

    @contextmanager
    def _refusing(self, task: str) -> Iterator[None]:
        try:
            yield
        except (OSError, pl.exceptions.ComputeError) as error:
            raise Refused(f"folder {self._tasks[task].folder}: {error}") from error

    @property
    def places(self) -> list[str]:
        return sorted({one.folder for one in self._tasks.values()})
