"""Figure Z9: what is judged of a worker that was away, and what counts as sent meanwhile."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bench.failover.rounds import Away
from bench.research.papers.figure import Data, Verdict, verdict
from bench.research.papers.z9 import AWAY_S, RATES_PER_S, TIMES, Z9, _key, _while
from bench.rig.tap import Kept


def paper_s(*, over: float = 0.0, back: float = 5.0, sent: float = 1.0) -> Data:
    """As the paper has it. over: so many ms more to switch over for each 1,000 records/s. back: the same of
    switching back. sent: share of the outage.
    """
    return {
        _key(rate, away, n): {
            "detection_ms": 100.0 + 7 * n,
            "switch_over_ms": 250.0 + 10 * n + over * rate / 1000,
            "switch_back_ms": 100.0 + n + back * rate / 1000,
            "rows": rate * (AWAY_S[0] + sent * (away - AWAY_S[0])),
            "entries": 0.1 * rate * away,
            "busy": rate / 10_000,
        }
        for rate in RATES_PER_S
        for away in AWAY_S
        for n in range(TIMES)
    }


def judged(data: Data) -> Verdict:
    return verdict(Z9.checks(data))


def test_stable_times_and_elements_by_rate_and_outage_are_the_paper_s() -> None:
    assert judged(paper_s()) is Verdict.REPRODUCED


@pytest.mark.parametrize(("change", "found"), [({"over": 50.0}, Verdict.NOT), ({"sent": 0.0}, Verdict.NOT)])
def test_figures_that_differ_from_the_paper_are_not_reproduced(change: dict[str, Any], found: Verdict) -> None:
    assert judged(paper_s(**change)) is found


def test_only_records_between_the_freeze_and_the_switch_back_count() -> None:
    def kept(at: int) -> Kept:
        message: Any = SimpleNamespace(value=lambda: b"%d" % at, timestamp=lambda: (1, at))
        return Kept(message, 0.0)

    away = Away(signal_ms=100.0, first_ms=250.0, returned_ms=5_100.0, again_ms=5_200.0)
    assert _while(away, [kept(99), kept(100), kept(5_200), kept(5_201)]) == [b"100", b"5200"]
