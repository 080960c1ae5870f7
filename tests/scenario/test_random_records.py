"""Random records of every format: no record ends a job, and each is its rows or one dead letter with a reason.

`python -m tests.records --records 1000000` draws more, and with `--decoders` it damages records for the decoders alone.
"""

from __future__ import annotations

import pytest

from tests.records.decoders import damaged_part
from tests.records.formats import FORMATS
from tests.records.fuzz import part


@pytest.mark.parametrize("format", FORMATS)
def test_each_random_record_is_its_rows_or_one_dead_letter(format: str) -> None:
    counted = part(format, 0, 2_000, sizes=[500])
    assert counted.rows > 1_000
    least_letters, least_reasons = (10, 3) if format == "text" else (200, 8 if format == "protobuf" else 30)
    assert counted.letters > least_letters  # of what damages a message of Protobuf, its library says one thing
    assert len(counted.reasons) > least_reasons, "records are refused for many reasons"


@pytest.mark.parametrize("format", FORMATS)
def test_a_damaged_record_gives_the_values_that_another_library_reads_or_a_reason(format: str) -> None:
    counted = damaged_part(format, 0, 1_000)
    assert counted.rows > 50
    assert counted.letters > 200


@pytest.mark.long
@pytest.mark.parametrize("format", FORMATS)
def test_each_of_more_random_records_is_its_rows_or_one_dead_letter(format: str) -> None:
    for seed in range(1, 9):
        part(format, seed, 5_000)
