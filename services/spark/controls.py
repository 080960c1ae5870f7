"""What the job's cut log asks of a driver: pause, resume, drain.

Source: PROTOCOL 3. A drain ends where the topic ends once nobody writes it for this job any more.
"""

from __future__ import annotations

from types import TracebackType

import msgspec

from schemas import cuts, progress
from schemas.cuts import Control
from schemas.plans import Plan, SparkPlan
from schemas.topics import JobTopics, Partition
from services.kernel.logs.cuts import of_plan
from services.log.protocol import Log

_MARK = b'"control"'


class Controls:
    """Follows the cut log of one job for one operator; to be closed."""

    def __init__(self, log: Log, plan: Plan, spark: SparkPlan, topics: JobTopics) -> None:
        self._log, self._spark, self._topics = log, spark, topics
        self._fold = of_plan(plan)
        self._ended: set[str] = set()
        self._reader = log.reader(f"controls-{plan.job}-{spark.operator}")
        self._reader.assign({Partition(topics.cuts, 0): 0})
        self.follow()

    def __enter__(self) -> Controls:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reader.close()

    @property
    def paused(self) -> bool:
        return self._fold.paused

    @property
    def draining(self) -> bool:
        return self._fold.ends is not None

    def follow(self) -> None:
        """Reads what has come."""
        for chunk in self._reader.poll(0):
            for message in chunk.messages:
                value = message.value() or b""
                if _MARK in value:
                    self._take(message.offset(), value)

    def _take(self, offset: int, value: bytes) -> None:
        try:
            record = cuts.decode(value)
        except msgspec.DecodeError:
            return
        if isinstance(record, Control):
            self._fold.read(offset, record)

    def all_arrived(self) -> bool:
        """Whether the units that write the operator's input have ended; a user's topic is taken as it stands."""
        if self._ended >= set(self._spark.writers):
            return True
        for message in self._log.scan(Partition(self._topics.progress, 0)):
            try:
                record = progress.decode(message.value() or b"")
            except msgspec.DecodeError:
                continue
            if record.ended:
                self._ended.add(record.unit)
        return self._ended >= set(self._spark.writers)
