"""Counts of records dropped as late, added up by source."""

from __future__ import annotations

import pytest

from holdfast.services.view.losses import dropped_as_late, once_each


@pytest.mark.parametrize(
    ("counts", "by_source", "exact"),
    [
        ({}, {}, True),
        ({"a": 0}, {}, True),
        ({"a": 3, "b": 2}, {"a": 3, "b": 2}, True),
        ({"a": 3, "a>slow": 2, "a>slow>first": 1}, {"a": 6}, True),
        ({"a>slow": 2, "a>fast": 5}, {"a": 5}, False),
        ({"a": 1, "a>slow": 2, "a>slow>x": 3, "a>slow>y": 1}, {"a": 6}, False),
        ({"a": 3, "a|pairs": 5, "b|pairs": 1}, {"a": 5, "b": 1}, False),
        ({"a": 3, "a+b>both": 2, "c": 1}, {"a": 3, "c": 1}, False),
        ({"a+b>both": 2, "c": 1}, {"a+b": 2, "c": 1}, True),
    ],
)
def test_no_record_counts_twice(counts: dict[str, int], by_source: dict[str, int], exact: bool) -> None:
    assert once_each(counts) == (by_source, exact)


def test_the_words_say_when_there_may_be_more_and_what_are_no_records() -> None:
    assert dropped_as_late({"a": 1}) == "1 record dropped as late (a 1)"
    assert dropped_as_late({"a>x": 1_000, "a>y": 2}) == "at least 1,000 records dropped as late (a 1,000)"
    assert dropped_as_late({"a": 2, "rows of daily": 3}) == "2 records dropped as late (a 2), and 3 rows of daily"
