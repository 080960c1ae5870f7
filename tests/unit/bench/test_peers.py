"""Peers of the benchmark: their rates, and that one which cannot be had stops nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TextIO

import pytest

from bench.measures.peers import against
from bench.measures.peers.beside import delays
from bench.measures.peers.environment import PeerMissing, environment_of
from bench.measures.peers.measured import Sample, rates
from bench.measures.peers.peer import PEERS, PROGRAMS, Peer
from bench.rig import jobs
from bench.rig.cluster import BenchCluster
from bench.rig.figures import Figures
from bench.rig.followed import MeasureFailed
from bench.rig.scale import QUICK

OURS: Figures = {"records_per_s": 300.0, "cpu_s_per_million": 2.0}


def test_a_peer_s_rates_leave_out_its_start() -> None:
    samples = [Sample(0, 0, 0), Sample(10, 0, 8), Sample(11, 100, 9), Sample(12, 250, 10), Sample(13, 500, 11)]
    assert rates(samples) == {"records_per_s": 200, "cpu_s_per_million": 5000}
    with pytest.raises(MeasureFailed, match="more --records"):
        rates([Sample(0, 0, 0), Sample(1, 500, 1)])


def test_ours_is_told_as_a_multiple_and_a_peer_that_is_missing_is_said_and_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def missing() -> list[str]:
        raise PeerMissing("no such package")

    peers = (Peer("slow", "1", 10, lambda: ["slow"]), Peer("gone", "2", 10, missing))
    monkeypatch.setattr(against, "OURS", lambda *_: OURS)
    monkeypatch.setattr(against, "PEERS", peers)
    monkeypatch.setattr(against, "run_peer", lambda *_: {"records_per_s": 100.0, "cpu_s_per_million": 8.0})
    said: list[str] = []
    assert against.against_peers(BenchCluster(tmp_path, said.append), "peers", QUICK) == {
        **OURS,
        "slow_records_per_s": 100,
        "slow_cpu_s_per_million": 8,
        "speed_over_slow": 3,
        "cpu_below_slow": 4,
    }
    assert "  gone is left out: no such package" in said


def test_an_environment_counts_as_there_only_when_all_is_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path))
    steps: list[str] = []

    def run(command: list[str], stdout: TextIO, **_: object) -> subprocess.CompletedProcess[str]:
        steps.append(command[2])
        if command[2] == "venv":
            Path(command[-1]).mkdir(parents=True, exist_ok=True)
        stdout.write("no such version")
        return subprocess.CompletedProcess(command, 1 if steps == ["venv", "pip"] else 0)

    monkeypatch.setattr("subprocess.run", run)
    with pytest.raises(PeerMissing, match="no such version"):
        environment_of(["some==1"])
    assert environment_of(["some==1"]) == environment_of(["some==1"])
    assert steps == ["venv", "pip"] * 2, "failed, made again, then there"


def test_the_program_of_each_peer_is_there() -> None:
    for program in ("StreamsPeer.java", "bytewax_count.py", "quix_count.py", "faust_count.py"):
        assert (PROGRAMS / program).exists()
    assert len(PEERS) == 4


def test_a_record_is_out_with_the_first_row_that_counts_it() -> None:
    users = [jobs.key(index, 2).decode() for index in range(4)]
    assert users == ["user-0", "user-1", "user-0", "user-1"]
    rows = [("user-0", 1, 105.0), ("user-1", 2, 140.0), ("user-0", 2, 150.0), ("user-0", 2, 190.0)]
    assert delays([100.0, 110.0, 120.0, 130.0], 2, rows) == {0: 5.0, 1: 30.0, 3: 10.0, 2: 30.0}
