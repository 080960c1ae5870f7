"""Random records of every format: no record ends a job, and each is its rows or one dead letter with a reason.

`python -m tests.records --records 1000000` draws more.
"""

from __future__ import annotations

import pytest

from tests.records.fuzz import FORMATS, part


@pytest.mark.parametrize("format", FORMATS)
def test_each_random_record_is_its_rows_or_one_dead_letter(format: str) -> None:
    counted = part(format, 0, 2_000, sizes=[500])
    assert counted.rows > 1_000
    assert counted.letters > 200
    several = 8 if format == "protobuf" else 30  # of what damages a message, its library says one thing
    assert len(counted.reasons) > several, "records are refused for many reasons"


@pytest.mark.long
@pytest.mark.parametrize("format", FORMATS)
def test_each_of_more_random_records_is_its_rows_or_one_dead_letter(format: str) -> None:
    for seed in range(1, 9):
        part(format, seed, 5_000)
