"""A bench that was stopped continues with what it had made."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from bench.rig.followed import MeasureFailed
from bench.rig.resumed import INTERRUPTED, Record, run_resumably


class Made(msgspec.Struct, frozen=True):
    number: int


def test_a_record_keeps_its_results_until_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "made.jsonl"
    record = Record(path, Made, restart=False)
    record.add([Made(1)])
    record.add([Made(2), Made(3)])
    assert record.made == Record(path, Made, restart=False).made == [Made(1), Made(2), Made(3)]
    assert Record(path, Made, restart=True).made == []
    assert Record(path, Made, restart=False).made == []


@pytest.mark.parametrize(
    ("fault", "status", "says"),
    [(None, 0, ""), (KeyboardInterrupt(), INTERRUPTED, "stopped"), (MeasureFailed("no worker"), 1, "no worker")],
)
def test_a_bench_that_ends_says_how_to_continue(fault: BaseException | None, status: int, says: str) -> None:
    told = io.StringIO()

    def work() -> None:
        if fault is not None:
            raise fault

    assert run_resumably(work, Console(file=told)) == status
    assert says in told.getvalue()
    assert bool(fault) == ("continues from here" in told.getvalue())
