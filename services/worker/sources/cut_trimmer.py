"""Writes snapshots into a job's cut log, and trims the log up to a snapshot that no unit needs any more. With it the
commits of Spark and the rows for Spark are trimmed.

Source: PROTOCOL 3 and 7. The leader of the plan's first unit with source tasks does it for the job. Two leaders do no
harm: a second trim to the same or an older snapshot frees nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from holdfast.schemas import cuts
from holdfast.schemas.cuts import CutsSnapshot, Snapshot
from holdfast.schemas.plans import REAL_TIME, Plan
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.cuts import CutLog
from holdfast.services.kernel.plans.layout import commit_logs, spark_plan, task_name
from holdfast.services.log.late.cut_logs import commit_at, snapshot_at
from holdfast.services.log.protocol import Log
from holdfast.services.worker.core.cut_trims import CutTrims
from holdfast.services.worker.host.job import JobView
from holdfast.services.worker.host.surroundings import HostServices
from holdfast.services.worker.sources.rows import DECISIONS

LOOK_MS = 1_000


def commits_needed(plan: Plan, state: CutsSnapshot) -> dict[Partition, int]:
    """The offset of the last commit below the cuts of a snapshot, by commit log. That commit determines the next valid
    one.

    In real-time mode, the last row below the cuts, by lane, which determines the next valid row. Fences have a
    partition of their own there, with one record for each takeover, and are kept.
    """
    return {
        Partition(topic, r.partition): r.stop - 1
        for topic, operator in commit_logs(plan).items()
        for r in state.tasks[task_name(operator, 0)].ranges
        if r.stop > 1 and (spark_plan(plan, operator).mode != REAL_TIME or r.partition != DECISIONS)
    }


def rows_needed(log: Log, plan: Plan, commits: Mapping[Partition, int]) -> dict[Partition, int]:
    """First offsets of the rows for Spark that are still needed, by partition: those of the micro-batch of the first
    commit kept. A driver that takes over runs the last valid micro-batch again, for its state. Blocks."""
    found: dict[Partition, int] = {}
    for partition, at in commits.items():
        spark = spark_plan(plan, commit_logs(plan)[partition.topic])
        if written := [given.topic for given in spark.inputs if given.writers]:
            start = commit_at(log, partition, at).start
            found |= {
                Partition(topic, index): offset
                for topic in written
                for index, offset in start[topic].items()
                if offset > 0
            }
    return found


class CutTrimmer:
    """Trims the cut log for one copy.

    Args:
        unit: unit of the copy.
        log: the cut log as the copy reads it.
        leads: returns True if the copy leads.
    """

    def __init__(self, job: JobView, unit: str, log: CutLog, around: HostServices, leads: Callable[[], bool]) -> None:
        self._job = job
        self._log = log
        self._around = around
        self._leads = leads
        self._partition = Partition(job.topics.cuts, 0)
        self._units = job.reading_units
        horizon_ms = 1000 * job.plan.settings.replay_horizon_s
        self._core = CutTrims(self._partition, horizon_ms, len(log.tasks))
        self._does = not job.plan.settings.keep_cuts and job.cutting_units[:1] == (unit,)
        self._look_ms = around.clock_ms() + LOOK_MS
        self._asking = False

    def due_ms(self, now_ms: float) -> float:
        """The clock time of the next check."""
        return self._look_ms if self._does and self._leads() else math.inf

    def trim_if_due(self, now_ms: float) -> None:
        """Writes a snapshot and trims, if they are due."""
        if now_ms < self.due_ms(now_ms):
            return
        self._look_ms = now_ms + LOOK_MS
        time_ms, known = self._around.time_ms(), self._log.snapshots
        if self._core.snapshot_due(known, self._log.upto, time_ms):
            self._core.proposed(self._log.upto, time_ms)
            record = Snapshot(self._log.snapshot(), time_ms)
            self._around.appender.append(self._partition, cuts.encode(record))
        upto = self._core.upto(known, self._units, self._job.progress, time_ms)
        if upto is not None and not self._asking and self._may:
            self._asking = True
            self._around.restores.run(lambda: self._trim(upto), self._trimmed, f"trim {self._partition}", soon=False)

    @property
    def _may(self) -> bool:
        """True if the log may be trimmed. False while a unit is switched, because its primary returns to its former
        position; and after a record was skipped, because units read the log again from before it."""
        return self._partition not in self._job.skipped and not any(map(self._job.switched, self._units))

    def _trim(self, upto: int) -> int:
        """Trims up to a snapshot that is behind this position, with which later readers begin. Blocks."""
        state = snapshot_at(self._around.log, self._partition, upto)
        if state is None:
            return 0
        self._around.log.trim({self._partition: upto})
        commits = commits_needed(self._job.plan, state)
        if commits:  # behind the cuts: a driver begins with a commit that a snapshot names
            self._around.log.trim(commits)
            if rows := rows_needed(self._around.log, self._job.plan, commits):
                self._around.log.trim(rows)
        return upto

    def _trimmed(self, outcome: int | Exception) -> None:
        """Notes the outcome of a trim. The next check repeats a failed trim."""
        self._asking = False
        if not isinstance(outcome, Exception):
            self._core.trimmed = max(self._core.trimmed, outcome)
