"""Ratios and differences that the studies of takeovers and of overhead report."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from bench.catalogue import BY_NAME
from bench.measures import overhead as study
from bench.measures.counting import counting
from bench.measures.overhead import NONE, VARIANTS, Files, Variant, over_none, whole
from bench.measures.replicas import compared
from bench.measures.takeover_size import grown
from bench.rig.cluster import BenchCluster
from bench.rig.followed import MeasureFailed
from bench.rig.scale import Scale
from bench.rig.tap import Kept
from holdfast.services.log.protocol import Message


def test_a_replica_that_dies_adds_the_difference_of_the_medians() -> None:
    found = compared([40.0, 50.0, 400.0], [60.0, 55.0, 90.0])
    assert (found["worker_p50_ms"], found["with_replica_p50_ms"], found["added_ms"]) == (50, 60, 10)
    assert (found["worker_max_ms"], found["with_replica_max_ms"], found["kills_of_each"]) == (400, 90, 3)


def test_a_large_state_takes_so_many_times_as_long() -> None:
    found = grown([50.0, 40.0, 60.0], [80.0, 60.0, 500.0])
    assert (found["large_over_small"], found["small_max_ms"], found["large_max_ms"]) == (1.6, 60, 500)


@pytest.mark.slow
def test_counters_of_copies_add_little_to_a_batch() -> None:
    figures = counting(cast(BenchCluster, None), "x", Scale())
    assert all(figures[f"{kind}_share_percent"] < 10 for kind in ("small", "large", "keys")), figures


def test_every_scheme_is_set_against_none() -> None:
    found = {variant: {"bytes_in": 100.0, "records_per_s": 50_000.0, "entries": 0.0} for variant in VARIANTS}
    found["hybrid"] = {"bytes_in": 110.0, "records_per_s": 45_000.0, "entries": 1.0}
    figures = over_none(found)
    assert figures["hybrid_bytes_in_over_none"] == 1.1
    assert figures["hybrid_records_per_s_over_none"] == 0.9
    assert "hybrid_entries_over_none" not in figures, "none has no such thing"
    assert figures[f"{NONE}_bytes_in"] == 100
    targets = BY_NAME["overhead"].targets
    assert all(target.met(figures[name]) for name, target in targets.items())


def test_throughput_is_the_median_of_rounds_and_the_rest_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = {"none": [100.0, 10.0, 120.0], "hybrid": [95.0, 9.0, 400.0]}
    left = {variant: list(rates.get(name, [1.0, 1.0, 1.0])) for name, variant in VARIANTS.items()}

    def one(_: object, name: str, variant: Variant, scale: Scale, *, counted: bool) -> dict[str, float]:
        figures = {"records_per_s": left[variant].pop(0)}
        return figures | {"bytes_in": 7.0} if counted else figures

    monkeypatch.setattr(study, "_one", one)
    figures = study.overhead(cast(BenchCluster, SimpleNamespace(say=lambda text: None)), "x", Scale(rounds=3))
    assert (figures["none_records_per_s"], figures["hybrid_records_per_s"]) == (100, 95)
    assert (figures["hybrid_records_per_s_over_none"], figures["hybrid_bytes_in"]) == (0.95, 7)
    assert not any(left.values())


def test_bytes_that_were_trimmed_away_were_appended_anyway(tmp_path: Path) -> None:
    for folder, name in (("job.1.data-0", "0.log"), ("job.1.data-0", "0.index"), ("other-0", "0.log")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_bytes(b"x" * 100)
    files = Files(tmp_path, "job.1.")
    assert files.bytes() == 100
    (tmp_path / "job.1.data-0" / "0.log").unlink()
    (tmp_path / "job.1.data-0" / "7.log").write_bytes(b"x" * 30)
    assert files.bytes() == 130


def test_records_that_were_trimmed_before_they_were_read_are_not_counted_as_none() -> None:
    kept = [Kept(cast(Message, SimpleNamespace(offset=lambda at=at: at, value=lambda: b"x")), 0.0) for at in (4, 5, 7)]
    assert whole(kept, 4, 6) == [b"x", b"x"]
    with pytest.raises(MeasureFailed, match="1 of 4"):
        whole(kept, 4, 8)
