"""Where a drain ends: asked of Kafka once, compared with what is cut already, and then valid for ever.

Source: PROTOCOL 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import msgspec

from schemas import cuts
from schemas.cuts import Cut
from schemas.plans import Plan
from schemas.topics import Partition
from services.kernel.cuts import owned
from services.kernel.errors import Retriable
from services.kernel.planning.layout import task_name
from services.log.protocol import Log

LOOKED_AT = 512
"""Records before the end of the cut log."""


def ends_of_sources(log: Log, plan: Plan, cut_log: Partition) -> dict[str, dict[int, int]]:
    """End offset of each partition that each source task reads; one that has just appeared is read, too.

    Raises Retriable for an end below what is cut: whoever said so has fallen behind, and the rest would never come out.
    """
    cut = _reached(log, cut_log)  # before the ends are asked for: they lie at it or behind
    counts = {name: topic.partitions for name, topic in log.describe({s.topic for s in plan.sources}).items()}
    topics = {task_name(source.operator, i): source.topic for source in plan.sources for i in range(len(source.owners))}
    ends = {}
    for task, partitions in owned(plan, counts).items():
        found = log.offsets([Partition(topics[task], index) for index in partitions], "end")
        ends[task] = {partition.index: offset for partition, offset in found.items()}
        _compare(topics[task], ends[task], cut.get(task, {}))
    return ends


def _reached(log: Log, cut_log: Partition) -> Mapping[str, Mapping[int, int]]:
    """How far the newest cuts of each task reach, by partition. Also invalid ones: what they name was read."""
    (start,), (end,) = log.offsets([cut_log], "start").values(), log.offsets([cut_log], "end").values()
    reached: dict[str, dict[int, int]] = {}
    for message in log.scan(cut_log, max(start, end - LOOKED_AT)):
        with suppress(msgspec.DecodeError):
            record = cuts.decode(message.value() or b"")
            if isinstance(record, Cut):
                known = reached.setdefault(record.task, {})
                known |= {one.partition: max(one.stop, known.get(one.partition, 0)) for one in record.ranges}
    return reached


def _compare(topic: str, ends: Mapping[int, int], cut: Mapping[int, int]) -> None:
    for index, stop in cut.items():
        if (end := ends.get(index, 0)) < stop:
            raise Retriable(f"{Partition(topic, index)}: its end is said to be {end}, but it is cut up to {stop}")
