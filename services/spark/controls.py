"""The controls of a job for the leader of a Spark unit: run, pause, drain; and the end of its input.

Source: PROTOCOL 3. A drain ends at the topic's end when no unit of this job writes the topic any more.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from holdfast.schemas import cuts, progress
from holdfast.schemas.cuts import Control
from holdfast.schemas.plans import Plan, SparkPlan
from holdfast.schemas.topics import JobTopics, Partition
from holdfast.services.decisions.cuts import of_plan
from holdfast.services.kernel.errors import PositionGone, Retriable
from holdfast.services.log.late.cut_logs import cuts_base
from holdfast.services.log.protocol import Log
from holdfast.services.spark.core.lifecycle import Goal

_MARK = b'"control"'


class Controls:
    """Reads the cut log and the progress of one job for one operator. Must be closed."""

    def __init__(self, log: Log, plan: Plan, spark: SparkPlan, topics: JobTopics) -> None:
        self._writers = set(spark.every_writer)
        self._log = log
        self._plan = plan
        self._fold = of_plan(plan)
        self._ended: set[str] = set()
        self._cuts = Partition(topics.cuts, 0)
        self._progress = Partition(topics.progress, 0)
        self._reader = log.reader(f"controls-{plan.job}-{spark.operator}")
        if self._writers:
            self._reader.assign({self._progress: 0})
        self._begun = False

    @property
    def asked(self) -> Goal:
        if self._fold.ends is not None:
            return Goal.DRAIN
        return Goal.PAUSE if self._fold.paused else Goal.RUN

    @property
    def input_ended(self) -> bool:
        """True if the units that write the operator's input have ended; always true for a user's topic."""
        return self._ended >= self._writers

    def follow(self) -> None:
        """Reads new records. A trimmed cut log is read from a snapshot, which holds the controls."""
        with suppress(PositionGone, Retriable):
            if not self._begun:
                base = cuts_base(self._log, self._plan, self._cuts)
                self._fold = of_plan(self._plan, base)
                self._begun = True
                self._reader.assign({self._cuts: base.upto})
        try:
            chunks = self._reader.poll(0)
        except PositionGone:
            self._begun = False
            return
        for chunk in chunks:
            for message in chunk.messages:
                value = message.value() or b""
                if chunk.partition == self._progress:
                    self._take_progress(value)
                elif _MARK in value:
                    self._take_control(message.offset(), value)

    def close(self) -> None:
        self._reader.close()

    def _take_control(self, offset: int, value: bytes) -> None:
        try:
            record = cuts.decode(value)
        except msgspec.DecodeError:
            return
        if isinstance(record, Control):
            self._fold.read(offset, record)

    def _take_progress(self, value: bytes) -> None:
        try:
            record = progress.decode(value)
        except msgspec.DecodeError:
            return
        if record.ended:
            self._ended.add(record.unit)
