"""Times as users write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.services.kernel.codecs.timestamps import parse, scaled

NEW_YEAR_US = 1_356_998_400_000_000
HOUR_US = 3_600_000_000


@pytest.mark.parametrize(
    ("text", "offset_us"),
    [
        ("2013-01-01", 0),
        ("2013-01-01T05:00", 5 * HOUR_US),
        ("2013-01-01 05:00:00", 5 * HOUR_US),
        ("2013-01-01T05:00:00Z", 5 * HOUR_US),
        ("2013-01-01T05:00:00+02:00", 3 * HOUR_US),
        ("2013-01-01 05:00:00-0130", 6 * HOUR_US + HOUR_US // 2),
        ("2013-01-01T00:00:00.5", 500_000),
        ("2013-01-01T00:00:00.123456789Z", 123_456),
        ("2013-01-01T01:00:00.123456789+01", 123_456),
    ],
)
def test_iso_8601_is_read(text: str, offset_us: int) -> None:
    assert parse([text]).to_list() == [NEW_YEAR_US + offset_us]


@pytest.mark.parametrize(
    "text", ["", "now", "2013", "2013-02-29", "20130101", "2013-01-01T25:00", "2013-01-01T05:00:00 Z"]
)
def test_anything_else_is_no_time(text: str) -> None:
    assert parse([text]).to_list() == [None]


def test_years_have_four_digits() -> None:
    assert parse(["0000-12-31", "9999-12-31T23:59:59-01:00"]).to_list() == [None, None]
    assert scaled([2**62, -(2**62), None], "s").to_list() == [None, None, None]


zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=st.one_of(st.none(), zones))


@given(st.lists(moments.map(lambda m: (m, m.isoformat())) | st.sampled_from([(None, "x"), (None, None)])))
def test_a_text_means_the_same_alone_and_among_others(some: list[tuple[datetime | None, str | None]]) -> None:
    found = parse([text for _, text in some]).to_list()
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    for us, (moment, _) in zip(found, some, strict=True):
        if moment is None:
            assert us is None
        else:
            aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            assert us == (aware - epoch) // timedelta(microseconds=1)


@pytest.mark.parametrize(("unit", "number"), [("s", -1), ("ms", -1_000), ("us", -1_000_000), ("ns", -999_999_001)])
def test_integers_have_a_unit(unit: str, number: int) -> None:
    assert scaled([number], unit).to_list() == [-1_000_000]
