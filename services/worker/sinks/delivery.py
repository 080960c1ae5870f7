"""Delivers sink rows and dead letters of a unit in transactions that also hold its position.

Source: PROTOCOL 9. While a transaction is under way, later batches gather for the next one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from holdfast.schemas.delivered import Delivered
from holdfast.schemas.delivered import encode as encode_delivered
from holdfast.services.hosting.blocking_calls import Blocking, Call, Done
from holdfast.services.kernel.errors import Awaited, HoldfastError, Indefinite, InvalidRecord, Refused, Retriable
from holdfast.services.log.protocol import Log, Rows, Transactor
from holdfast.services.worker.sinks.fitting_rows import FittingRows
from holdfast.services.worker.sinks.meter import Meter
from holdfast.services.worker.sinks.portions import Batch, Portion, topics_of
from holdfast.services.worker.sinks.position import Positions
from holdfast.services.worker.sinks.refusals import Refusals, gone
from holdfast.services.worker.sinks.row_queue import RowQueue
from holdfast.services.worker.sinks.tentative_rows import Ahead, TentativeRows
from holdfast.services.worker.sinks.unit_sinks import UnitSinks

FIRST_LOOK_MS, LAST_LOOK_MS = 250.0, 5_000.0
"""First and longest time between two checks whether a place for rows, a topic or a table, exists again."""


@dataclass(frozen=True, slots=True)
class History:
    """Knowledge of a copy about its transactions, kept from delivery to delivery."""

    refusals: Refusals = field(default_factory=Refusals)
    """Failed transactions."""
    portion: Portion = field(default_factory=Portion)
    """The limit of a transaction."""


class Delivery:
    """Delivers for one copy. Passes every outcome other than success to `failed`, once. NoDelivery replaces it while
    the outputs are closed.

    Args:
        positions: reads the last position of the unit.
        failed: called with Fenced, Indefinite, Retriable or another error.
        meter: measures the costs of transactions.
    """

    takes_rows = True
    """True if rows can be delivered, or if the unit never has any."""

    def __init__(
        self,
        log: Log,
        blocking: Blocking,
        sinks: UnitSinks,
        positions: Positions,
        failed: Callable[[Exception], None],
        meter: Meter,
        history: History | None = None,
    ) -> None:
        history = history or History()
        self._log = log
        self._blocking = blocking
        self._sinks = sinks
        self._positions = positions
        self._failed = failed
        self._meter = meter
        self._refusals = history.refusals
        self._portion = history.portion
        self._refused: Refused | None = None
        self._rows = FittingRows(log, sinks.topics, meter, self._refusals, dead_letters=sinks.dead_letters)
        self.ahead = TentativeRows(log, self._rows, sinks.unit, sinks.tentative)
        self._transactor: Transactor | None = None
        self._ready: Transactor | None = None
        self._clock_ms = meter.clock_ms
        self._queue = RowQueue(sinks.interval_ms, self._portion, self._clock_ms)
        self._under_way: list[Batch] = []
        self._closed = False
        self._looking = False
        self._patience_ms = FIRST_LOOK_MS
        self.waits = ""
        self.again_ms = math.inf
        self.committed_ms = 0.0
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
        self._queue.add(new)
        self._next()

    def deliver_tentative(self, ahead: Ahead) -> None:
        self.ahead.offer(ahead)
        self._next()

    def commit_if_due(self, now_ms: float) -> None:
        """Commits the gathered rows if their time has come."""
        if now_ms >= self.due_ms:
            self._next()

    def hurry(self) -> None:
        """Commits waiting rows at once, because no further rows will come."""
        if self._queue.hurry():
            self._next()

    def committed(self, processed: int) -> int:
        """The last batch up to which every row is committed."""
        first = self._under_way[0] if self._under_way else next(iter(self._queue), None)
        return processed if first is None else first.number - 1

    @property
    def due_ms(self) -> float:
        """The clock time at which the gathered rows are due."""
        opened = self._transactor is not None and not self._under_way
        return self._queue.due_ms if opened else math.inf

    @property
    def look_ms(self) -> float:
        """The time to check for a missing topic, or to deliver rows that are due."""
        return min(self.again_ms, self.due_ms)

    @property
    def full(self) -> bool:
        return self._queue.full(bool(self._under_way))

    def close(self) -> None:
        self._closed = True
        self._queue.clear()
        for transactor in (self._transactor, self._ready):
            if transactor is not None:
                self._run(transactor.close, lambda _: None)
        self._transactor = self._ready = None
        if self._sinks.outside.places:
            self._run(partial(self._sinks.outside.leave, self._positions.last), lambda _: None)

    def leftovers(self) -> list[Batch]:
        """The batches that are not known to be committed."""
        return [*self._under_way, *self._queue]

    def _run(self, call: Call, done: Done) -> None:
        """Runs a call in the unit's own lane, so that another unit's coordinator delays nothing here."""
        self._blocking.run(call, done, self._sinks.unit)

    def _connect(self) -> Transactor:
        return self._log.transactor(self._sinks.topics.transactional_id(self._sinks.unit), self._refusals.batch_bytes)

    def _prepare(self) -> Transactor:
        transactor = self._connect()
        transactor.connect()
        with suppress(HoldfastError):  # then `open` will say so
            self._log.last(self._sinks.position)
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
        except Retriable:  # an earlier transaction may still wait for replicas
            self._refusals.explain(self._log)
            raise
        position = self._positions.last()
        if position is not None:
            self.ahead.restore(position)
        self._sinks.outside.open(position)
        return transactor, position

    def _opened(self, outcome: Any, opened: Callable[[int], None]) -> None:
        if isinstance(outcome, Exception):
            self._refusals.failed(outcome, self.delivered, self._clock_ms())
            self._fail(outcome)
            return
        self._transactor, position = outcome
        if position is not None:
            self.delivered = position.batch
            self.too_large = position.too_large
        self._refusals.opened(self.delivered)
        if self._closed:
            self.close()
        else:
            opened(self.delivered)

    def _next(self) -> None:
        if self._under_way or self.ahead.under_way is not None or self._transactor is None:
            return
        if batches := self._queue.take():
            self._under_way = batches
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

    def _commit(self) -> tuple[int, int]:
        """Commits a transaction. Returns the numbers of delivered and of dead-lettered rows."""
        with self._meter.transaction():
            return self._measured_commit()

    def _measured_commit(self) -> tuple[int, int]:
        assert self._transactor is not None
        rows, too_large = self._rows.of(self._under_way)
        elsewhere = self._sinks.outside.write(self._under_way, self._meter)
        try:
            closing = self.ahead.closing(self._under_way, rows)
            self._transactor.commit([*rows, *closing, self._position_rows(self._under_way[-1].number, too_large)])
        except InvalidRecord as error:
            raise self._rows.too_large(error, topics_of(self._under_way)) from error
        except (Retriable, Indefinite) as error:
            self._refusals.judge(error, self._log, topics_of(self._under_way))
            raise
        self._sinks.outside.publish()
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
        self._looking = False
        self.waits = str(outcome) if isinstance(outcome, Awaited) else ""
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
        topics = ", ".join([*topics_of(self._under_way), *self._sinks.outside.places])
        if not isinstance(error, Refused):
            self._fail(error)
        elif (over := self._refusals.over(self._under_way[0].number, topics)) is not None:
            self._fail(over)
        else:
            self._refused = error
            self.again_ms = now_ms + pause_ms

    def _fail(self, error: Exception) -> None:
        if not self._closed:
            self._portion.failed()
            self._failed(error)

    def _position_rows(self, batch: int, too_large: int) -> Rows:
        """The position record of the transaction under way. `too_large` is the number of its rows that are
        dead-lettered."""
        position = self.ahead.position(batch, self.epoch, self.too_large + too_large)
        record = encode_delivered(self._sinks.outside.named_in(position))
        topic, index = self._sinks.position
        return Rows(topic, [record], keys=[self._sinks.unit.encode()], partitions=[index])
