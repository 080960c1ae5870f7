"""Each worker has its share of a CPU, also after it came back as another process; both versions of control groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.research.papers.crowd import Piece, Setting, job
from bench.rig.followed import MeasureFailed
from bench.rig.quota import PERIOD_US, Quotas
from holdfast.services.planning.loader import load


def test_version_2_gets_a_limit_a_worker_and_processes_that_come_back_are_placed_again(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    workers = {"worker-1": 11, "worker-2": 12}
    quotas = Quotas(lambda: workers, 0.25, tmp_path)
    with quotas:
        group = quotas._folder / "worker-1"
        assert (quotas._folder / "cgroup.subtree_control").read_text() == "+cpu"
        assert (group / "cpu.max").read_text() == f"{PERIOD_US // 4} {PERIOD_US}"
        assert (group / "cgroup.procs").read_text() == "11"
        workers["worker-1"] = 13
        quotas.look()
        assert (group / "cgroup.procs").read_text() == "13"
    assert (tmp_path / "cgroup.procs").read_text() in ("12", "13"), "who still runs goes back to where it came from"


def test_version_1_gets_a_quota_and_a_period(tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    with Quotas(lambda: {"worker-1": 11}, 0.5, tmp_path) as quotas:
        group = quotas._folder / "worker-1"
        assert group.parent.parent == tmp_path / "cpu"
        assert (group / "cpu.cfs_quota_us").read_text() == str(PERIOD_US // 2)
        assert (group / "cpu.cfs_period_us").read_text() == str(PERIOD_US)


def test_the_measure_says_why_no_group_can_be_made_and_what_to_do(tmp_path: Path) -> None:
    with (
        pytest.raises(MeasureFailed, match=r"no CPU quota can be set below .*: run it as root"),
        Quotas(dict, 0.5, tmp_path),
    ):
        pass


def test_the_job_of_a_crowd_is_one_unit_a_piece() -> None:
    setting = Setting([Piece(10, 5)] * 3, 2, 0.5, {"policy": "individual", "interval_ms": 3_000})
    text = job(setting).substitute(name="x", topic="t")
    spec = load(text, "crowd.yaml").as_plain()
    assert [unit[0] for unit in spec["placement"]["units"]] == ["e0", "e1", "e2"]
    assert spec["fault_tolerance"]["checkpoint"]["policy"] == "individual"
