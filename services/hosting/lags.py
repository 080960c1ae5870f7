"""The number of records in the users' topics that wait for a job. Kafka is asked only when a metric is read.

The count is a difference of offsets: records removed by compaction and ends of transactions count as records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from holdfast.schemas.assignments import split_unit_key
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.errors import HoldfastError
from holdfast.services.log.protocol import Log
from holdfast.services.process.metrics import Metric, Read, Sample
from holdfast.services.process.repeated_question import RepeatedQuestion

LAG = Metric(
    "holdfast_source_lag_records",
    "gauge",
    ("job", "generation", "unit", "source", "topic"),
    "Records behind the end of the user's topic, of the partitions that the unit reads",
)


AT_RISK = Metric(
    "holdfast_source_records_at_risk",
    "gauge",
    ("job", "generation", "unit", "source", "topic"),
    "Records since the newest global checkpoint that retention may delete while a recovery waits for workers, or has",
)


class Taken(NamedTuple):
    """The progress of a unit in the topic of a source.

    Attributes:
        unit: key of the unit.
        source: the source.
        topic: the topic of the user.
        positions: offset behind the last record processed, by partition.
        at_risk: number of records that retention may delete before a recovery reads them again; None if no recovery
            would read them again.
    """

    unit: str
    source: str
    topic: str
    positions: dict[int, int]
    at_risk: int | None = None


def of_lags(log: Log, taken: Callable[[], Sequence[Taken]]) -> Read:
    """Returns a reader of lag metrics. `taken` returns the progress of the leaders here. A topic whose end Kafka does
    not return in time is left out."""
    asking = RepeatedQuestion(lambda: list(_lags(log, taken())))

    def read() -> Iterable[Sample]:
        try:
            return asking.get()
        except HoldfastError:
            return ()

    return read


def _lags(log: Log, taken: Sequence[Taken]) -> Iterator[Sample]:
    for one in taken:
        if one.at_risk is not None:
            yield AT_RISK.of(one.at_risk, *split_unit_key(one.unit), one.source, one.topic)
        try:
            ends = log.offsets([Partition(one.topic, index) for index in one.positions], "end")
        except HoldfastError:
            continue
        behind = sum(max(0, end - one.positions[partition.index]) for partition, end in ends.items())
        yield LAG.of(behind, *split_unit_key(one.unit), one.source, one.topic)
