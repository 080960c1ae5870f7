"""The tests say which folder took how much of a processor."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.support.processor_time import SPENT, by_folder, dearest, processor_s


@dataclass
class Report:
    nodeid: str
    user_properties: list[tuple[str, object]] = field(default_factory=list)


def test_folders_are_summed_up_and_the_dearest_comes_first() -> None:
    reports = [
        Report("tests/unit/log/test_a.py::test_one", [(SPENT, 1.5)]),
        Report("tests/unit/log/test_b.py::test_two[x/y]", [("other", 9.0), (SPENT, 2.5)]),
        Report("tests/scenario/test_c.py::test_three", [(SPENT, 7.0)]),
        Report("tests/golden/test_d.py::test_four", [(SPENT, 0.1)]),
        Report("tests/golden/test_d.py::test_four"),
    ]
    assert by_folder(reports) == [
        "       7 s of a processor      1 tests  tests/scenario",
        "       4 s of a processor      2 tests  tests/unit/log",
    ]
    assert dearest(reports, 2) == [
        "     7.0 s of a processor  tests/scenario/test_c.py::test_three",
        "     2.5 s of a processor  tests/unit/log/test_b.py::test_two[x/y]",
    ]
    assert len(dearest(reports, 9)) == 3


def test_computation_counts() -> None:
    began_s = processor_s()
    while processor_s() < began_s + 0.05:
        pass
    assert processor_s() >= began_s + 0.05
