"""A history for a reader: faults, what processes said, and what was decided, in the order of time."""

from __future__ import annotations

from holdfast.schemas import assignments, events
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.recovery.core.unit.table.switching import story_line
from tests.simulation.kafka.names import TOPICS
from tests.simulation.processes.cluster import Cluster


def tell(cluster: Cluster) -> list[str]:
    """Lines `seconds what`."""
    lines = list(cluster.story.lines)
    assigned = Assigned()
    for written in cluster.broker.written:
        if written.partition.topic == TOPICS.events:
            event = events.decode(written.value)
            if event.kind not in ("decided", "placed"):
                lines.append((written.time_us, _event(event)))
        elif written.partition.topic == TOPICS.assignments:
            record = assignments.decode(written.value)
            before = assigned.units()
            valid = assigned.read(record)
            lines += [
                (written.time_us, f"{record.author} decides {story_line(before.get(change.unit), change)}")
                for change in valid
            ]
    return [f"{time_us / 1_000_000:9.4f} {what}" for time_us, what in sorted(lines, key=lambda line: line[0])]


def _event(event: events.Event) -> str:
    what = f"{event.worker} {event.kind} {event.unit}"
    return f"{what} #{event.epoch} {event.detail}".rstrip() if event.epoch >= 0 else f"{what} {event.detail}".rstrip()
