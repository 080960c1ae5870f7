"""Records of the cut log on code that raised, against what users got: PROTOCOL 3. And deliberate bugs of these
rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from holdfast.schemas import cuts, dead_letters, delivered
from holdfast.schemas.cuts import Leads, Raised, TaskRaised
from holdfast.schemas.plans import Plan
from holdfast.schemas.topics import JobTopics, Partition
from holdfast.services.decisions.cuts import of_plan
from holdfast.services.decisions.raises import Raises, may_raise
from holdfast.services.worker.unit.outputs.outputs import Outputs
from holdfast.services.worker.unit.user_code.raised_errors import RaisedErrors
from tests.simulation.processes.cluster import Cluster


def check(cluster: Cluster, plan: Plan, topics: JobTopics) -> Iterator[str]:
    """Nobody delivers for a unit whose code may raise before it has announced itself as its leader; and a row that the
    code refuses is a dead letter only where a valid record says so that was written before.
    """
    units = {unit.name: unit.partition for unit in plan.units if unit.name in may_raise(plan)}
    if not units:
        return
    origins = {one.name for one in plan.operators if one.kind == "python"}
    log, said, announced = of_plan(plan), set[int](), set[tuple[str, str]]()
    positions = {Partition(topics.delivered, partition): unit for unit, partition in units.items()}
    for one in cluster.broker.written:
        if one.partition.topic == topics.cuts:
            record = cuts.decode(one.value)
            if log.read(one.offset, record) and isinstance(record, Raised):
                said.add(record.batch)
            elif isinstance(record, Leads):
                announced.add((record.unit, record.id.author))
        elif one.partition in positions and delivered.decode(one.value).batch:
            unit = positions[one.partition]
            if (unit, one.author) not in announced:
                yield f"unannounced: {one.author} delivered for {unit} and had not announced that it leads it"
        elif one.partition.topic == topics.dead_letters:
            letter = dead_letters.decode(one.value)
            if letter.origin in origins and letter.batch not in said:
                yield f"undecided: {one.author} skipped a row in batch {letter.batch}, and no record says so"


def outputs_not_held() -> AbstractContextManager[object]:
    """Lets the effects of a new leader leave before its announcement is read back."""
    return mock.patch.object(Outputs, "hold", return_value=None)


def any_record_of_code_that_raised_counts() -> AbstractContextManager[object]:
    """Also one of a former leader, behind the announcement of its successor."""
    true = Raises.read

    def read(self: Raises, record: Leads | Raised, newest: int) -> bool:
        if isinstance(record, Raised) and (leading := self.of(record.unit)) is not None:
            record = Raised(record.unit, record.batch, leading.id, record.tasks)
        return true(self, record, newest)

    return mock.patch.object(Raises, "read", read)


def batch_done_before_its_record_kept() -> AbstractContextManager[object]:
    """A copy whose code did not raise continues though it reads that it did."""
    true = RaisedErrors._take

    def take(self: RaisedErrors) -> None:
        done = self._processing.batch
        self._cutter.raised[:] = [record for record in self._cutter.raised if record.batch > done]
        true(self)

    return mock.patch.object(RaisedErrors, "_take", take)


def rows_skipped_without_a_record() -> AbstractContextManager[object]:
    """Each copy finds by itself where its code raises."""

    def known(self: RaisedErrors, batch: int) -> Mapping[str, TaskRaised] | None:
        return None

    def let_go(self: Any) -> bool | None:
        return self._processing.let_go(self._flags.send) if self._processing.held is not None else true(self)

    true = RaisedErrors.take_steps
    return mock.patch.multiple(RaisedErrors, known=known, take_steps=let_go)
