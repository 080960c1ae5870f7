"""Whether a user's topic keeps what a recovery may read again (MECHANISMS R2, docs/decisions/0109)."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.schemas.plan_settings import TolerancePlan
from holdfast.services.worker.core.retention import Extent, Keeps, Retention, Risk, wait_s

WAIT_S = 40.0


def topic(keeps: Keeps | None = None) -> Retention:
    made = Retention("clicks", "visits", WAIT_S)
    if keeps is not None:
        made.shortened(keeps)
    return made


def judged(keeps: Keeps, *extents: Extent, record_bytes: float = 10.0) -> Risk:
    return topic(keeps).judge(dict(enumerate(extents)), record_bytes, 0.0)


@pytest.mark.parametrize(
    ("tolerance", "expected"),
    [
        ({}, None),
        ({"buffering": "upstream"}, None),
        ({"buffering": "source"}, 40.0),
        ({"buffering": "adaptive", "fail_stop_timeout_s": 5}, 15.0),
        ({"buffering": "source", "fail_stop_timeout_s": 5, "correlated_failure": {"within_s": 2}}, 7.0),
    ],
)
def test_a_recovery_waits_for_further_failures_and_then_for_workers(
    tolerance: dict[str, object], expected: float | None
) -> None:
    assert wait_s(msgspec.convert(tolerance, TolerancePlan)) == expected


@pytest.mark.parametrize(
    ("config", "keeps"),
    [
        ({}, Keeps()),
        ({"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}, Keeps()),
        ({"cleanup.policy": "delete", "retention.ms": "60000", "retention.bytes": "-1"}, Keeps(60_000)),
        ({"cleanup.policy": "compact,delete", "retention.ms": "60000", "retention.bytes": "7"}, Keeps(60_000, 7)),
        ({"cleanup.policy": "compact", "retention.ms": "60000"}, Keeps()),
    ],
)
def test_limits_are_those_of_a_topic_from_which_records_are_deleted(config: dict[str, str], keeps: Keeps) -> None:
    assert Keeps.of(config) == keeps


def test_a_topic_that_keeps_everything_is_no_risk() -> None:
    assert judged(Keeps(), Extent(100, 100, 900)) == Risk()


def test_deleted_records_count_and_no_more_than_there_were() -> None:
    assert judged(Keeps(), Extent(100, 130, 900)).records == 30
    assert "30 records since the newest global checkpoint are deleted" in judged(Keeps(), Extent(100, 130, 900)).text
    assert judged(Keeps(), Extent(100, 500, 130)).records == 30
    assert judged(Keeps(), Extent(100, 90, 900)) == Risk()


def test_records_that_get_too_old_while_a_recovery_waits_count() -> None:
    risk = judged(Keeps(3_600_000), Extent(100, 0, 900, aged=160), Extent(50, 0, 70, aged=20))
    assert risk.records == 60
    assert "retention.ms is 3600000: 60 records" in risk.text
    assert judged(Keeps(3_600_000), Extent(100, 0, 900, aged=100)) == Risk()
    assert judged(Keeps(3_600_000), Extent(100, 120, 900, aged=160)).records == 60, "20 are deleted, 40 are old"


def test_an_age_that_is_shorter_than_the_wait_is_a_risk_before_any_record_is() -> None:
    risk = judged(Keeps(20_000), Extent(100, 0, 100, aged=100))
    assert risk == Risk(
        "topic visits of source clicks: retention.ms is 20000, and a recovery may wait 40 s for workers"
    )


def test_a_limit_of_bytes_must_hold_what_there_is_and_what_comes_meanwhile() -> None:
    keeps, one = Keeps(size=10_000), topic(Keeps(size=10_000))
    assert judged(keeps, Extent(0, 0, 1_000), record_bytes=10) == Risk(), "nobody knows yet how much comes"
    assert judged(keeps, Extent(0, 0, 1_001), record_bytes=10).records == 1_001
    assert one.judge({0: Extent(0, 0, 100)}, 10.0, 0.0) == Risk()
    assert one.judge({0: Extent(0, 0, 200)}, 10.0, 10_000.0) == Risk(), "600 records in all"
    risk = one.judge({0: Extent(0, 0, 500)}, 10.0, 20_000.0)
    assert risk.records == 500, "30 records a second, 1,700 in all"
    assert "retention.bytes is 10000" in risk.text


def test_a_limit_is_shortened_if_it_is_lower_than_when_it_was_read_last() -> None:
    one = topic()
    assert one.shortened(Keeps(60_000)) == "", "read for the first time"
    assert one.shortened(Keeps(50_000, 9)) == "retention.ms was 60000, is 50000, retention.bytes was unlimited, is 9"
    assert one.shortened(Keeps(70_000)) == ""
    assert one.young_ms == 30_000
