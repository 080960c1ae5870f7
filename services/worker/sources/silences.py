"""Finds idle partitions of the users' topics: partitions that are read to a confirmed end and have been silent for a
while.

Source: PROTOCOL 3. core/idle_partitions.py defines silence.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from holdfast.schemas.cuts import LOADED_WATERMARK, NO_WATERMARK
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.cuts import CutLog
from holdfast.services.kernel.dataflow.last_watermark import closing_us
from holdfast.services.kernel.dataflow.watermark import followed
from holdfast.services.kernel.plans.layout import clocked
from holdfast.services.worker.core.idle_partitions import ASK_MS, IdlePartitions, Question
from holdfast.services.worker.host.job import JobView
from holdfast.services.worker.host.surroundings import HostServices
from holdfast.services.worker.sources.feed import Feed
from holdfast.services.worker.sources.rows import RowsFeed


class Silences:
    """The silences of one copy's feeds. `tables` holds the source tasks of tables."""

    def __init__(self, job: JobView, log: CutLog, tables: Collection[str], around: HostServices) -> None:
        self._job = job
        self._log = log
        self._tables = tables
        self._around = around
        self._asking = set[str]()
        self._clocked = clocked(job.plan)
        self._ask_ms: dict[str, float] = {}

    def settled(self, feed: Feed, now_ms: float) -> bool:
        """True if the passing of time changes nothing: no code waits for a time of day, no table is loading, and no
        watermark waits for the end of a silence."""
        if self._clocked or self._log.loaded(self._tables) is None:
            return False
        if feed.idling is None:
            return not isinstance(feed, RowsFeed)  # the lanes of rows become idle by the clock
        name, standings = feed.task.name, feed.standings()
        if feed.idling.watermark(standings) > self._log.task(name).watermark:
            return False
        return not feed.idling.waits(standings, *self._levels(name, feed.idling), now_ms)

    def ask(self, feed: Feed, now_ms: float) -> None:
        """Asks Kafka for the ends of partitions that may be idle, because an end seen before a leader went away may be
        wrong."""
        name = feed.task.name
        if feed.idling is None or name in self._asking or now_ms < self._ask_ms.get(name, -math.inf):
            return
        self._ask_ms[name] = now_ms + ASK_MS
        idling = feed.idling
        question = idling.question(feed.standings(), *self._levels(name, idling), now_ms)
        if question is None:
            return
        assert feed.task.source is not None
        topic, log = feed.task.source.topic, self._around.log
        partitions = [Partition(topic, index) for index in question.partitions]
        self._asking.add(name)
        self._around.asks.run(lambda: log.offsets(partitions, "end"), lambda ends: self._answered(feed, question, ends))

    def _answered(self, feed: Feed, question: Question, ends: Mapping[Partition, int] | Exception) -> None:
        """Applies an answer. A partition without an answer is not known to be at its end."""
        self._asking.discard(feed.task.name)
        if feed.idling is not None and not isinstance(ends, Exception):
            found = {partition.index: end for partition, end in ends.items()}
            feed.idling.answered(question, found, feed.standings())

    def _levels(self, name: str, idling: IdlePartitions) -> tuple[int, int]:
        """The watermark that the task follows when it is idle, and the watermark that would close everything open."""
        tasks = self._log.tasks
        others = followed(state for task, state in tasks.items() if task != name)
        if idling.close_after_ms is None:
            return others, NO_WATERMARK
        times = (r.newest_us for task, state in tasks.items() if task not in self._tables for r in state.ranges)
        newest = max((time for time in times if time is not None and time < LOADED_WATERMARK), default=None)
        closing = NO_WATERMARK if newest is None else closing_us(self._job.plan.operators, newest)
        return others, closing if closing > tasks[name].watermark else NO_WATERMARK
