"""Time of the tests: seconds of a processor by folder, whatever else the machine does meanwhile."""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Protocol

SPENT = "processor_s"
"""Among the properties of a report: with the processes that the test has started and waited for."""


class Report(Protocol):
    nodeid: str
    user_properties: list[tuple[str, object]]


def processor_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def by_folder(reports: Iterable[Report]) -> list[str]:
    """A line for each folder of tests that took a second or more, those first that took most."""
    spent: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for test, seconds in _spent(reports):
        folder = test.partition("::")[0].rpartition("/")[0]
        spent[folder] += seconds  # type: ignore[assignment]
        count[folder] += 1
    return [
        f"{seconds:8.0f} s of a processor  {count[folder]:5} tests  {folder}"
        for folder, seconds in spent.most_common()
        if seconds >= 1
    ]


def dearest(reports: Iterable[Report], most: int) -> list[str]:
    """A line for each of the tests that took most, of those that took a second or more."""
    ordered = sorted(_spent(reports), key=lambda one: -one[1])
    return [f"{seconds:8.1f} s of a processor  {test}" for test, seconds in ordered[:most] if seconds >= 1]


def _spent(reports: Iterable[Report]) -> Iterator[tuple[str, float]]:
    for report in reports:
        for name, seconds in report.user_properties:
            if name == SPENT and isinstance(seconds, float):
                yield report.nodeid, seconds
