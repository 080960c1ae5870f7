"""Opens the outputs of one copy: prepares them while the copy does not commit, opens them when it does, closes them at
its end.

Source: PROTOCOL 8 and 9.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.schemas.topics import Partition
from holdfast.services.worker.sinks.delivery import Delivery, History
from holdfast.services.worker.sinks.meter import Meter
from holdfast.services.worker.sinks.position import Positions
from holdfast.services.worker.sinks.refusals import Refusals
from holdfast.services.worker.sinks.unit_sinks import UnitSinks, written
from holdfast.services.worker.unit.facts.hosted_unit import HostedUnit


class OutputOpener:
    """The outputs of one copy.

    Attributes:
        delivery: the delivery; None while the outputs are closed.
        refusals: refusals of all its deliveries.

    Args:
        done: returns the last batch of the copy.
        failed: called with the error, once for each delivery.
        happened: called with kind and detail of an event.
    """

    def __init__(
        self,
        unit: HostedUnit,
        done: Callable[[], int],
        failed: Callable[[Exception], None],
        happened: Callable[[str, str], None],
    ) -> None:
        self._job = unit.job
        self._layout = unit.layout
        self._around = unit.around
        self._spent = unit.spent
        self._unit = unit.layout.unit
        self._done = done
        self._failed = failed
        self._happened = happened
        self.delivery: Delivery | None = None
        self._holds = False
        self._history = History(Refusals(written(unit.layout, unit.job.topics)))
        self.refusals = self._history.refusals

    def place(self, epoch: int, commit: bool, opened: Callable[[], None]) -> None:
        """With commit, takes the transactional id and calls `opened`; without, only connects."""
        if not self._unit.delivers:
            return
        if not commit:
            self.refusals.forget()
            if self._holds or self.delivery is None:
                self.close()
                self.delivery = self._new_delivery()
                self.delivery.prepare()
            return
        self.delivery = self.delivery or self._new_delivery()
        self.delivery.epoch = epoch
        if not self._holds:
            self._holds = True
            began_ms = self._around.clock_ms()

            def done(_: int) -> None:
                self._spent.open_ms = self._around.clock_ms() - began_ms
                opened()

            self.delivery.open(done)

    def close(self) -> None:
        """Closes the transactional producer."""
        self._holds = False
        if self.delivery is not None:
            self.delivery.close()
            self.delivery = None

    def _new_delivery(self) -> Delivery:
        delivery = Delivery(
            self._around.log,
            self._around.deliveries,
            UnitSinks.of(self._job, self._layout),
            self._positions(),
            failed=self._failed,
            meter=Meter(self._spent, self._around.clock_ms, self._around.cpu_ms),
            history=self._history,
        )
        delivery.ahead.happened = self._happened
        return delivery

    def _positions(self) -> Positions:
        unit, topics = self._unit, self._job.topics
        return Positions(
            self._around.log,
            unit.name,
            Partition(topics.delivered, unit.partition),
            Partition(topics.cuts, 0),
            skipped=self._job.skipped.get(Partition(topics.delivered, unit.partition), frozenset()),
            done=self._done,
            refuse=lambda at, offset, cause: self._around.refusals.refuse(at, offset, cause, self._job.plan.job),
            first=self._job.plan.first_batch,
        )
