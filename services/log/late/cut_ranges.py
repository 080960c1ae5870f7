"""Records of the users' topics in a batch, by the cut log.

Source: PROTOCOL 3. The records are reported to people when a batch ends every worker that processes it; no decision
    depends on the answer.
"""

from __future__ import annotations

from holdfast.schemas.cuts import Cut, Range
from holdfast.schemas.decided import Id
from holdfast.schemas.plans import Plan
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.plans.layout import task_name
from holdfast.services.log.late.cut_logs import scan_cuts
from holdfast.services.log.protocol import Log

STRETCHES = (256, 4_096, 65_536)
"""Records read before the end of the cut log; the next number follows if the batch is not among them. A batch that ends
its worker is one of the last.
"""


def records_of(log: Log, plan: Plan, cut_log: Partition, batch: int) -> str:
    """Text such as `flights[0] 120-179, flights[1] 88-140`, both ends included. Blocks.

    For a batch that is not cut yet, the text has the records with which it would begin: a record that ends its worker
    when it is decoded is never cut.
    """
    topics = {task_name(one.operator, index): one.topic for one in plan.sources for index in range(len(one.owners))}
    (start,), (end,) = log.offsets([cut_log], "start").values(), log.offsets([cut_log], "end").values()
    found: dict[str, Cut] = {}
    for stretch in STRETCHES:
        begin = max(start, end - stretch)
        found = _cuts_upto(log, cut_log, begin, batch)
        if begin == start or (len(found) == len(topics) and any(one.batch == batch for one in found.values())):
            break
    known = [(topics[task], cut) for task, cut in sorted(found.items()) if task in topics]
    texts = [_text(topic, one, cut.batch == batch) for topic, cut in known for one in cut.ranges]
    return ", ".join(filter(None, texts))


def _cuts_upto(log: Log, cut_log: Partition, begin: int, batch: int) -> dict[str, Cut]:
    """The last cut of each task up to the batch; a cut that does not follow the last cut of its task is skipped."""
    last: dict[str, Id] = {}
    found: dict[str, Cut] = {}
    for _, record in scan_cuts(log, cut_log, begin):
        if not isinstance(record, Cut) or record.batch > batch:
            continue
        if record.task not in last or record.prev == last[record.task]:
            last[record.task], found[record.task] = record.id, record
    return found


def _text(topic: str, one: Range, cut: bool) -> str:
    if not cut:
        return f"{topic}[{one.partition}] {one.stop}-"
    return f"{topic}[{one.partition}] {one.start}-{one.stop - 1}" if one.stop > one.start else ""
