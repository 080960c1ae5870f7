"""Checkpoint directories of jobs that are over are deleted, and nothing else."""

from __future__ import annotations

from pathlib import Path

from holdfast.services.spark.leftovers import LOOK_MS, Leftovers


def test_directories_of_jobs_that_are_over_are_deleted_and_no_others(tmp_path: Path) -> None:
    names = ("heavy.1-abcdef", "heavy.2-abcdef", "scratch", "heavy", "heavy.1-abcdef.old")
    for name in names:
        (tmp_path / name / "operator" / "1").mkdir(parents=True)
    over = {"1-abcdef"}
    leftovers = Leftovers(tmp_path, over.__contains__, run=lambda call: call())
    leftovers.look(0)
    assert {path.name for path in tmp_path.iterdir()} == set(names) - {"heavy.1-abcdef"}
    over.add("2-abcdef")
    leftovers.look(LOOK_MS - 1)
    assert (tmp_path / "heavy.2-abcdef").exists(), "it looks once a minute"
    leftovers.look(LOOK_MS)
    assert not (tmp_path / "heavy.2-abcdef").exists()


def test_a_directory_that_nobody_has_made_is_nothing_to_look_for(tmp_path: Path) -> None:
    Leftovers(tmp_path / "absent", lambda _: True, run=lambda call: call()).look(0)
