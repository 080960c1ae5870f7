"""Rules where only sources retain what was sent: docs/decisions/0112; and failures that meet a drain.

Looked at along the trace, by what every frame, change and marker says. The belief of a process does not count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.schemas import heartbeats, progress
from holdfast.schemas.assignments import Change, job_key, unit_key
from holdfast.schemas.frames import Header, unpack
from holdfast.schemas.heartbeats import Heartbeat
from holdfast.schemas.plans import Plan
from holdfast.schemas.topics import JobTopics, Partition
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.decisions.buffering import UPSTREAM, buffering, rolls_back
from holdfast.services.decisions.checkpoint_log import CheckpointLog
from holdfast.services.kernel.plans.layout import senders, unit_layouts
from holdfast.services.kernel.plans.upstream import upstream
from holdfast.services.recovery.core.unit.table.signs import Sign
from tests.simulation.kafka.broker import Trimmed, Written
from tests.simulation.processes.jobs import NAME

if TYPE_CHECKING:
    from tests.simulation.faults.fault import Fault
    from tests.simulation.processes.cluster import Cluster

LOOK_US = 5_000
PATIENCE_MS = 4_000


class Retention:
    """Retention of one generation; `assigned` is the fold of the one who looks."""

    def __init__(self, plan: Plan, topics: JobTopics, assigned: Assigned) -> None:
        self._plan, self._assigned, self._key = plan, assigned, job_key(plan.job, plan.generation)
        self._senders = senders(unit_layouts(plan, topics))
        self._frames: dict[Partition, list[tuple[int, Header]]] = defaultdict(list)
        self._above = upstream(plan)
        self.on = buffering(plan) != UPSTREAM
        self._over: set[str] = set()

    def change(self, unit: str) -> Change | None:
        return self._assigned.of(unit_key(self._plan.job, self._plan.generation, unit))

    # -- what was sent ------------------------------------------------------------------------------------------------

    def sent(self, one: Written) -> None:
        self._frames[one.partition].append((one.offset, unpack(one.value)))

    def trimmed(self, trim: Trimmed, reader: str, log: CheckpointLog) -> Iterator[str]:
        """A frame that is gone is one that no reader needs, or one that its unit sends again.

        log: of the reader, as folded so far.
        """
        change = self.change(reader)
        behind = change is not None and change.line > log.line
        newest = change.back if change is not None and behind else log.last_b
        for offset, header in self._frames[trim.partition]:
            if offset >= trim.upto:
                break
            sender = self._senders[trim.partition].get(header.writer)
            if sender is None or header.batch <= self._needed_above(sender, newest):
                continue
            begun = self._assigned.begun(unit_key(self._plan.job, self._plan.generation, sender))
            if header.epoch >= begun:
                yield (
                    f"line trim: {trim.author} trimmed {trim.partition} to {trim.upto}, {reader} is at batch {newest} "
                    f"and needs batch {header.batch} of {sender}, which has gone back for the last time before"
                )
                return

    def _needed_above(self, sender: str, newest: int) -> int:
        """A reader that goes back joins the line on which its sender is without that going back once more, as long as
        no global checkpoint knows of that line, or the incident is open.
        """
        change, incident = self.change(sender), self._assigned.incident(self._key)
        if change is None or not rolls_back(self._plan, self._assigned):
            return newest
        known = self._assigned.checkpoint(self._key)
        since = change.line > (0 if known is None else known.line)
        within = incident is not None and not incident.over and 0 < incident.line <= change.line
        return min(newest, self._assigned.complete(self._key)) if since or within else newest

    def forget(self, trim: Trimmed) -> None:
        self._frames[trim.partition] = [one for one in self._frames[trim.partition] if one[0] >= trim.upto]

    # -- who goes back ------------------------------------------------------------------------------------------------

    def decided(self, before: dict[str, Change | None], complete: int, line: int) -> Iterator[str]:
        """Changes are valid. before: by unit, the one before. complete, line: of the newest global checkpoint then."""
        incident = self._assigned.incident(self._key)
        for unit, was in before.items():
            after = self.change(unit)
            if not self.on or after is None or after.line <= (0 if was is None else was.line):
                continue
            within = after.reason.startswith((Sign.TURN.value, Sign.TAKEN_ALONG.value)) and incident is not None
            for above in sorted(self._above[unit] - self._over):
                other = self.change(above)
                if other is None or not other.copies:
                    continue
                asked = other.back == complete and other.line > line
                joined = incident is not None and within and other.line >= incident.line
                if not asked and not joined:
                    yield (
                        f"taken along: {after.unit}#{after.epoch} begins again at batch {after.back}, and {above} "
                        f"does not send again what it has sent since"
                    )

    def beat(self, one: Written, logs: dict[str, CheckpointLog]) -> Iterator[str]:
        """No unit has ended before the newest global checkpoint has passed its last batch. logs: by unit."""
        record = heartbeats.decode(one.value)
        if not isinstance(record, Heartbeat):
            return
        for copy in record.copies:
            key, _, unit = copy.unit.rpartition("/")
            if key != self._key or copy.state != "ended" or unit in self._over:
                continue
            self._over.add(unit)
            last, complete = logs[unit], self._assigned.complete(self._key)
            always = self._assigned.policy(self._key) is None
            if self.on and always and rolls_back(self._plan, self._assigned) and complete < last.last_b:
                yield (
                    f"ended early: {copy.unit} has ended at batch {last.last_b}, and the newest global checkpoint is "
                    f"that of batch {complete}"
                )


# -- failures at the end of a drain -----------------------------------------------------------------------------------


def felled_at_the_end(cluster: Cluster, fault: Fault) -> None:
    """The job is drained; once some units have processed their end and others have not, all targets end at once.

    They are back one after the other, count ms apart. detail: how many units have.
    """
    cluster.submit({"command": "drain", "job": NAME})
    until_us = cluster.timeline.now_us + PATIENCE_MS * 1000
    wanted = int(fault.detail)

    def look() -> None:
        if cluster.healed_us is not None or cluster.timeline.now_us > until_us:
            return
        if len(_ended(cluster)) < wanted:
            cluster.timeline.after(LOOK_US, look)
            return
        for at, name in enumerate(fault.target):
            cluster.crash(name, fault.ms + at * fault.count, notice=True)

    look()


def _ended(cluster: Cluster) -> set[str]:
    found = set[str]()
    for one in cluster.broker.written:
        if one.partition.topic.endswith(".progress"):
            record = progress.decode(one.value)
            found |= {f"{one.partition.topic}/{record.unit}"} if record.ended else set()
    return found
