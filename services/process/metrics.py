"""Metrics of a process, for Prometheus: declared as data, and read on request.

docs/metrics.md lists every metric. Nothing is collected in advance: only scrapes cost time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from holdfast.services.process.usage import cpu_seconds, resident_bytes


class Metric(NamedTuple):
    """A metric.

    name: its name in Prometheus; a counter's name ends in `_total`.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    about: str

    def of(self, value: float, *labels: str) -> Sample:
        """A sample of the metric, with the values of its labels in their order."""
        assert len(labels) == len(self.labels), self.name
        return Sample(self, labels, value)


class Sample(NamedTuple):
    """A value of a metric."""

    metric: Metric
    labels: tuple[str, ...]
    value: float


Read = Callable[[], Iterable[Sample]]
"""Reader of a process's samples, from any thread."""

PROCESS = Metric("holdfast_process_info", "gauge", ("name", "kind"), "Always 1: which process this is")
CPU = Metric("holdfast_process_cpu_seconds_total", "counter", (), "CPU time of the process")
RESIDENT = Metric("holdfast_process_resident_bytes", "gauge", (), "Resident memory of the process")
REFUSED = Metric(
    "holdfast_refused_records_total",
    "counter",
    ("topic",),
    "Records of our topics that could not be read or believed, or carry no seal of the cluster",
)
OF_PROCESSES = (PROCESS, CPU, RESIDENT)


def of_process(name: str, kind: str) -> Read:
    """Reader of the samples that every process has.

    kind: worker, controller, recovery or driver.
    """

    def read() -> Iterator[Sample]:
        yield PROCESS.of(1, name, kind)
        yield CPU.of(cpu_seconds())
        yield RESIDENT.of(resident_bytes())

    return read


def of_refusals(*most: Callable[[], Mapping[str, int]]) -> Read:
    """Reader of refused records.

    most: counts by topic; several readers of a process refuse records for different reasons.
    """
    return lambda: (REFUSED.of(count, topic) for topic, count in summed(*(one() for one in most)).items())


def summed(*counts: Mapping[str, int]) -> dict[str, int]:
    """Counts by topic, added up."""
    return dict(sum((Counter(one) for one in counts), Counter[str]()))
