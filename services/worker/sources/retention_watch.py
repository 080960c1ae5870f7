"""Checks at intervals whether the users' topics keep the records that a recovery would read again; beside the loop,
with one request at a time.

Source: PROTOCOL 7, docs/decisions/0109.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from holdfast.schemas.checkpoints import Marker
from holdfast.schemas.cuts import CutsSnapshot
from holdfast.schemas.events import Event
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.policies import ALIGNED
from holdfast.services.decisions.shares import beginning_of
from holdfast.services.diagnostics.logger import get_logger
from holdfast.services.kernel.plans.layout import task_name
from holdfast.services.worker.core.retention import Extent, Keeps, Retention, Risk, wait_s
from holdfast.services.worker.host.job import JobView
from holdfast.services.worker.host.surroundings import HostServices
from holdfast.services.worker.sources.cutter import Cutter

LOOK_MS = 10_000.0
"""Time between two checks."""

_log = get_logger()


class Found(NamedTuple):
    """Kafka's answers about a topic.

    Attributes:
        config: settings of the topic.
        starts, ends: first and end offset, by partition.
        young: offset of the first record that is young enough, by partition; None if age does not matter.
    """

    config: Mapping[str, str]
    starts: Mapping[Partition, int]
    ends: Mapping[Partition, int]
    young: Mapping[Partition, int] | None


class RetentionWatch:
    """Watches the retention of one copy's source topics.

    Args:
        unit: unit of the copy.
        acked: returns the marker of the newest global checkpoint that the copy knows.
        leads: returns True if the copy leads.
        record_bytes: returns the mean size of a source's records.
    """

    def __init__(
        self,
        job: JobView,
        unit: str,
        cutter: Cutter,
        around: HostServices,
        acked: Callable[[], Marker | None],
        leads: Callable[[], bool],
        record_bytes: Callable[[str], float],
    ) -> None:
        self._job = job
        self._unit = unit
        self._cutter = cutter
        self._around = around
        self._acked = acked
        self._leads = leads
        self._record_bytes = record_bytes
        wait, users = wait_s(job.plan.settings.fault_tolerance), cutter.users_topics()
        self._topics = (
            {} if wait is None else {t: Retention(source, topic, wait) for t, (source, topic) in users.items()}
        )
        self._risks: dict[str, Risk] = {}
        self._asking = False
        self._look_ms = around.clock_ms() + LOOK_MS

    def due_ms(self, now_ms: float) -> float:
        """The clock time of the next check."""
        return math.inf if self._asking or not self._watches else self._look_ms

    def ask_if_due(self, now_ms: float) -> None:
        """Sends a request if it is due."""
        if now_ms < self.due_ms(now_ms):
            return
        self._asking = True
        self._look_ms = now_ms + LOOK_MS
        wanted = {task: list(self._needed(task)) for task in self._topics}
        since_ms = {
            task: None if one.young_ms is None else round(self._around.time_ms() - one.young_ms)
            for task, one in self._topics.items()
        }
        self._around.asks.run(lambda: self._ask(wanted, since_ms), self._answered, "retention")

    @property
    def text(self) -> str:
        """The topics that do not keep the records of a recovery, as text for people; empty if none."""
        return "; ".join(risk.text for risk in self._risks.values() if risk.text) if self._watches else ""

    def records(self) -> dict[str, int]:
        """The number of records that are deleted, or may be deleted too soon, by source of watched topics; from any
        thread."""
        found: dict[str, int] = {}
        for task, risk in list(self._risks.items()) if self._watches else ():
            source = self._topics[task].source
            found[source] = found.get(source, 0) + risk.records
        return found

    @property
    def _watches(self) -> bool:
        return bool(self._topics) and self._leads() and self._job.checkpoint.policy == ALIGNED

    def _needed(self, task: str) -> dict[Partition, int]:
        """Offsets from which a recovery would read: behind the newest global checkpoint, and from 0 for later
        partitions. Empty if the topic was replaced since that checkpoint, because its offsets have another meaning."""
        marker, one, log = self._acked(), self._topics[task], self._cutter.log
        known: CutsSnapshot = beginning_of(self._job.plan) if marker is None or marker.cuts is None else marker.cuts
        if one.source in log.replaced or known.topics.get(one.source, ())[-1:] != log.known(one.source)[-1:]:
            return {}
        then = {r.partition: r.stop for r in known.tasks[task].ranges}
        return {Partition(one.topic, r.partition): then.get(r.partition, 0) for r in log.task(task).ranges}

    def _ask(self, wanted: Mapping[str, list[Partition]], since_ms: Mapping[str, int | None]) -> dict[str, Found]:
        """Requests settings and offsets of the topics. Blocks."""
        log = self._around.log
        return {
            task: Found(
                log.config(self._topics[task].topic),
                log.offsets(partitions, "start"),
                log.offsets(partitions, "end"),
                None if (since := since_ms[task]) is None else log.offsets(partitions, since),
            )
            for task, partitions in wanted.items()
            if partitions
        }

    def _answered(self, outcome: Mapping[str, Found] | Exception) -> None:
        """Applies an answer. An error changes nothing; the next check asks again."""
        self._asking = False
        if isinstance(outcome, Exception):
            _log.info("retention not read", cause=str(outcome))
            return
        for task, found in outcome.items():
            self._take(task, found)

    def _take(self, task: str, found: Found) -> None:
        """Applies an answer for one topic. If the age limit has changed, the request is repeated, because the answer is
        for the former limit. Empty settings are ignored, because a broker without the topic may lag behind the others.
        """
        if not found.config:
            return
        one, known = self._topics[task], self._topics[task].keeps
        shortened = one.shortened(Keeps.of(found.config))
        if shortened and task == task_name(one.source, 0):
            self._publish("retention-shortened", f"topic {one.topic} of source {one.source}: {shortened}")
        if known != one.keeps:
            self._look_ms = -math.inf
            return
        before, needed = self._risks.get(task, Risk()), self._needed(task)
        extents = {
            p.index: Extent(at, found.starts[p], found.ends[p], None if found.young is None else found.young[p])
            for p, at in needed.items()
            if p in found.starts and p in found.ends
        }
        risk = self._risks[task] = one.judge(extents, self._record_bytes(one.source), self._around.clock_ms())
        if bool(risk.text) != bool(before.text):
            kind = "retention-short" if risk.text else "retention-suffices"
            self._publish(kind, risk.text or f"topic {one.topic} of source {one.source} keeps what a recovery needs")

    def _publish(self, kind: str, detail: str) -> None:
        job, now_ms = self._job.plan.job, self._around.time_ms()
        self._around.happened(Event(time_ms=now_ms, kind=kind, job=job, unit=self._unit, detail=detail))
