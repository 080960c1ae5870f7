"""Between Faust and the core: agents feed it in the event loop, one thread carries out what blocks.

Source: PROTOCOL 1. Every replica is a consumer group of its own. It is fed what was there when it started, decided logs
from a snapshot and heartbeats from near their end on; its agents read what comes behind that, and then it acts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from holdfast.schemas.topics import Partition
from holdfast.services.controller.conductor import Conductor
from holdfast.services.controller.core.actions import Action
from holdfast.services.controller.core.events import Outcome
from holdfast.services.controller.drain_progress import DrainProgress, ProgressRecord
from holdfast.services.diagnostics.logger import get_logger
from holdfast.services.kernel.errors import Retriable
from holdfast.services.log.late.backlog import Backlog
from holdfast.services.log.protocol import Log

TICK_S = 0.1
LOOK_AGAIN_S = 1.0
"""Time between two checks if the rest of the backlog has been deleted."""

T = TypeVar("T")

_log = get_logger()


class Shell:
    """The shell between Faust and the conductor. All methods except `_block` and `_starts` run in the event loop."""

    def __init__(self, conductor: Conductor, log: Log, backlog: Backlog, time_ms: Callable[[], int]) -> None:
        self._conductor = conductor
        self._log = log
        self._backlog = backlog
        self._time_ms = time_ms
        self._kinds = conductor.topics()
        self._watching = DrainProgress(log)
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="conductor")
        self._wake = asyncio.Event()
        self._looked_s = time.monotonic()

    def feed(self, partition: Partition, offset: int, timestamp_ms: int, value: bytes | None) -> None:
        """Takes a record from before the start."""
        self._conductor.feed(self._kinds[partition], offset, timestamp_ms, value)

    def read(self, partition: Partition, offset: int, timestamp_ms: int, value: bytes | None) -> None:
        self.feed(partition, offset, timestamp_ms, value)
        self._backlog.read(partition, offset)
        self._begin()
        if self._conductor.waiting:
            self._wake.set()

    def passed(self, partition: Partition, offset: int) -> None:
        """Takes the offset of a record that does not count."""
        self._backlog.read(partition, offset)
        self._begin()

    async def tick(self) -> None:
        if not self._conductor.core.acting:
            await self._look_for_deleted()
            self._begin()
        self._conductor.tick(self._time_ms())
        self._wake.set()

    async def act(self) -> None:
        """Carries out actions for ever, one batch after the other."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            wanted = self._conductor.progress_topics()
            if not self._conductor.waiting and not wanted:
                continue
            outcomes, records = await self._elsewhere(partial(self._block, self._conductor.take(), wanted))
            self._conductor.settle(outcomes)
            for record in records:
                self._conductor.feed_progress(record.generation, record.offset, record.value)
            if self._conductor.waiting:
                self._wake.set()

    def close(self) -> None:
        """Abandons the actions under way: the next controller repeats them."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def _elsewhere(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def _begin(self) -> None:
        if not self._conductor.core.acting and not self._backlog.left:
            _log.info("caught up", jobs=len(self._conductor.core.jobs))
            self._conductor.caught_up()
            self._executor.submit(self._conductor.effects.prepare)

    def _block(
        self, taken: Sequence[Action], wanted: Mapping[Partition, str]
    ) -> tuple[list[Outcome], list[ProgressRecord]]:
        return self._conductor.carry_out(taken), self._watching.poll(wanted)

    async def _look_for_deleted(self) -> None:
        if time.monotonic() - self._looked_s < LOOK_AGAIN_S:
            return
        self._looked_s = time.monotonic()
        self._backlog.trimmed(await self._elsewhere(self._starts))

    def _starts(self) -> Mapping[Partition, int]:
        try:
            return self._log.offsets(self._backlog.left, "start")
        except Retriable:
            return {}
