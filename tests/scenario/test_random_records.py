"""Random records of every format: no record ends a job, and each is its rows or one dead letter with a reason.

`python -m tests.records --records 1000000` draws more.
"""

from __future__ import annotations

import pytest

from tests.records.formats import FORMATS
from tests.records.fuzz import part


@pytest.mark.parametrize("format", FORMATS)
def test_each_random_record_is_its_rows_or_one_dead_letter(format: str) -> None:
    counted = part(format, 0, 2_000, sizes=[500])
    assert counted.rows > 1_000
    least_letters, least_reasons = (10, 3) if format == "text" else (200, 8 if format == "protobuf" else 30)
    assert counted.letters > least_letters  # of what damages a message of Protobuf, its library says one thing
    assert len(counted.reasons) > least_reasons, "records are refused for many reasons"


@pytest.mark.long
@pytest.mark.parametrize("format", FORMATS)
def test_each_of_more_random_records_is_its_rows_or_one_dead_letter(format: str) -> None:
    for seed in range(1, 9):
        part(format, seed, 5_000)
