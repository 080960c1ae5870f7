"""Publishes tentative rows to the sinks' topics, and keeps track of published rows that are not closed yet.

A tentative batch has a transaction of its own, with the unit's transactional id and position record: fencing and
exactly-once hold as for final rows. Stable batches go first, and the first one drops every waiting tentative batch, so
a tentative row never follows the final row of its id. Records that close rows are part of the transaction of the stable
batch that makes them due. Source: MECHANISMS P14, decision 0170. The topic itself holds the open rows: the position
record names the offset at which they begin.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from holdfast.newest import share
from holdfast.schemas.checkpoints import Position
from holdfast.schemas.delivered import Delivered
from holdfast.schemas.plans import OperatorPlan
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.dataflow.open_rows import MAX_OPEN, NEVER, OpenRows
from holdfast.services.kernel.dataflow.sink_records import CLOSING, TENTATIVE, RowsOf
from holdfast.services.kernel.dataflow.unit import SinkRows
from holdfast.services.kernel.errors import InvalidRecord, PositionGone
from holdfast.services.log.protocol import Log, Message, Rows, Transactor
from holdfast.services.worker.sinks.fitting_rows import FittingRows
from holdfast.services.worker.sinks.portions import Batch

MAX_WAITING = 16
"""Most tentative batches that wait to be published; the line stops while there are more."""


class Ahead(NamedTuple):
    """The tentative rows of one batch.

    Attributes:
        number: number of the batch.
        sinks: rows by sink.
        fidelity: fidelity by query.
    """

    number: int
    sinks: Sequence[SinkRows]
    fidelity: Mapping[str, float]


class TentativeRows:
    """The tentative rows of one unit, while a copy holds its transactional id.

    Transactions run one at a time beside the loop; their changes apply when they are committed.

    Args:
        sinks: sink by query with tentative results.

    Attributes:
        happened: called with kind and detail of an event.
        last: newest published tentative batch.
        since: offsets at which the open rows begin.
        under_way: batch in the present transaction.
    """

    def __init__(self, log: Log, rows: FittingRows, unit: str, sinks: Mapping[str, OperatorPlan]) -> None:
        self._log = log
        self._rows = rows
        self._unit = unit
        self._sinks = sinks
        self.happened: Callable[[str, str], None] = lambda kind, detail: None
        self.last = 0
        self.since: tuple[Position, ...] = ()
        self._open = {query: OpenRows() for query in sinks}
        self._trial: tuple[tuple[Position, ...], dict[str, OpenRows]] | None = None
        self._waiting: deque[Ahead] = deque()
        self.under_way: Ahead | None = None

    def restore(self, position: Delivered) -> None:
        """Restores the open rows as of the last transaction. Blocks."""
        self.last = position.tentative
        self.since = position.since
        of = {query: RowsOf(self._rows.topics.job, self._rows.topics.generation, query) for query in self._sinks}
        for at in position.since:
            for message in self._written(Partition(at.topic, at.partition), at.offset):
                for query, ours in of.items():
                    self._restore(self._open[query], self._sinks[query], ours, message)
        for query, rows in self._open.items():
            self._rows.meter.tentative(query, rows, rows)

    def _written(self, partition: Partition, since: int) -> Iterator[Message]:
        try:
            yield from self._log.scan(partition, since)
        except PositionGone:  # retention has deleted some, or the topic was created again
            yield from self._log.scan(partition)

    def _restore(self, open: OpenRows, sink: OperatorPlan, ours: RowsOf, message: Message) -> None:
        key, headers = message.key(), message.headers()
        status = None if key is None else ours.status(headers)
        if key is None or status is None:
            return
        if status == CLOSING:
            open.withdraw([key])
        elif status != TENTATIVE:
            open.confirm([key])
        elif (watermark := ours.made_by(headers, self._unit)) is not None:
            open.publish([key], _until(sink, watermark), share(dict(headers or ()).get("fidelity", b"")))

    # -- what waits ---------------------------------------------------------------------------------------------------

    @property
    def full(self) -> bool:
        """True if no batch should be offered now."""
        return len(self._waiting) >= MAX_WAITING or self.open >= MAX_OPEN

    @property
    def open(self) -> int:
        """The number of ids whose newest row is tentative."""
        return sum(map(len, self._open.values()))

    @property
    def waits(self) -> bool:
        return bool(self._waiting)

    def offer(self, ahead: Ahead) -> None:
        """Queues a batch. Rows of the batch that any copy has published already stay."""
        if ahead.number > self.last and ahead.sinks:
            self._waiting.append(ahead)

    def overtaken(self) -> None:
        """Drops waiting batches, because newer stable batches may have replaced their rows."""
        self._waiting.clear()

    def take(self) -> None:
        """Starts the first waiting batch."""
        self.under_way = self._waiting.popleft()

    def closes(self, batch: Batch) -> bool:
        """True if a stable batch without rows must still be delivered, because it closes ids that have no final row."""
        if not self._sinks:
            return False
        coming = () if self.under_way is None else self.under_way.sinks
        soonest = {sink.task.operator.sink.query: _until(sink.task.operator, sink.watermark) for sink in coming}
        return any(
            watermark >= min(self._open[query].soonest, soonest.get(query, NEVER))
            for query, watermark in batch.passed.items()
        )

    # -- transactions, beside the loop --------------------------------------------------------------------------------

    def _made(self) -> list[Rows]:
        """The records of the batch under way."""
        assert self.under_way is not None
        number, fidelity = self.under_way.number, self.under_way.fidelity
        if not self.open:  # counts begin with the first open row
            self._open = {query: OpenRows() for query in self._sinks}
        since, open = self.since if self.open else self._ends(), self._copies()
        found = []
        for sink in self.under_way.sinks:
            query = sink.task.operator.sink.query
            kept = fidelity.get(query, 0.0)
            made = self._rows.tentative(sink, number, kept, self._unit)
            open[query].publish(_ids(made), _until(sink.task.operator, sink.watermark), kept)
            found.append(made)
        self._trial = since, open
        return found

    def commit(self, transactor: Transactor, position: Callable[[], Rows]) -> None:
        """Commits the batch under way. `position` makes its position record."""
        rows = self._made()
        try:
            transactor.commit([*rows, position()])
        except InvalidRecord as error:
            raise self._rows.too_large(error, sorted({one.topic for one in rows})) from error

    def closing(self, batches: Sequence[Batch], rows: Sequence[Rows]) -> list[Rows]:
        """The records that close the rows that stable batches make due. `rows` are the final rows of these batches."""
        if not self.open:
            return []
        open, found = self._copies(), []
        for one in rows:
            query = dict(one.headers or ()).get("query", b"").decode()
            if query in open:
                open[query].confirm(_ids(one))
        for batch in batches:
            for query, watermark in batch.passed.items():
                if gone := open[query].due(watermark):
                    found.append(self._rows.closing(self._sinks[query], batch.number, gone))
        self._trial = (self.since if any(map(len, open.values())) else ()), open
        return found

    def position(self, batch: int, epoch: int, too_large: int) -> Delivered:
        """The position record of the transaction."""
        last = self.last if self.under_way is None else self.under_way.number
        since = self.since if self._trial is None else self._trial[0]
        return Delivered(self._unit, batch, epoch, too_large, tentative=last, since=since)

    def committed(self) -> None:
        """Applies the changes of the committed transaction."""
        if self._trial is not None:
            before = self._open
            (self.since, self._open), self._trial = self._trial, None
            self._tell(before)
        if self.under_way is not None:
            self.last = self.under_way.number
            self.under_way = None

    def _tell(self, before: Mapping[str, OpenRows]) -> None:
        """Counts rows, and publishes an event for the first tentative rows of a query and when all rows are closed.

        Args:
            before: open rows before the transaction.
        """
        for query, rows in self._open.items():
            self._rows.meter.tentative(query, rows, before[query])
            if rows.published and not before[query].published:
                self.happened("tentative-begins", f"{query}: fidelity {rows.fidelity:.0%}")
        if any(map(len, before.values())) and not self.open:
            counts = [
                f"{query}: {rows.replaced} replaced, {rows.withdrawn} withdrawn"
                for query, rows in self._open.items()
                if rows.published
            ]
            self.happened("corrected", "; ".join(counts))

    def _copies(self) -> dict[str, OpenRows]:
        return {query: open.copy() for query, open in self._open.items()}

    def _ends(self) -> tuple[Position, ...]:
        """The end offsets of the topics, behind which later open rows are."""
        topics = {sink.sink.topic for sink in self._sinks.values()}
        present = self._log.topics(topics)
        partitions = [Partition(topic, index) for topic in sorted(topics) for index in range(present.get(topic, 0))]
        ends = self._log.offsets(partitions, "end")
        return tuple(Position(one.topic, one.index, offset) for one, offset in sorted(ends.items()))


def _until(sink: OperatorPlan, watermark: int) -> int:
    """The watermark that takes a row back, of a batch with this one. A running total is never taken back: its batch
    gives a final row of it.
    """
    return NEVER if sink.sink.updates else watermark


def _ids(rows: Rows) -> list[bytes]:
    return [key for key in rows.keys or () if key is not None]
