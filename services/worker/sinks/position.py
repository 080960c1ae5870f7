"""Reads the last delivered batch of a unit, from its last plausible position record.

Source: PROTOCOL 9. A forged position ahead of every batch would hold back all rows until that batch. So a position far
ahead of the unit's known progress is checked against the cut log. Positions only grow, and a repeated record of a unit
keeps its seal, so the highest position is valid (docs/decisions/0123).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import pairwise

import msgspec

from holdfast.schemas import delivered
from holdfast.schemas.cuts import Cut, Snapshot
from holdfast.schemas.decided import Id
from holdfast.schemas.delivered import Delivered
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.cut_snapshots import newest_in
from holdfast.services.log.late.cut_logs import scan_cuts
from holdfast.services.log.protocol import Log, Message
from holdfast.services.worker.core.cut_rhythm import MAX_LEAD_BATCHES

FIRST_STRETCH = 256


class Positions:
    """Reads the positions of one unit. Blocks.

    Args:
        partition: partition of the topic of positions.
        cut_log: cut log of the job.
        skipped: offsets of records to skip.
        done: returns the last batch of the copy.
        refuse: called with each record that is not a position of the unit.
        first: batch before the job's first one.
    """

    def __init__(
        self,
        log: Log,
        unit: str,
        partition: Partition,
        cut_log: Partition,
        skipped: Collection[int],
        done: Callable[[], int],
        refuse: Callable[[Partition, int, object], None],
        first: int = 0,
    ) -> None:
        self._log = log
        self._unit = unit
        self._partition = partition
        self._cut_log = cut_log
        self._skipped = skipped
        self._done = done
        self._refuse = refuse
        self._first = first

    def last(self) -> Delivered | None:
        """The last position; None if the unit has delivered nothing. Raises Torn, Retriable."""
        tail = self._log.tail(self._partition, settled=True)
        if not tail:
            return None
        found = [self._believed(message) for message in tail]
        known = [one for one in found if one is not None]
        if len(known) == len(found) and all(one.order < later.order for one, later in pairwise(known)):
            return known[-1]
        return self._highest()

    def _highest(self) -> Delivered | None:
        """The highest position of all records, for a partition with foreign records. Compaction leaves few records."""
        found = [one for message in self._log.scan(self._partition) if (one := self._believed(message)) is not None]
        return max(found, key=lambda one: one.order, default=None)

    def _believed(self, message: Message) -> Delivered | None:
        if message.offset() in self._skipped:
            return None
        try:
            position = delivered.decode(message.value() or b"")
        except msgspec.DecodeError as error:
            self._refuse(self._partition, message.offset(), error)
            return None
        if position.unit != self._unit:
            self._refuse(self._partition, message.offset(), f"the position of {position.unit}, not of {self._unit}")
            return None
        if position.batch > self._done() + MAX_LEAD_BATCHES and position.batch > (
            newest := newest_cut(self._log, self._cut_log, self._first)
        ):
            cause = f"position {position.batch} is ahead of every batch: {newest} is cut"
            self._refuse(self._partition, message.offset(), cause)
            return None
        return position


def newest_cut(log: Log, cut_log: Partition, first: int = 0) -> int:
    """The highest batch of a cut that follows another cut; reads ever larger parts from the end of the log.

    No unit has processed, acknowledged or delivered a later batch. If the log is trimmed up to its last cuts, the
    snapshot at its start gives the batch. `first` is the batch before the job's first one.
    """
    start, end = log.offsets([cut_log], "start")[cut_log], log.offsets([cut_log], "end")[cut_log]
    stretch = FIRST_STRETCH
    while True:
        begin = max(start, end - stretch)
        newest = _newest_of(log, cut_log, begin, first, trimmed=begin == start > 0)
        if newest or begin == start:
            return max(newest, first)
        stretch *= 4


def _newest_of(log: Log, partition: Partition, begin: int, first: int, *, trimmed: bool) -> int:
    """The highest batch in the log from `begin` on; 0 if none. `trimmed` is True if the log begins there."""
    batches: dict[Id, int] = {}
    newest = 0
    for offset, record in scan_cuts(log, partition, begin):
        if isinstance(record, Cut):
            batches[record.id] = record.batch
            follows = record.batch == first + 1 if record.prev is None else batches.get(record.prev) == record.batch - 1
            newest = max(newest, record.batch) if follows else newest
        elif isinstance(record, Snapshot) and trimmed and begin <= record.state.upto <= offset:
            newest, trimmed = max(newest, newest_in(record.state)), False
    return newest
