"""Figure Z4W: the delay of every record, from when rows arrived, and what is judged of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.research.papers.figure import Data, Verdict, verdict
from bench.research.papers.z4w import ACTIVE, HYBRID, NONE, PASSIVE, SCHEMES, TIMES, Z4W, _key, mean_delay_ms
from bench.rig.quota import Quotas

SEEN = [(110.0, 100.0), (210.0, 200.0), (700.0, 600.0), (710.0, 700.0)]
"""Rows of what was sent until 600 come at once, 100 ms after the last of it."""


def test_a_record_is_as_late_as_the_rows_that_it_came_with() -> None:
    assert mean_delay_ms(SEEN, [(100.0, 200.0)]) == pytest.approx(60.0)
    assert mean_delay_ms(SEEN, [(200.0, 600.0)]) == pytest.approx(300.0)
    assert mean_delay_ms(SEEN, [(550.0, 600.0), (600.0, 650.0)]) == pytest.approx((125.0 + 85.0) / 2)
    assert mean_delay_ms(SEEN, [(900.0, 950.0)]) == 0.0


def test_a_load_shares_what_its_worker_has(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu\n")
    with Quotas(lambda: {"worker-1": 11, "worker-2": 12}, 0.25, tmp_path) as quotas:
        quotas.join("worker-2", 99)
        assert (quotas._folder / "worker-2" / "cgroup.procs").read_text() == "99"


def found(**loaded_ms: float) -> Data:
    means = {NONE: 400.0, PASSIVE: 450.0, HYBRID: 120.0, ACTIVE: 100.0}
    means |= {line: loaded_ms[line] for line in means if line in loaded_ms}
    return {
        _key(line, n): {"delay_ms": means[line] / 2, "loaded_ms": means[line] + n}
        for line in SCHEMES
        for n in range(TIMES)
    }


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, Verdict.REPRODUCED),
        ({HYBRID: 250.0}, Verdict.NOT),  # more than half of none's
        ({ACTIVE: 140.0}, Verdict.NOT),  # above hybrid
        ({PASSIVE: 300.0}, Verdict.IN_SHAPE),  # below none
        ({HYBRID: 190.0}, Verdict.IN_SHAPE),  # far above active standby
    ],
)
def test_a_difference_from_the_paper_is_found(change: dict[str, float], expected: Verdict) -> None:
    assert verdict(Z4W.checks(found(**change))) is expected
