"""End offsets of a drain: read from Kafka once, compared with the cuts, and then valid for ever. Also the beginnings of
topics that were created again.

Source: PROTOCOL 3.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.schemas.cuts import Beginning, Cut
from holdfast.schemas.plans import Plan, SourcePlan
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.shares import owned
from holdfast.services.kernel.errors import Retriable
from holdfast.services.kernel.plans.layout import task_name
from holdfast.services.log.late.cut_logs import scan_cuts
from holdfast.services.log.protocol import Described, Log

LOOKED_AT = 512
"""Number of records before the end of the cut log that are read."""


def ends_of_sources(log: Log, plan: Plan, cut_log: Partition) -> dict[str, dict[int, int]]:
    """Returns the end offset of each partition that each source task reads, also of one that has just appeared.

    Missing partitions of a topic that is gone or was created again end at once. Raises Retriable if an end is below the
    last cut: the broker that reported it lags behind, and the records after it would never come out.
    """
    cut = _reached(log, cut_log)  # read before the ends, so that no end is below a cut
    described = log.describe({source.topic for source in plan.sources})
    counts = {name: topic.partitions for name, topic in described.items()}
    sources = {task_name(source.operator, i): source for source in plan.sources for i in range(len(source.owners))}
    ends = {}
    for task, partitions in owned(plan, counts).items():
        source = sources[task]
        another = _is_another(source, described.get(source.topic))
        there = [index for index in partitions if not another or index < counts.get(source.topic, 0)]
        found = log.offsets([Partition(source.topic, index) for index in there], "end")
        ends[task] = dict.fromkeys(partitions, 0) | {partition.index: offset for partition, offset in found.items()}
        if not another:
            _compare(source.topic, ends[task], cut.get(task, {}))
    return ends


def beginnings(log: Log, plan: Plan, start: str) -> dict[str, Beginning]:
    """Returns the offsets from which sources continue whose topics were created again since the job's admission.

    Args:
        start: earliest or latest.
    """
    described, begins = log.describe({source.topic for source in plan.sources}), {}
    for source in plan.sources:
        topic, tasks = described.get(source.topic), len(source.owners)
        if topic is None or not _is_another(source, topic):
            continue
        partitions = [Partition(source.topic, index) for index in range(topic.partitions)]
        found = log.offsets(partitions, "end" if start == "latest" else "start")
        first = {
            task_name(source.operator, index): {p.index: found[p] for p in partitions[index::tasks]}
            for index in range(tasks)
        }
        begins[source.operator] = Beginning(topic.id, first)
    return begins


def _is_another(source: SourcePlan, topic: Described | None) -> bool:
    return bool(source.topic_id) and (topic is None or topic.id != source.topic_id)


def _reached(log: Log, cut_log: Partition) -> Mapping[str, Mapping[int, int]]:
    """Returns the ends of the newest cuts of each task, by partition, also of invalid cuts: their records were read."""
    (start,), (end,) = log.offsets([cut_log], "start").values(), log.offsets([cut_log], "end").values()
    reached: dict[str, dict[int, int]] = {}
    for _, record in scan_cuts(log, cut_log, max(start, end - LOOKED_AT)):
        if isinstance(record, Cut):
            known = reached.setdefault(record.task, {})
            known |= {one.partition: max(one.stop, known.get(one.partition, 0)) for one in record.ranges}
    return reached


def _compare(topic: str, ends: Mapping[int, int], cut: Mapping[int, int]) -> None:
    for index, stop in cut.items():
        if (end := ends.get(index, 0)) < stop:
            raise Retriable(f"{Partition(topic, index)}: its end is said to be {end}, but it is cut up to {stop}")
