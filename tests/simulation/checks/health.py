"""Invariant 8: no healthy query ever stops, whatever has no place.

A unit is healthy while its leader's heartbeats say that it runs, and those of all units whose frames it needs. Such a
one processes batch after batch, as long as its job is neither paused nor at its end. Only where nothing else is wrong
but that processes are gone: then heartbeats say all that there is to know.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from holdfast.schemas import assignments, cuts, heartbeats, progress
from holdfast.schemas.assignments import unit_key
from holdfast.schemas.cuts import Control
from holdfast.schemas.heartbeats import Heartbeat
from holdfast.schemas.plans import Plan
from holdfast.schemas.topics import JobTopics
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.kernel.plans.layout import below, unit_layouts
from tests.simulation.kafka.broker import Written
from tests.simulation.kafka.names import TOPICS
from tests.simulation.processes.jobs import NAME

BEATS_WITHIN_US = 800_000
STOPPED_US = 7_000_000
"""The longest that a source without records takes to cut, and what it takes to see that a unit has no place."""


class _Health:
    """A job, as far as the trace was read.

    healthy: since when each unit has been; moved: when it last processed a batch.
    """

    def __init__(self, plan: Plan, topics: JobTopics) -> None:
        layouts = unit_layouts(plan, topics)
        self._names = {unit_key(NAME, plan.generation, unit): unit for unit in layouts}
        feeds = below(layouts)
        self._needs = {unit: {unit, *(other for other in layouts if unit in feeds[other])} for unit in layouts}
        self._topics = topics
        self._assigned = Assigned()
        self._healthy = dict.fromkeys(layouts, 0)
        self._beat = dict.fromkeys(layouts, -BEATS_WITHIN_US)
        self._moved = dict.fromkeys(layouts, 0)
        self._processed = dict.fromkeys(layouts, 0)
        self._rests = False

    def read(self, one: Written) -> Iterator[str]:
        topic = one.partition.topic
        if topic == TOPICS.assignments:
            self._assigned.read(assignments.decode(one.value))
        elif topic == self._topics.cuts:
            self._cut(one)
        elif topic == self._topics.progress:
            known = progress.decode(one.value)
            if known.unit in self._moved and (known.processed > self._processed[known.unit] or known.ended):
                self._processed[known.unit], self._moved[known.unit] = known.processed, one.time_us
        elif topic == TOPICS.heartbeats and isinstance(beat := heartbeats.decode(one.value), Heartbeat):
            self._hear(beat, one.time_us)
            yield from self._judge(one.time_us)

    def _cut(self, one: Written) -> None:
        try:
            record = cuts.decode(one.value)
        except msgspec.DecodeError:
            return
        if isinstance(record, Control):
            self._rests = record.kind != "resume"
            self._moved = dict.fromkeys(self._moved, one.time_us)

    def _hear(self, beat: Heartbeat, now_us: int) -> None:
        for copy in beat.copies:
            unit, change = self._names.get(copy.unit), self._assigned.of(copy.unit)
            leader = None if change is None else change.committer
            if unit is None or leader is None or leader.incarnation != beat.incarnation or copy.state != "running":
                continue
            if now_us - self._beat[unit] > BEATS_WITHIN_US:
                self._healthy[unit] = now_us
            self._beat[unit] = now_us

    def _judge(self, now_us: int) -> Iterator[str]:
        for unit, needed in self._needs.items():
            healthy = all(now_us - self._beat[one] <= BEATS_WITHIN_US for one in needed)
            since_us = max(self._moved[unit], *(self._healthy[one] for one in needed))
            if healthy and not self._rests and now_us - since_us > STOPPED_US:
                self._moved[unit] = now_us
                yield f"stopped: {unit} and all that it needs run, and it stands at batch {self._processed[unit]}"


def check(written: list[Written], plan: Plan, topics: JobTopics) -> Iterator[str]:
    health = _Health(plan, topics)
    for one in written:
        yield from health.read(one)
