"""Savepoints in object stores, as fsspec reaches them: its memory, and a file system of this machine."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from holdfast.services.client.backups import Schedule, back_up, backups
from holdfast.services.client.places import COMMAND, StorePlace, place_of
from holdfast.services.client.savepoint_files import STATE, read_manifest, read_pieces
from holdfast.services.kernel.errors import CommandFailed
from tests.support.saved_site import SMALL, Site, feed, flights
from tests.unit.client.test_backups import BEGAN_S


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """URL of a folder that is not there yet."""
    url = f"memory://jobs/{tmp_path.name}" if request.param == "memory" else f"file://{tmp_path}/bucket/jobs"
    yield url
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


def place(url: str) -> StorePlace:
    found = place_of(url)
    assert isinstance(found, StorePlace)
    return found


def test_a_text_without_a_protocol_is_a_path() -> None:
    assert place_of("some/where") == Path("some/where")
    assert place_of("C:/some") == Path("C:/some")
    assert str(place_of("memory://jobs/flights/")) == "memory://jobs/flights"


def test_a_job_begins_with_a_savepoint_of_an_object_store(store: str) -> None:
    site = Site(SMALL)
    feed(site, 0, 40)
    saved = site.save(place(store))
    assert saved.entries
    assert [one.task for one in read_pieces(place(store), read_manifest(place(store)).tasks)]
    with pytest.raises(CommandFailed, match="is there already"):
        site.save(place(store))
    site.end()
    begun = site.begin(place(store), site.raw)
    assert begun.seed is not None
    assert begun.seed.batch == saved.manifest.batch
    feed(site, 40, 60)
    totals = {row["carrier"]: row for row in site.run.rows("totals").to_dicts()}
    late = [row for row in flights(0, 60) if int(str(row["delay"])) > 0]
    assert {carrier: row["n"] for carrier, row in totals.items()} == {
        carrier: sum(row["carrier"] == carrier for row in late) for carrier in "ABC"
    }


def test_an_unfinished_directory_is_removed_and_is_no_savepoint(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    site, folder = Site(SMALL), place(store)
    feed(site, 0, 20)
    monkeypatch.setattr("holdfast.services.client.savepoints.manifest_of", _raise)
    with pytest.raises(OSError, match="the store is full"):
        site.save(folder / "one")
    assert not (folder / "one" / STATE).exists()
    with pytest.raises(CommandFailed, match="holds no savepoint"):
        read_manifest(folder / "one")


def _raise(*_: object) -> Any:
    raise OSError(errno.ENOSPC, "the store is full")


def test_the_newest_backups_stay_in_an_object_store(store: str) -> None:
    site, folder, now_s = Site(SMALL), place(store), [BEGAN_S]
    feed(site, 0, 20)

    def wait(seconds: float) -> None:
        now_s[0] += seconds

    schedule = Schedule(60, 2)
    taken = [*islice(back_up(folder, schedule, lambda path: site.save(path), lambda: now_s[0], wait), 4)]
    assert [one.name for one in backups(folder)] == ["20260101T000200Z", "20260101T000300Z"]
    assert [[gone.name for gone in one.deleted] for one in taken] == [
        [],
        [],
        ["20260101T000000Z"],
        ["20260101T000100Z"],
    ]
    assert not (folder / "20260101T000000Z").exists()


def test_a_store_that_does_not_let_go_keeps_the_older_ones_and_the_next_is_taken(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, folder, now_s = Site(SMALL), place(store), [BEGAN_S]

    def wait(seconds: float) -> None:
        now_s[0] += seconds

    monkeypatch.setattr(StorePlace, "unlink", lambda self: self._asked("no_such_call"))
    taken = [*islice(back_up(folder, Schedule(60, 1), lambda path: site.save(path), lambda: now_s[0], wait), 2)]
    assert taken[1].saved is not None
    assert taken[1].trouble.startswith("older ones could not be deleted: AttributeError")
    assert len(backups(folder)) == 2


@pytest.mark.parametrize(
    ("url", "says", "hint"),
    [
        ("s3://bucket/jobs", "needs a package that is not installed here", "s3fs"),
        ("gs://bucket/jobs", "needs a package that is not installed here", "gcsfs"),
        ("nosuch://bucket/jobs", "names the protocol 'nosuch', which nobody knows", "s3://"),
    ],
)
def test_a_protocol_without_its_package_is_refused_with_the_package(url: str, says: str, hint: str) -> None:
    with pytest.raises(CommandFailed, match=says) as found:
        place_of(url)
    assert hint in found.value.hint


def test_without_fsspec_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(CommandFailed, match="fsspec is not installed here") as found:
        place_of("s3://bucket/jobs")
    assert found.value.hint == COMMAND == "pip install 'holdfast-streams[objectstore]'"
