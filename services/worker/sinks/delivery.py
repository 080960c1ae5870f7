"""Delivers sink rows and dead letters of a unit in transactions that also hold its position.

Source: PROTOCOL 9. While a transaction is under way, later batches gather for the next one.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Any

from holdfast.schemas.delivered import Delivered
from holdfast.schemas.delivered import encode as encode_delivered
from holdfast.schemas.plans import OperatorPlan
from holdfast.schemas.topics import JobTopics, Partition
from holdfast.services.hosting.blocking import Blocking, Call, Done
from holdfast.services.kernel.errors import Awaited, HoldfastError, Indefinite, InvalidRecord, Refused, Retriable
from holdfast.services.log.protocol import Log, Rows, Transactor
from holdfast.services.worker.sinks.fitting import FittingRows
from holdfast.services.worker.sinks.meter import Meter
from holdfast.services.worker.sinks.outside_kafka import OutsideKafka
from holdfast.services.worker.sinks.portions import Batch, Portion, topics_of
from holdfast.services.worker.sinks.position import Positions
from holdfast.services.worker.sinks.refusals import Refusals, gone
from holdfast.services.worker.sinks.tentative_rows import Ahead, TentativeRows

MAX_WAITING_BATCHES = 64
MAX_GATHERED_BATCHES, MAX_GATHERED_BYTES = 8_192, 32 * 1024 * 1024
"""Limits of the batches that wait for the next transaction; at a limit the transaction starts early."""
FIRST_LOOK_MS, LAST_LOOK_MS = 250.0, 5_000.0
"""First and longest time between two checks whether a place for rows, a topic or a table, exists again."""


class Delivery:
    """Delivers for one copy. Passes every outcome other than success to `failed`, once. NoDelivery replaces it while
    the outputs are closed.

    Args:
        unit: unit named in the position record. partition: partition of the topic of positions.
        positions: reads the last position of the unit.
        failed: called with Fenced, Indefinite, Retriable or another error.
        meter: measures the costs of transactions.
        dead_letters: True if rows too large for their topic become dead letters; otherwise InvalidRecord.
        interval_ms: time for which rows gather between two transactions; 0 for none.
        portion: limit of a transaction, kept from an earlier delivery.
        refusals: knowledge of failed transactions, kept from an earlier delivery.
        tentative: sinks of queries with tentative results.
        outside: sinks that write files or tables.
    """

    takes_rows = True
    """True if rows can be delivered, or if the unit never has any."""

    def __init__(
        self,
        log: Log,
        blocking: Blocking,
        topics: JobTopics,
        unit: str,
        partition: int,
        positions: Positions,
        failed: Callable[[Exception], None],
        meter: Meter,
        dead_letters: bool = True,
        interval_ms: int = 0,
        clock_ms: Callable[[], float] = lambda: 0.0,
        portion: Portion | None = None,
        refusals: Refusals | None = None,
        tentative: Mapping[str, OperatorPlan] = MappingProxyType({}),
        outside: OutsideKafka | None = None,
    ) -> None:
        self._log, self._blocking, self._topics, self._unit = log, blocking, topics, unit
        self._outside, self._position = outside or OutsideKafka(), Partition(topics.delivered, partition)
        self._positions, self._failed = positions, failed
        self._meter, self._portion = meter, portion or Portion()
        self._refusals = refusals or Refusals()
        self._refused: Refused | None = None
        self._rows = FittingRows(log, topics, meter, self._refusals, dead_letters=dead_letters)
        self.ahead = TentativeRows(log, self._rows, unit, tentative)
        self._transactor: Transactor | None = None
        self._ready: Transactor | None = None
        self._interval_ms, self._clock_ms = interval_ms, clock_ms
        self._began_ms, self._bytes, self._upto, self._hurried = -math.inf, 0, 0, False
        self._waiting: deque[Batch] = deque()
        self._under_way: list[Batch] = []
        self._closed, self._looking, self._patience_ms = False, False, FIRST_LOOK_MS
        self.waits, self.again_ms, self.committed_ms = "", math.inf, 0.0
        self.epoch = self.delivered = self.too_large = self.transactions = self.rows = 0

    def prepare(self) -> None:
        """Connects and reads the position once, so that `open` finds its connections ready."""
        self._run(self._prepare, self._prepared)

    def open(self, opened: Callable[[int], None]) -> None:
        """Fences every earlier holder, then reads the position. `opened` receives the last batch delivered."""
        self._run(self._start, lambda outcome: self._opened(outcome, opened))

    def deliver(self, *batches: Batch) -> None:
        """Queues the rows of batches. A batch without rows, or one that is delivered already, is skipped."""
        self.ahead.overtaken()
        some = [one for one in batches if one.sinks or one.dead or self.ahead.closes(one)]
        new = [one for one in some if one.number > self.delivered]
        self._waiting += new
        if self._interval_ms:
            self._bytes += sum(batch.size for batch in new)
        self._next()

    def deliver_tentative(self, ahead: Ahead) -> None:
        self.ahead.offer(ahead)
        self._next()

    def look(self, now_ms: float) -> None:
        """Commits the gathered rows if their time has come."""
        if now_ms >= self.due_ms:
            self._next()

    def hurry(self) -> None:
        """Commits waiting rows at once, because no further rows will come."""
        if not self._hurried:
            self._hurried = True
            self._next()

    def committed(self, processed: int) -> int:
        """The last batch up to which every row is committed."""
        first = self._under_way[0] if self._under_way else self._waiting[0] if self._waiting else None
        return processed if first is None else first.number - 1

    @property
    def due_ms(self) -> float:
        """The clock time at which the gathered rows are due."""
        waits = self._interval_ms and self._waiting and not self._under_way and self._transactor is not None
        return self._began_ms + self._interval_ms if waits else math.inf

    @property
    def look_ms(self) -> float:
        """The time to check for a missing topic, or to deliver rows that are due."""
        return min(self.again_ms, self.due_ms)

    @property
    def full(self) -> bool:
        if not self._interval_ms:
            return len(self._waiting) >= MAX_WAITING_BATCHES
        return self._gathered and bool(self._under_way)

    @property
    def _gathered(self) -> bool:
        """True if enough rows wait to start a transaction early."""
        return len(self._waiting) >= MAX_GATHERED_BATCHES or self._bytes >= MAX_GATHERED_BYTES

    def close(self) -> None:
        self._closed = True
        self._waiting.clear()
        for transactor in (self._transactor, self._ready):
            if transactor is not None:
                self._run(transactor.close, lambda _: None)
        self._transactor = self._ready = None
        if self._outside.places:
            self._run(partial(self._outside.leave, self._positions.last), lambda _: None)

    def leftovers(self) -> list[Batch]:
        """The batches that are not known to be committed."""
        return [*self._under_way, *self._waiting]

    def _run(self, call: Call, done: Done) -> None:
        """Runs a call in the unit's own lane, so that another unit's coordinator delays nothing here."""
        self._blocking.run(call, done, self._unit)

    def _connect(self) -> Transactor:
        return self._log.transactor(self._topics.transactional_id(self._unit), self._refusals.batch_bytes)

    def _prepare(self) -> Transactor:
        transactor = self._connect()
        transactor.connect()
        with suppress(HoldfastError):  # then `open` will say so
            self._log.last(self._position)
        return transactor

    def _prepared(self, outcome: Any) -> None:
        if isinstance(outcome, Exception):
            return  # then `open` will say so
        self._ready = outcome
        if self._closed:
            self.close()

    def _start(self) -> tuple[Transactor, Delivered | None]:
        transactor, self._ready = self._ready or self._connect(), None
        try:
            transactor.start()
        except Retriable:  # also while an earlier transaction waits for replicas
            self._refusals.explain(self._log)
            raise
        position = self._positions.last()
        if position is not None:
            self.ahead.restore(position)
        self._outside.open(position)
        return transactor, position

    def _opened(self, outcome: Any, opened: Callable[[int], None]) -> None:
        if isinstance(outcome, Exception):
            self._refusals.failed(outcome, self.delivered, self._clock_ms())
            self._fail(outcome)
            return
        self._transactor, position = outcome
        if position is not None:
            self.delivered, self.too_large = position.batch, position.too_large
        self._refusals.opened(self.delivered)
        if self._closed:
            self.close()
        else:
            opened(self.delivered)

    def _next(self) -> None:
        if self._under_way or self.ahead.under_way is not None or self._transactor is None:
            return
        if self._waiting and self._due():
            self._under_way = [self._waiting.popleft() for _ in range(self._count())]
            self._run(self._commit, self._committed)
        elif self.ahead.waits and not self._refusals.tentative:
            self.ahead.take()
            position = partial(self._position_rows, self.delivered, 0)
            self._run(partial(self.ahead.commit, self._transactor, position), self._committed_ahead)

    def _committed_ahead(self, outcome: Any) -> None:
        if isinstance(outcome, Exception) and not self._closed:
            self._refusals.tentative |= isinstance(outcome, Refused)
            self._failed(outcome)
        elif not self._closed:
            self.ahead.committed()
            self._next()

    def _due(self) -> bool:
        """True if the first waiting batch may be delivered, together with all batches that wait at that time."""
        if not self._interval_ms or self._hurried or self._waiting[0].number <= self._upto:
            return True
        now_ms = self._clock_ms()
        if now_ms < self._began_ms + self._interval_ms and not self._gathered:
            return False
        self._began_ms, self._upto = now_ms, self._waiting[-1].number
        return True

    def _count(self) -> int:
        """The number of batches of the next transaction."""
        if not self._interval_ms:
            return min(len(self._waiting), self._portion.batches)
        taken = count = 0
        for batch in self._waiting:
            if count and (taken >= self._portion.bytes or not (self._hurried or batch.number <= self._upto)):
                break
            count, taken = count + 1, taken + batch.size
        self._bytes -= taken
        return count

    def _commit(self) -> tuple[int, int]:
        """Commits a transaction. Returns the numbers of delivered and of dead-lettered rows."""
        with self._meter.transaction():
            return self._measured_commit()

    def _measured_commit(self) -> tuple[int, int]:
        assert self._transactor is not None
        rows, too_large = self._rows.of(self._under_way)
        elsewhere = self._outside.write(self._under_way, self._meter)
        try:
            closing = self.ahead.closing(self._under_way, rows)
            self._transactor.commit([*rows, *closing, self._position_rows(self._under_way[-1].number, too_large)])
        except InvalidRecord as error:
            raise self._rows.too_large(error, topics_of(self._under_way)) from error
        except (Retriable, Indefinite) as error:
            self._refusals.judge(error, self._log, topics_of(self._under_way))
            raise
        self._outside.publish()
        return elsewhere + sum(len(one.values) for one in rows), too_large

    # -- topics that are gone -----------------------------------------------------------------------------------------

    def look_again(self, now_ms: float) -> None:
        """Tries again at growing intervals to deliver rows that have no place to go. After a refusal, ends the pause
        before the next attempt."""
        if self._refused is not None and now_ms >= self.again_ms:
            error, self._refused, self.again_ms = self._refused, None, math.inf
            self._fail(error)
            return
        if not self.waits or self._looking or self._closed:
            return
        if self.again_ms == math.inf:
            self.again_ms = now_ms + self._patience_ms
        if now_ms >= self.again_ms:
            self._looking, self._patience_ms = True, min(2 * self._patience_ms, LAST_LOOK_MS)
            self._blocking.run(self._missing, self._looked)

    def _looked(self, outcome: Any) -> None:
        self.again_ms = math.inf
        if self._closed or isinstance(outcome, Exception) or outcome:
            self._looking = False
        else:
            self._run(self._commit, self._committed)

    def _missing(self) -> list[str]:
        """Missing topics of the batches under way. Raises Retriable while Kafka does not answer."""
        topics = topics_of(self._under_way)
        return gone(topics, self._log.describe(topics)) if topics else []

    def _committed(self, outcome: Any) -> None:
        if self._closed:
            return
        self._looking, self.waits = False, str(outcome) if isinstance(outcome, Awaited) else ""
        if isinstance(outcome, Exception):
            if not self.waits:
                self._not_committed(outcome)
            return
        self._portion.through(self._meter.took_ms)
        self._patience_ms = FIRST_LOOK_MS
        done, self._under_way = self._under_way, []
        self.ahead.committed()
        self.delivered = done[-1].number
        self.transactions, self.committed_ms = self.transactions + 1, self._clock_ms()
        rows, too_large = outcome
        self._refusals.forget()
        self.rows, self.too_large = self.rows + rows, self.too_large + too_large
        self._next()

    def _not_committed(self, error: Exception) -> None:
        """Tries again after a growing pause if Kafka refuses the transaction; ends the job after too many refusals."""
        now_ms = self._clock_ms()
        pause_ms = self._refusals.failed(error, self.delivered, now_ms)
        topics = ", ".join([*topics_of(self._under_way), *self._outside.places])
        if not isinstance(error, Refused):
            self._fail(error)
        elif (over := self._refusals.over(self._under_way[0].number, topics)) is not None:
            self._fail(over)
        else:
            self._refused, self.again_ms = error, now_ms + pause_ms

    def _fail(self, error: Exception) -> None:
        if not self._closed:
            self._portion.failed()
            self._failed(error)

    def _position_rows(self, batch: int, too_large: int) -> Rows:
        """The position record of the transaction under way. `too_large` is the number of its rows that are
        dead-lettered."""
        position = self.ahead.position(batch, self.epoch, self.too_large + too_large)
        record = encode_delivered(self._outside.named_in(position))
        return Rows(self._position.topic, [record], keys=[self._unit.encode()], partitions=[self._position.index])
