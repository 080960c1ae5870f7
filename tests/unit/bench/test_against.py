"""Ratios of figures that were taken by turns, and what is stopped meanwhile."""

from __future__ import annotations

import math
import signal
import subprocess
from pathlib import Path
from random import Random

import pytest

from bench.against.command import signal_tree
from bench.rig.pairs import SURE, between, ratio
from tests.support.commands import until


def test_drift_that_both_sides_share_does_not_move_the_ratio() -> None:
    theirs = [100.0, 150.0, 80.0, 200.0, 120.0]
    found = ratio([0.9 * one for one in theirs], theirs)
    assert found.median == pytest.approx(0.9)
    assert (found.pairs, found.theirs) == (5, 120.0)
    assert found.low == found.high == pytest.approx(0.9)


def test_few_pairs_give_no_interval() -> None:
    assert math.isnan(ratio([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]).low)
    assert between([1.0, 2.0, 3.0, 4.0, 5.0]) == (1.0, 5.0)


def test_the_interval_holds_the_median_as_often_as_it_says() -> None:
    random, n = Random(1), 11
    held = 0
    for _ in range(2_000):
        low, high = between(sorted(random.random() for _ in range(n)))
        held += low <= 0.5 <= high
    assert SURE <= held / 2_000 <= 0.97, "the narrowest such pair"


def test_a_figure_without_a_second_one_gives_no_ratio() -> None:
    assert ratio([1.0, 5.0], [0.0, 10.0]).pairs == 1
    with pytest.raises(ValueError, match="no pair"):
        ratio([1.0], [0.0])


def test_a_cluster_that_is_not_measured_is_stopped_with_all_its_processes() -> None:
    shell = subprocess.Popen(["sh", "-c", "sleep 60 & echo $!; wait"], stdout=subprocess.PIPE, text=True)
    assert shell.stdout is not None
    processes = [shell.pid, int(shell.stdout.readline())]
    try:
        signal_tree(shell.pid, signal.SIGSTOP)
        until(lambda: states(processes) == {"T"}, "both are stopped")
        signal_tree(shell.pid, signal.SIGCONT)
        until(lambda: "T" not in states(processes), "both continue")
    finally:
        signal_tree(shell.pid, signal.SIGKILL)
        shell.communicate()


def states(processes: list[int]) -> set[str]:
    return {Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in processes}
