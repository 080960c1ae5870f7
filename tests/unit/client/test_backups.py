"""Backups come by their schedule, the newest stay, and nothing else in their folder is touched."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from holdfast.services.client.backups import Backup, Schedule, back_up, backups
from holdfast.services.client.places import StorePlace
from holdfast.services.client.savepoint_files import MANIFEST, read_manifest
from holdfast.services.client.savepoints import Saved
from holdfast.services.kernel.errors import CommandFailed
from tests.support.saved_site import SMALL, Site, feed

BEGAN_S = 1_767_225_600.0  # 2026-01-01T00:00:00Z


class Times:
    """A clock that waiting moves; a savepoint takes as long as it is told. fails: those that do, by number."""

    def __init__(self, *took_s: float, fails: tuple[int, ...] = ()) -> None:
        self.now_s, self._took_s, self._fails, self.begun_s = BEGAN_S, list(took_s), fails, list[float]()

    def wait(self, seconds: float) -> None:
        self.now_s += seconds

    def take(self, path: Path | StorePlace) -> Saved:
        assert isinstance(path, Path)
        self.begun_s.append(self.now_s - BEGAN_S)
        self.now_s += self._took_s.pop(0) if self._took_s else 1
        if len(self.begun_s) - 1 in self._fails:
            raise CommandFailed("no checkpoint", "try again")
        path.mkdir(parents=True)
        (path / MANIFEST).write_text("{}")
        return cast("Saved", SimpleNamespace())

    def run(self, folder: Path, count: int, keep: int = 2) -> list[Backup]:
        return [*islice(back_up(folder, Schedule(60, keep), self.take, lambda: self.now_s, self.wait), count)]


def test_the_newest_are_kept_and_what_is_no_backup_is_left_alone(tmp_path: Path) -> None:
    for name in ("notes", "20250101T000000Z"):
        (tmp_path / name).mkdir()
    taken = Times().run(tmp_path, 4)
    assert [one.name for one in backups(tmp_path)] == ["20260101T000200Z", "20260101T000300Z"]
    assert [[gone.name for gone in one.deleted] for one in taken] == [
        [],
        [],
        ["20260101T000000Z"],
        ["20260101T000100Z"],
    ]
    assert {one.name for one in tmp_path.iterdir()} >= {"notes", "20250101T000000Z"}, "which has no manifest"


def test_a_backup_longer_than_the_schedule_does_not_delay_the_moments_of_the_next_ones(tmp_path: Path) -> None:
    times = Times(1, 130, 1)
    times.run(tmp_path, 4)
    assert times.begun_s == [0, 60, 240, 300]


def test_a_failure_deletes_nothing_and_the_next_one_comes_at_its_time(tmp_path: Path) -> None:
    times = Times(fails=(2,))
    taken = times.run(tmp_path, 4)
    assert (taken[2].trouble, taken[2].saved, taken[2].deleted) == ("no checkpoint", None, ())
    assert [one.name for one in backups(tmp_path)] == ["20260101T000100Z", "20260101T000300Z"]
    assert times.begun_s == [0, 60, 120, 180]


def test_nothing_is_there_before_the_first_one(tmp_path: Path) -> None:
    assert backups(tmp_path / "none") == []


@pytest.mark.parametrize("keep", [1])
def test_a_job_continues_between_backups_and_each_is_one_to_begin_with(tmp_path: Path, keep: int) -> None:
    site = Site(SMALL)
    feed(site, 0, 20)
    now_s = [BEGAN_S]

    def wait(seconds: float) -> None:
        now_s[0] += seconds
        if seconds:
            feed(site, 20, 30)

    taking = back_up(tmp_path, Schedule(60, keep), site.save, lambda: now_s[0], wait)
    first, second = islice(taking, 2)
    assert first.saved is not None
    assert second.saved is not None
    assert second.deleted == (first.path,)
    assert read_manifest(second.path).batch == second.saved.manifest.batch > first.saved.manifest.batch
